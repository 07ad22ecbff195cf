package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"github.com/stretchr/testify/require"
)

// posted is what a bot sends to Slack.
type posted struct {
	method string

	User, Text string
	Blocks     []struct {
		ID       string `json:"block_id"`
		Elements []struct {
			Action string `json:"action_id"`
			Value  string
		}
	}
}

// values are those of the message's buttons, by what they decide.
func (p posted) values() map[string]string {
	out := map[string]string{}
	for _, b := range p.Blocks {
		for _, e := range b.Elements {
			out[e.Action] = e.Value
		}
	}
	return out
}

// slack is a double, after its documentation: the thing itself cannot run here. Presses
// go over the socket that the notifier opens.
type slack struct {
	url     string
	posts   chan posted
	presses chan string // payloads
}

func newSlack(t *testing.T) *slack {
	t.Helper()
	s := &slack{posts: make(chan posted, 20), presses: make(chan string, 20)}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/auth.test":
			_, _ = w.Write([]byte(`{"ok":true,"team_id":"T1"}`))
		case "/apps.connections.open":
			_, _ = fmt.Fprintf(w, `{"ok":true,"url":"%s/link"}`, strings.Replace(s.url, "http", "ws", 1))
		case "/link":
			conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.CloseNow()
			err = wsjson.Write(t.Context(), conn, map[string]any{"type": "hello"})
			for n := 0; err == nil; n++ {
				select {
				case <-t.Context().Done(): // the request's own ends with nothing: its line was taken over
					return
				case p := <-s.presses:
					id := fmt.Sprint("e", n)
					err = wsjson.Write(t.Context(), conn, map[string]any{"type": "interactive", "envelope_id": id, "payload": json.RawMessage(p)})
					var ack map[string]any
					if err == nil {
						err = wsjson.Read(t.Context(), conn, &ack)
					}
					if err == nil && ack["envelope_id"] != id {
						t.Error("not what was sent: ", ack)
					}
				}
			}
		default:
			p := posted{method: strings.TrimPrefix(r.URL.Path, "/")}
			if err := json.NewDecoder(r.Body).Decode(&p); err != nil {
				t.Error(err)
			}
			s.posts <- p
			_, _ = w.Write([]byte(`{"ok":true,"channel":"C0123ABCD","ts":"1.1"}`))
		}
	}))
	t.Cleanup(srv.Close)
	s.url = srv.URL
	return s
}

// press presses a button as somebody of the workspace.
func (s *slack) press(account, decision, value string) {
	s.presses <- fmt.Sprintf(`{"type":"block_actions","team":{"id":"T1"},"user":{"id":%q,"team_id":"T1"},"channel":{"id":"C0123ABCD"},
		"actions":[{"type":"button","block_id":"decide","action_id":%q,"value":%q}]}`, account, decision, value)
}

// next is the next call of a method.
func (s *slack) next(t *testing.T, method string) posted {
	t.Helper()
	select {
	case p := <-s.posts:
		require.Equal(t, method, p.method)
		return p
	case <-time.After(patience):
		t.Fatal("no " + method)
	}
	panic("unreachable")
}

// A button of a chat decides, from the question in a terminal to the agent that goes on:
// by those on the list, once, and the message says how it ended.
func TestAButtonOfAChatDecides_B57_B65_B67(t *testing.T) {
	t.Parallel()
	h, s := newHome(t), newSlack(t)
	file := filepath.Join(t.TempDir(), "notify.yaml")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `
channels:
  - {name: chat, type: slack, url: %q, allow_private: true, token: xoxb-1, app_token: xapp-1, to: C0123ABCD, people: [{account: U1, user: owner}]}
recipients:
  - {name: me, user: owner, messages: 0, channels: [{channel: chat, decide: buttons}]}
routes:
  - {name: all, steps: [{after: 0s, to: [me]}]}
`, s.url), 0o600))
	h.upWithLogin("--notify", file)
	asker := h.ask("--tool", "Bash", "--input", `{"command":"make test"}`, "--title", "Test")
	values := s.next(t, "chat.postMessage").values()
	require.NotEmpty(t, values["allow"])
	require.Equal(t, values["allow"], values["deny"])
	s.press("U2", "allow", values["allow"])
	said := s.next(t, "chat.postEphemeral")
	require.Equal(t, []string{"U2", "Nothing was decided: you are not on the list of those who decide here."}, []string{said.User, said.Text})
	require.Len(t, h.waiting(1), 1)

	s.press("U1", "allow", values["allow"])
	require.Zero(t, asker.wait())
	told := map[string]posted{}
	for range 2 { // in whichever order
		select {
		case p := <-s.posts:
			told[p.method] = p
		case <-time.After(patience):
			t.Fatal("not told")
		}
	}
	require.Equal(t, "You have approved it.", told["chat.postEphemeral"].Text)
	require.Contains(t, told["chat.update"].Text, "Approved by")
	require.Empty(t, told["chat.update"].values(), "its buttons are gone")
	s.press("U1", "deny", values["deny"])
	require.Contains(t, s.next(t, "chat.postEphemeral").Text, "Too late: approved by")
}
