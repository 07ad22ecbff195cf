package slack

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/services/notifier/internal/channel/press"
)

// logged is a log that can be read while it is written.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// A press counts of the workspace that the bot is of, or that the configuration names, by
// somebody who is at home there: an account's id says nothing in another one.
func TestAPressCountsInItsWorkspaceAlone_B57(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		setting    string
		team, home string
		counts     bool
	}{
		"the bot's own":             {"", "T1", "T1", true},
		"without the presser's own": {"", "T1", "", true},
		"another":                   {"", "T2", "T2", false},
		"none":                      {"", "", "", false},
		"a guest of another":        {"", "T1", "T2", false},
		"the configured one":        {"T2", "T2", "T2", true},
		"the bot's, not configured": {"T2", "T1", "T1", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			told, asked := make(chan message, 1), make(chan struct{}, 10)
			slackAPI := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/auth.test" {
					asked <- struct{}{}
					_, _ = w.Write([]byte(`{"ok":true,"team":"Example","team_id":"T1","user_id":"U9","bot_id":"B1"}`))
					return
				}
				var m message
				if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
					t.Error(err)
				}
				told <- m
				_, _ = w.Write([]byte(`{"ok":true}`))
			}))
			t.Cleanup(slackAPI.Close)
			g := &gateway{used: map[string]string{}}
			post, _ := serve(t, slackAPI.URL, Buttons{Team: c.setting}, g, slog.New(slog.DiscardHandler))
			body := form(payloadIn(c.team, c.home, "U1", "deny", "ticket_x"))
			require.Eventually(t, func() bool { return post(body) == http.StatusOK }, 20*time.Second, 5*time.Millisecond)
			m := <-told
			if c.counts {
				require.Equal(t, "You have denied it.", m.Text)
				require.Equal(t, "ada deny", g.decided())
			} else {
				require.Equal(t, "Nothing was decided: only people of the bot's own workspace decide here.", m.Text)
				require.Empty(t, g.decided())
			}
			require.Len(t, asked, map[bool]int{true: 1, false: 0}[c.setting == ""])
		})
	}
}

// serve takes presses over HTTP until stop, or the test's end; post sends one as Slack does.
func serve(t *testing.T, api string, o Buttons, g press.Gateway, log *slog.Logger) (post func(body string) int, stop func()) {
	t.Helper()
	o.Secret, o.Listen, o.Clock = signing, "127.0.0.1:0", func() time.Time { return now }
	b, err := NewBot(token, api, true, o)
	require.NoError(t, err)
	t.Cleanup(b.Close)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	d := &press.Desk{Gateway: func() press.Gateway { return g }, People: map[string]string{"U1": "ada"}, Logger: log}
	go func() { done <- b.serve(ctx, l, d) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
	})
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	stamp := strconv.FormatInt(now.Unix(), 10)
	return func(body string) int {
		req, err := http.NewRequest(http.MethodPost, "http://"+l.Addr().String()+Path, strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("X-Slack-Request-Timestamp", stamp)
		req.Header.Set("X-Slack-Signature", sign(signing, stamp, body))
		res, err := client.Do(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		return res.StatusCode
	}, stop
}

// Where Slack does not say whose workspace it is, nothing counts and Slack is told so; the
// log says once which setting it is about.
func TestNoPressCountsOfAnUnknownWorkspace_B57(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 10)
	slackAPI := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/auth.test" {
			t.Error("a wrong call: " + r.URL.Path)
		}
		_, _ = w.Write([]byte(`{"ok":false,"error":"invalid_auth"}`))
		asked <- struct{}{}
	}))
	t.Cleanup(slackAPI.Close)
	g, log := &gateway{used: map[string]string{}}, &logged{}
	post, _ := serve(t, slackAPI.URL, Buttons{}, g, slog.New(slog.NewTextHandler(log, nil)))
	<-asked
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "setting=token") }, 20*time.Second, 5*time.Millisecond)
	require.Contains(t, log.String(), "invalid_auth")
	require.NotContains(t, log.String(), "TOKENSECRET")
	require.Equal(t, http.StatusServiceUnavailable, post(form(payload("U1", "deny", "ticket_x"))))
	require.Empty(t, g.decided())
}

// slow answers when it is told to.
type slow struct {
	gateway
	asked, answer chan struct{}
}

func (s *slow) Call(ctx context.Context, verb string, in, out any) error {
	close(s.asked)
	<-s.answer
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.gateway.Call(ctx, verb, in, out)
}

// Slack was told that a press has arrived, and does not send it again: a notifier that
// stops finishes it.
func TestAPressThatWasTakenIsFinished_B64(t *testing.T) {
	t.Parallel()
	told := make(chan message, 1)
	slackAPI := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m message
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
			t.Error(err)
		}
		told <- m
		_, _ = w.Write([]byte(`{"ok":true}`))
	}))
	t.Cleanup(slackAPI.Close)
	g := &slow{gateway{used: map[string]string{}}, make(chan struct{}), make(chan struct{})}
	post, stop := serve(t, slackAPI.URL, Buttons{Team: "T1"}, g, slog.New(slog.DiscardHandler))
	require.Equal(t, http.StatusOK, post(form(payload("U1", "deny", "ticket_x"))))
	<-g.asked
	stop()
	close(g.answer)
	require.Equal(t, "You have denied it.", (<-told).Text)
	require.Equal(t, "ada deny", g.decided())
}
