package slack

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/services/notifier/internal/channel/press"
	"github.com/banksman/banksman/services/notifier/internal/metrics"
)

const appToken = "xapp-1-APPSECRET"

// hub is a double of Slack, after its documentation: nothing of Slack can run here. It
// opens sockets, sends envelopes, and takes what comes back.
type hub struct {
	url   string
	links chan *link   // that were opened
	told  chan message // what whoever pressed was told
	opens chan struct{}

	mu     sync.Mutex
	refuse string // the error of apps.connections.open
	lead   string // where sockets are, in place of this hub
}

// link is one socket.
type link struct {
	t    testing.TB
	conn *websocket.Conn
	acks chan string // envelopes that were said to have arrived
}

func newHub(t testing.TB) *hub {
	t.Helper()
	h := &hub{links: make(chan *link, 10), told: make(chan message, 100), opens: make(chan struct{}, 100)}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.serve(t, w, r) }))
	t.Cleanup(s.Close)
	h.url = s.URL
	return h
}

func (h *hub) serve(t testing.TB, w http.ResponseWriter, r *http.Request) {
	with := r.Header.Get("Authorization")
	switch r.URL.Path {
	case "/api/auth.test":
		if with != "Bearer "+token {
			t.Error("auth.test: a wrong token")
		}
		_, _ = w.Write([]byte(`{"ok":true,"team_id":"T1"}`))
	case "/api/apps.connections.open":
		if with != "Bearer "+appToken {
			t.Error("apps.connections.open: a wrong token")
		}
		h.mu.Lock()
		refuse, lead := h.refuse, h.lead
		h.mu.Unlock()
		if lead == "" {
			lead = strings.Replace(h.url, "http", "ws", 1)
		}
		if refuse != "" {
			_, _ = fmt.Fprintf(w, `{"ok":false,"error":%q}`, refuse)
		} else {
			_, _ = fmt.Fprintf(w, `{"ok":true,"url":"%s/link/?ticket=TICKETSECRET&app_id=A1"}`, lead)
		}
		h.opens <- struct{}{}
	case "/api/chat.postEphemeral":
		var m message
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil || with != "Bearer "+token {
			t.Error("chat.postEphemeral: ", err)
		}
		h.told <- m
		_, _ = w.Write([]byte(`{"ok":true}`))
	case "/link/":
		conn, err := (&websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}).Upgrade(w, r, nil)
		if err != nil || r.URL.Query().Get("ticket") != "TICKETSECRET" {
			t.Error("a wrong socket: ", err)
			return
		}
		l := &link{t: t, conn: conn, acks: make(chan string, 100)}
		defer func() { _ = conn.Close() }()
		l.send(map[string]any{"type": "hello", "num_connections": 1, "connection_info": map[string]string{"app_id": "A1"}})
		h.links <- l
		for {
			var ack struct {
				Envelope string `json:"envelope_id"`
			}
			if conn.ReadJSON(&ack) != nil {
				return
			}
			l.acks <- ack.Envelope
		}
	default:
		t.Error("a wrong call: " + r.URL.Path)
	}
}

// send is called by the hub as well, in a fuzz target without its T.
func (l *link) send(m any) {
	if err := l.conn.WriteJSON(m); err != nil {
		l.t.Error(err)
	}
}

// envelope sends what Slack sends of a press, or sends it again.
func (l *link) envelope(id, payload string, again int) {
	l.send(map[string]any{
		"type": "interactive", "envelope_id": id, "payload": json.RawMessage(payload), "accepts_response_payload": true, "retry_attempt": again,
	})
}

// replica takes presses over a socket until stop, or the test's end.
func (h *hub) replica(t testing.TB, g press.Gateway, log *slog.Logger) (b *Bot, stop func()) {
	t.Helper()
	b, err := NewBot(token, h.url+"/api/", true, Buttons{AppToken: appToken})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	d := &press.Desk{Gateway: func() press.Gateway { return g }, People: map[string]string{"U1": "ada", "U2": "bob"}, Logger: log}
	go func() { done <- b.Listen(ctx, d) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
		b.Close()
	})
	return b, stop
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// got is the next of a channel, within a generous time.
func got[T any](t testing.TB, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(30 * time.Second):
		t.Fatal("nothing came")
	}
	panic("unreachable")
}

// Whichever replica an envelope comes to takes it, and it decides once, however often and
// wherever it comes, by whom the list names, after the line was renewed or cut as well.
func TestButtonsOverASocket_B57_B64_B65_B73(t *testing.T) {
	t.Parallel()
	h, g := newHub(t), &gateway{used: map[string]string{}}
	one, _ := h.replica(t, g, quiet())
	first := got(t, h.links)
	two, _ := h.replica(t, g, quiet())
	second := got(t, h.links)
	n := 0
	press := func(l *link, payload, to, want string) {
		t.Helper()
		n++
		id := fmt.Sprint("e", n)
		l.envelope(id, payload, 0)
		require.Equal(t, id, got(t, l.acks))
		m := got(t, h.told)
		require.Equal(t, []string{"C1", to, want}, []string{m.Channel, m.User, m.Text})
	}
	press(first, payload("U3", "deny", "ticket_x"), "U3", "Nothing was decided: you are not on the list of those who decide here.")
	press(second, payload("U1", "review", "ticket_x"), "U1", "Nothing was decided: this is no button of ours.")
	press(first, payload("U1", "deny", "ticket_forged"), "U1", "Nothing was decided: the token is unknown or has expired.")
	press(second, payloadIn("T2", "T2", "U1", "deny", "ticket_x"), "U1", "Nothing was decided: only people of the bot's own workspace decide here.")
	require.Empty(t, g.decided())
	// What is not of ours is said to have arrived, and nothing more.
	first.send(map[string]any{"type": "slash_commands", "envelope_id": "s1", "payload": map[string]string{"command": "/x"}})
	require.Equal(t, "s1", got(t, first.acks))
	first.envelope("v1", `{"type":"view_submission"}`, 0)
	require.Equal(t, "v1", got(t, first.acks))

	// The line is renewed, as Slack does every few hours.
	first.send(map[string]any{"type": "disconnect", "reason": "refresh_requested"})
	first = got(t, h.links)
	press(first, payload("U1", "deny", "ticket_x"), "U1", "You have denied it.")
	// Slack sends it again, to the other replica.
	second.envelope("e5", payload("U1", "deny", "ticket_x"), 1)
	require.Equal(t, "e5", got(t, second.acks))
	require.Equal(t, "You had denied it already.", got(t, h.told).Text)
	// The line is cut.
	require.NoError(t, second.conn.Close())
	second = got(t, h.links)
	press(second, payload("U2", "allow", "ticket_x"), "U2", "Too late: denied by ada at "+now.UTC().Format("15:04 UTC")+".")
	require.Equal(t, "ada deny", g.decided())
	for _, b := range []*Bot{one, two} {
		require.Eventually(t, func() bool { return b.Socket() == metrics.SocketOpen }, 30*time.Second, time.Millisecond)
	}
	require.Empty(t, h.told)
}

// Slack hears that a press has arrived before it is decided, however long that takes, and
// a replica that stops finishes it. What is too much is left to Slack, which says so to
// whoever pressed.
func TestASocketSaysAtOnceThatAPressArrived_B64(t *testing.T) {
	t.Parallel()
	h, g := newHub(t), &queued{asked: make(chan struct{}, maxPresses), answer: make(chan struct{}), g: gateway{used: map[string]string{}}}
	_, stop := h.replica(t, g, quiet())
	l := got(t, h.links)
	for i := range maxPresses {
		id := fmt.Sprint("e", i)
		l.envelope(id, payload("U1", "deny", "ticket_x"), 0)
		require.Equal(t, id, got(t, l.acks))
		got(t, g.asked)
	}
	l.envelope("too much", payload("U1", "deny", "ticket_x"), 0)
	l.send(map[string]any{"type": "slash_commands", "envelope_id": "after", "payload": map[string]string{}})
	require.Equal(t, "after", got(t, l.acks))
	stop()
	close(g.answer)
	words := map[string]int{}
	for range maxPresses {
		words[got(t, h.told).Text]++
	}
	require.Equal(t, map[string]int{"You have denied it.": 1, "You had denied it already.": maxPresses - 1}, words)
}

// queued is a gateway that says what it was asked, and answers when it may.
type queued struct {
	asked, answer chan struct{}
	g             gateway
}

func (q *queued) Call(ctx context.Context, verb string, in, out any) error {
	q.asked <- struct{}{}
	<-q.answer
	if err := ctx.Err(); err != nil {
		return err
	}
	return q.g.Call(ctx, verb, in, out)
}

// A token that Slack does not take is said once, by the setting's name and without what is
// secret, whether the library tries again by itself or not, and ends nothing.
func TestATokenThatSlackRefusesIsSaidOnce(t *testing.T) {
	t.Parallel()
	for code, again := range map[string]bool{"invalid_auth": false, "not_allowed_token_type": true} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			h, log := newHub(t), &logged{}
			h.refuse = code
			b, _ := h.replica(t, &gateway{}, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})))
			got(t, h.opens)
			if again {
				got(t, h.opens)
				got(t, h.opens)
			}
			require.Eventually(t, func() bool { return b.Socket() == metrics.SocketRefused }, 30*time.Second, time.Millisecond)
			require.Equal(t, 1, strings.Count(log.String(), "setting=app_token error="+code), log.String())
			require.NotContains(t, log.String(), "SECRET")
			if !again {
				return
			}
			// It is mended at Slack.
			h.mu.Lock()
			h.refuse = ""
			h.mu.Unlock()
			got(t, h.links)
			require.Eventually(t, func() bool { return b.Socket() == metrics.SocketOpen }, 30*time.Second, time.Millisecond)
		})
	}
}

// The address of a socket has a ticket in it, and no log has that.
func TestNoLogHasTheAddressOfASocket(t *testing.T) {
	t.Parallel()
	closed := httptest.NewServer(nil)
	closed.Close()
	for name, lead := range map[string]string{"nobody there": "ws" + strings.TrimPrefix(closed.URL, "http"), "no address": "ws://[::1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, log := newHub(t), &logged{}
			h.lead = lead
			b, _ := h.replica(t, &gateway{}, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})))
			got(t, h.opens)
			require.Eventually(t, func() bool { return strings.Contains(log.String(), "cannot be opened") }, 30*time.Second, time.Millisecond)
			require.NotContains(t, log.String(), "SECRET")
			require.Equal(t, metrics.SocketOpening, b.Socket())
		})
	}
}

// A socket goes where the channel may go: over TLS, and not inside.
func TestASocketGoesWhereTheChannelMay(t *testing.T) {
	t.Parallel()
	_, _, err := dialer(false).DialContext(t.Context(), "ws://192.0.2.1/", nil)
	require.ErrorIs(t, err, errPlain)
	inside := httptest.NewTLSServer(nil)
	t.Cleanup(inside.Close)
	_, _, err = dialer(false).DialContext(t.Context(), strings.Replace(inside.URL, "https", "wss", 1), nil)
	require.ErrorContains(t, err, "address is not allowed")
}
