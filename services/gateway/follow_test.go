package gateway_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway"
	"github.com/banksman/banksman/services/gateway/internal/contract/contracttest"
)

// step is what a follower was told: a text of the conversation, or why the
// stream is over.
type step struct {
	text   string // of a text event
	cursor string // empty: not the last event of its cursor
	reset  bool   // what follows is the whole
	live   bool   // what is stored has been told
	end    string // why it is over: "gone", "slow", "sign in", another word
}

// follower is one way to follow a session. All must tell the same.
type follower interface {
	next() step
	close()
}

// follow opens a follower of a session after a cursor, with a token.
type follow func(t *testing.T, g *running, token, session, from string) follower

var followers = map[string]follow{"WebSocket": followSocket, "HTTP and SSE": followStream}

type socketFollower struct {
	t    *testing.T
	conn *websocket.Conn
	box  []step
	told contracttest.Socket
}

func followSocket(t *testing.T, g *running, token, session, from string) follower {
	t.Helper()
	conn, _, err := websocket.Dial(t.Context(), "ws://"+g.Addr()+"/api/ws", nil)
	require.NoError(t, err)
	conn.SetReadLimit(64 << 20)
	c, err := published()
	require.NoError(t, err)
	f := &socketFollower{t: t, conn: conn, told: contracttest.Socket{Contract: c}}
	t.Cleanup(f.close)
	for _, frame := range []wire.Client{
		{Type: wire.TypeAuth, Token: token},
		{Type: wire.TypeSubscribe, From: from, Response: hitl.Response{Ref: "s", SessionID: session}},
	} {
		raw, err := hitl.Marshal(frame)
		require.NoError(t, err)
		f.told.Sent(raw)
		if conn.Write(t.Context(), websocket.MessageText, raw) != nil {
			break // the answer says why
		}
	}
	return f
}

func (f *socketFollower) close() { _ = f.conn.CloseNow() }

func (f *socketFollower) next() step {
	f.t.Helper()
	for len(f.box) == 0 {
		ctx, cancel := context.WithTimeout(f.t.Context(), patience)
		_, raw, err := f.conn.Read(ctx)
		cancel()
		if err != nil {
			require.NotErrorIs(f.t, err, context.DeadlineExceeded)
			return step{end: f.why(int(websocket.CloseStatus(err)))}
		}
		require.NoError(f.t, f.told.Received(raw))
		frames, err := f.told.ServerMessage(raw)
		require.NoError(f.t, err)
		for _, raw := range frames {
			var e wire.Events
			require.NoError(f.t, json.Unmarshal(raw, &e))
			if e.Type == wire.TypePing {
				_ = f.conn.Write(f.t.Context(), websocket.MessageText, []byte(`{"type":"pong"}`)) // else the next read says why
			}
			if e.Type != wire.TypeEvent {
				continue
			}
			if e.Reset {
				f.box = append(f.box, step{reset: true})
			}
			for i, ev := range e.Events {
				s := textOf(f.t, ev.Type, ev.Data)
				if i == len(e.Events)-1 || e.Events[i+1].Cursor != ev.Cursor {
					s.cursor = ev.Cursor
				}
				f.box = append(f.box, s)
			}
			f.box = append(f.box, step{live: !e.More})
		}
	}
	s := f.box[0]
	f.box = f.box[1:]
	return s
}

// why says what a close code means, and that its range says the same.
func (f *socketFollower) why(code int) string {
	f.t.Helper()
	words := map[int]string{
		wire.CloseSlow: "slow", wire.CloseRestart: "gone", wire.CloseBadAuth: "sign in",
		// Cut, as a stream is, or told that it did not answer: nothing went through.
		-1: "over", wire.CloseStale: "over",
	}
	require.Contains(f.t, words, code)
	require.Equal(f.t, words[code] != "sign in", wire.Reconnect(code))
	return words[code]
}

func textOf(t *testing.T, typ string, data json.RawMessage) step {
	t.Helper()
	if typ != hitl.EventText {
		return step{}
	}
	var d wire.TextData
	require.NoError(t, json.Unmarshal(data, &d))
	return step{text: strings.TrimRight(d.Text, " x")}
}

type streamFollower struct {
	t     *testing.T
	res   *http.Response
	lines *bufio.Scanner
	end   context.CancelFunc
}

func followStream(t *testing.T, g *running, token, session, from string) follower {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+g.Addr()+"/api/sessions/"+session+"/events", nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	if from != "" {
		req.Header.Set("Last-Event-ID", from)
	}
	res, err := g.client().Do(req)
	require.NoError(t, err)
	f := &streamFollower{t: t, res: res, lines: bufio.NewScanner(res.Body), end: cancel}
	f.lines.Buffer(nil, 8<<20)
	t.Cleanup(f.close)
	return f
}

func (f *streamFollower) close() {
	f.end()
	_ = f.res.Body.Close()
}

func (f *streamFollower) next() step {
	f.t.Helper()
	if f.res.StatusCode == http.StatusUnauthorized {
		return step{end: "sign in"}
	}
	require.Equal(f.t, 200, f.res.StatusCode)
	cursor, typ, data := "", "", ""
	for f.lines.Scan() {
		switch key, value, _ := strings.Cut(f.lines.Text(), ": "); {
		case key == "id":
			cursor = value
		case key == "event":
			typ = value
		case key == "data":
			data = value
		case key == "" && value == "live":
			return step{live: true}
		case f.lines.Text() != "" || typ == "":
		case typ == "reset":
			return step{reset: true}
		default: // whole: an empty line has ended it
			s := textOf(f.t, typ, json.RawMessage(data))
			s.cursor = cursor
			return s
		}
	}
	return step{end: "over"} // the stream has no word for why
}

// told reads until a text is there and returns all texts, their last cursor and
// whether the whole was told anew.
func told(t *testing.T, f follower, last string) (texts []string, cursor string, reset bool) {
	t.Helper()
	for {
		s := f.next()
		require.Empty(t, s.end)
		reset = reset || s.reset
		if s.cursor != "" {
			cursor = s.cursor
		}
		if s.text != "" {
			texts = append(texts, s.text)
		}
		if s.text == last {
			return texts, cursor, reset
		}
	}
}

func numbers(from, to int) (list []string) {
	for i := from; i <= to; i++ {
		list = append(list, fmt.Sprint(i))
	}
	return list
}

// say tells the conversation the numbers from..to, each with a filling.
func say(t *testing.T, hold *bus.Hold, from, to, filling int) {
	t.Helper()
	for _, n := range numbers(from, to) {
		data, err := hitl.Marshal(wire.TextData{Role: "assistant", Text: n + " " + strings.Repeat("x", filling)})
		require.NoError(t, err)
		require.NoError(t, hold.Event(t.Context(), hitl.Event{Type: hitl.EventText, Data: data}))
	}
}

// One suite for every way to follow a session, over two gateways: what is told,
// after a cut, on another gateway, after a cursor that is no good, when the
// reader is slow, when the gateway leaves, and when the sign-in is no good.
func TestFollowersAgree_D0_30_D1_29_B19_invariant8(t *testing.T) {
	t.Parallel()
	for name, open := range followers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			one := s.gateway()
			two := s.gateway(func(o *gateway.Options) { o.TestLogin += "-2" })
			agents, sessions := s.client("agents"), 0
			start := func(t *testing.T) (key string, hold *bus.Hold) {
				sessions++
				session := fmt.Sprint("s", sessions)
				hold, err := agents.Claim(t.Context(), &hitl.SessionState{SessionID: session, Worker: "w", Generation: 1, Runtime: "demo", State: hitl.StateUserTurn})
				require.NoError(t, err)
				say(t, hold, 1, 1, 0)
				key = agents.Session(session).String()
				for _, g := range []*running{one, two} {
					require.Eventually(t, func() bool {
						_, raw := g.call(http.MethodGet, "/api/sessions", g.token, "")
						return strings.Contains(string(raw), `"`+key+`"`)
					}, patience, 5*time.Millisecond)
				}
				return key, hold
			}
			t.Run("D1-29 goes on after a cut and on another gateway, without loss and without doubling", func(t *testing.T) {
				key, hold := start(t)
				f := open(t, one, one.token, key, "")
				texts, _, reset := told(t, f, "1")
				require.True(t, reset, "the whole from the beginning")
				var all []string
				all = append(all, texts...)
				from := 2
				for _, g := range []*running{two, one, two, two} {
					say(t, hold, from, from+9, 10)
					texts, cursor, _ := told(t, f, fmt.Sprint(from+4)) // live, or what is stored
					all = append(all, texts...)
					f.close()
					say(t, hold, from+10, from+19, 10) // while it is away
					f = open(t, g, g.token, key, cursor)
					texts, _, reset = told(t, f, fmt.Sprint(from+19))
					require.False(t, reset)
					all = append(all, texts...)
					from += 20
				}
				require.Equal(t, numbers(1, from-1), all)
			})
			t.Run("C-07 a cursor of other streams, of no form, or of the future gets the whole", func(t *testing.T) {
				key, hold := start(t)
				say(t, hold, 2, 5, 0)
				f := open(t, one, one.token, key, "")
				_, good, _ := told(t, f, "5")
				raw, err := base64.RawURLEncoding.DecodeString(good)
				require.NoError(t, err)
				var at [4]int64
				_, err = fmt.Sscanf(string(raw), "%d.%d.%d.%d", &at[0], &at[1], &at[2], &at[3])
				require.NoError(t, err)
				for name, change := range map[string]func(){
					"other events": func() { at[0]++ }, "other transcripts": func() { at[2]++ }, "the future": func() { at[3] += 1000 },
				} {
					before := at
					change()
					bad := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d.%d.%d.%d", at[0], at[1], at[2], at[3]))
					at = before
					texts, _, reset := told(t, open(t, two, two.token, key, bad), "5")
					require.True(t, reset, name)
					require.Equal(t, numbers(1, 5), texts, name)
				}
				texts, _, reset := told(t, open(t, two, two.token, key, "garbage"), "5")
				require.True(t, reset)
				require.Equal(t, numbers(1, 5), texts)
			})
			t.Run("a reader that is too slow is cut, and comes back without loss", func(t *testing.T) {
				key, hold := start(t)
				f := open(t, one, one.token, key, "")
				_, cursor, _ := told(t, f, "1")
				const n = 50 // 10 MB: more than the kernel holds
				say(t, hold, 2, n, 200<<10)
				all, cuts := []string{"1"}, 0
				// As a page does, it comes back as often as it is cut: a busy machine
				// makes a reader slow again.
				for len(all) < n {
					for len(all) < n {
						s := f.next()
						require.False(t, s.reset)
						if s.end != "" {
							require.Contains(t, []string{"slow", "over"}, s.end)
							cuts++
							break
						}
						if s.text != "" {
							all = append(all, s.text)
						}
						if s.cursor != "" {
							cursor = s.cursor
						}
					}
					if len(all) < n {
						f = open(t, two, two.token, key, cursor)
					}
				}
				require.Positive(t, cuts, "it was cut before the end")
				require.Equal(t, numbers(1, n), all)
			})
			t.Run("a token that is no good is told to sign in", func(t *testing.T) {
				key, _ := start(t)
				require.Equal(t, "sign in", open(t, one, "made-up", key, "").next().end)
			})
			t.Run("a trimmed position gets the whole of what is left", func(t *testing.T) {
				key, hold := start(t)
				f := open(t, one, one.token, key, "")
				_, early, _ := told(t, f, "1")
				say(t, hold, 2, 9, 0)
				told(t, f, "9")
				var reply struct {
					Success bool
					Error   json.RawMessage
				}
				m, err := s.connect(bus.RoleProvisioner).Request("$JS.API.STREAM.PURGE."+journal.Transcripts, []byte(`{"keep":3}`), patience)
				require.NoError(t, err)
				require.NoError(t, json.Unmarshal(m.Data, &reply))
				require.True(t, reply.Success, string(m.Data))
				texts, _, reset := told(t, open(t, two, two.token, key, early), "9")
				require.True(t, reset)
				require.Equal(t, numbers(7, 9), texts)
			})
			t.Run("a gateway that leaves says so, and the other goes on", func(t *testing.T) {
				key, hold := start(t)
				f := open(t, one, one.token, key, "")
				_, cursor, _ := told(t, f, "1")
				require.NoError(t, one.stop())
				for {
					s := f.next()
					if s.end != "" {
						require.Contains(t, []string{"gone", "over"}, s.end)
						break
					}
				}
				say(t, hold, 2, 4, 0)
				texts, _, reset := told(t, open(t, two, two.token, key, cursor), "4")
				require.False(t, reset)
				require.Equal(t, numbers(2, 4), texts)
			})
		})
	}
}

// The bus has no stream of a session. What a caller and an asker do there goes
// on when a gateway leaves: each call is answered, by the one or the other.
func TestTheBusGoesOnWhenAGatewayLeaves_D0_30_B48(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	one := s.gateway()
	two := s.gateway(func(o *gateway.Options) { o.TestLogin += "-2" })
	cli := s.client("cli")
	tr := &overBus{t, cli, two.token}
	got := askFor(t, s.client("agents"), request("k"))
	sum := tr.seen(hitl.ID(bus.DefaultTenant, "agents", "k", 1))
	leaving := make(chan error, 1)
	go func() { leaving <- one.stop() }()
	for gone := false; !gone; {
		tr.list(wire.StatePending) // requires an answer
		select {
		case err := <-leaving:
			require.NoError(t, err)
			gone = true
		default:
		}
	}
	rec := tr.decide(answerTo(sum, func(in *hitl.Response) { in.Decision = "allow" }))
	require.Equal(t, hitl.Accepted, rec.Status, rec.Error)
	require.Equal(t, hitl.Allowed, take(t, got).Decision.Outcome)
}
