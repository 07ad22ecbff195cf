package notifier_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/notifier"
)

var quiet = slog.New(slog.DiscardHandler)

// loaded is a configuration as a file has it.
func loaded(t *testing.T, text string) notifier.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "notifier.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	cfg, err := notifier.LoadConfig(file)
	require.NoError(t, err)
	return cfg
}

// A service that is asked first gets a signed test, with all and by its name; what it
// answers decides nothing, and no token of it goes out.
func TestATestTriesDeciders(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status        int
		answer        string
		said, problem string
	}{
		"nothing to say": {status: 204, said: "status 204"},
		"a decision":     {status: 200, answer: `{"decision":"allow","digest":"d"}`, said: "status 200; it said allow, which decides nothing here"},
		"an odd word":    {status: 200, answer: `{"decision":"yes","digest":"d"}`, said: "status 200"},
		"refused":        {status: 401, answer: "no signature holds", problem: "status 401"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			service := newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.answer) // 204 takes none
			})
			people := newReceiver(t, nil)
			cfg := people.asking(t, service.URL, "2s").Config
			for only, n := range map[string]int{"": 2, "policy": 1} {
				got, err := notifier.Test(t.Context(), quiet, cfg, nil, baseURL, only)
				require.NoError(t, err)
				require.Len(t, got, n)
				last := got[n-1]
				require.Equal(t, "policy", last.Address)
				require.True(t, last.Decider)
				require.Equal(t, c.said, last.Said)
				require.Contains(t, last.Problem, c.problem)
				require.Equal(t, c.problem == "", last.Problem == "")
				asked := service.next(t) // its signature is checked
				require.Equal(t, "banksman.test", asked.Type)
				require.NotContains(t, asked.Raw, "of-the-service")
			}
			require.Len(t, people.calls, 1)
		})
	}
	t.Run("nobody there", func(t *testing.T) {
		t.Parallel()
		gone := httptest.NewServer(nil)
		gone.Close()
		cfg := newReceiver(t, nil).asking(t, gone.URL, "2s").Config
		got, err := notifier.Test(t.Context(), quiet, cfg, nil, "", "policy")
		require.NoError(t, err)
		require.Len(t, got, 1)
		require.Contains(t, got[0].Problem, "refused")
	})
}

// The same on the bus: with the notifier's credentials, or it is said that they are
// missing.
func TestATestTriesDecidersOnTheBus(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	cfg := newReceiver(t, nil).askingBy(t, "caller: policy", "2s").Config
	try := func(cred *bus.Credentials) notifier.Tested {
		t.Helper()
		got, err := notifier.Test(t.Context(), quiet, cfg, cred, "", "policy")
		require.NoError(t, err)
		require.Len(t, got, 1)
		return got[0]
	}
	require.Contains(t, try(nil).Problem, "needs the notifier's credentials")
	require.Contains(t, try(b.cred).Problem, "nobody listens on hitl.decider.default.policy")

	nc := b.connectAs(t, bus.RoleCaller, "policy")
	answers, asked := make(chan string, 3), make(chan *nats.Msg, 3)
	_, err := nc.Subscribe(subject.Decider(bus.DefaultTenant, "policy"), func(m *nats.Msg) {
		asked <- m
		_ = m.Respond([]byte(<-answers))
	})
	require.NoError(t, err)
	require.NoError(t, nc.Flush())
	for answer, said := range map[string]string{
		"": "an empty answer", "hello": "an answer",
		`{"decision":"deny","digest":"d"}`: "an answer; it said deny, which decides nothing here",
	} {
		answers <- answer
		got := try(b.cred)
		require.Empty(t, got.Problem)
		require.Equal(t, said, got.Said)
		var ev struct{ Type, Subject string }
		require.NoError(t, json.Unmarshal((<-asked).Data, &ev))
		require.Equal(t, "banksman.test", ev.Type)
	}
}

// Credentials are asked for by what needs them and by nothing else: neither by a chat
// whose buttons are pressed, nor by an address beside the pushes. Telegram is a double.
func TestATestAsksForCredentialsWhereTheyAreNeeded(t *testing.T) {
	t.Parallel()
	chat := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"ok":true,"result":{"message_id":7,"chat":{"id":1}}}`)
	}))
	t.Cleanup(chat.Close)
	cfg := loaded(t, fmt.Sprintf(`
channels:
  - {name: out, type: log}
  - {name: chat, type: telegram, url: %q, token: "123:abcdefghijklmnopqrstuvwxyz0123456789", allow_private: true, people: [{account: "5", user: ada}]}
  - {name: browser, type: push}
recipients:
  - {name: ada, user: ada, channels: [{channel: browser}, {channel: chat, to: "1"}]}
  - {name: bob, channels: [{channel: out}]}
routes:
  - {name: all, steps: [{to: [ada, bob]}]}
`, chat.URL))
	for only, want := range map[string][]string{"bob": {"bob/out"}, "ada/chat": {"ada/chat"}, "ada/browser": {"ada/browser"}, "": {"bob/out", "ada/chat", "ada/browser"}} {
		got, err := notifier.Test(t.Context(), quiet, cfg, nil, "", only)
		require.NoError(t, err)
		var names []string
		for _, r := range got {
			names = append(names, r.Address)
			if r.Address == "ada/browser" {
				require.Contains(t, r.Problem, "needs the notifier's credentials")
				continue
			}
			require.Empty(t, r.Problem, r.Address)
		}
		require.Equal(t, want, names)
	}
}

// A server that cannot be reached fails what needs it, once, and nothing else.
func TestATestWithoutAServerTriesTheRest(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.srv.Shutdown()
	people := newReceiver(t, nil)
	cfg := people.askingBy(t, "caller: policy", "2s").Config
	cfg.Deciders = append(cfg.Deciders, notifier.Decider{Name: "other", Caller: "other", Token: "banksman_of-another"})
	got, err := notifier.Test(t.Context(), quiet, cfg, b.cred, "", "")
	require.NoError(t, err)
	require.Len(t, got, 3)
	require.Empty(t, got[0].Problem)
	people.next(t)
	require.Contains(t, got[1].Problem, "connect to NATS")
	require.Equal(t, got[1].Problem, got[2].Problem)
}
