package telegram

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/notifier/internal/channel"
	"github.com/banksman/banksman/services/notifier/internal/channel/channeltest"
	"github.com/banksman/banksman/services/notifier/internal/channel/press"
)

// service keeps presses until they are asked for, as Telegram does.
type service struct {
	mu    sync.Mutex
	queue []map[string]any
	polls chan int64 // offsets
	told  chan string
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	var in struct {
		Offset int64
		ID     string `json:"callback_query_id"`
		Text   string
		Alert  bool `json:"show_alert"`
	}
	_ = json.Unmarshal(raw, &in)
	if strings.HasSuffix(r.URL.Path, "/answerCallbackQuery") {
		s.told <- in.ID + " " + in.Text
		_, _ = w.Write([]byte(`{"ok":true,"result":true}`))
		return
	}
	s.polls <- in.Offset
	deadline := time.After(200 * time.Millisecond)
	for {
		s.mu.Lock()
		var due []map[string]any
		for _, u := range s.queue {
			if int64(u["update_id"].(int)) >= in.Offset {
				due = append(due, u)
			}
		}
		s.mu.Unlock()
		if len(due) > 0 {
			_ = json.NewEncoder(w).Encode(map[string]any{"ok": true, "result": due})
			return
		}
		select {
		case <-deadline:
			_, _ = w.Write([]byte(`{"ok":true,"result":[]}`))
			return
		case <-r.Context().Done():
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (s *service) press(id int, from int64, data string) { s.pressBelow(time.Now(), id, from, data) }

// pressBelow presses below a message of a time.
func (s *service) pressBelow(sent time.Time, id int, from int64, data string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, map[string]any{
		"update_id": id, "callback_query": map[string]any{"id": "q" + data[:2] + string(rune('a'+id)), "from": map[string]any{"id": from}, "data": data, "message": map[string]any{"date": sent.Unix()}},
	})
}

type gateway struct {
	mu    sync.Mutex
	calls []wire.DecideCall
}

func (g *gateway) Call(_ context.Context, _ string, in, out any) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	out.(*wire.Receipt).Status = hitl.Accepted
	if len(g.calls) > 0 {
		out.(*wire.Receipt).Status = hitl.Duplicate
	}
	g.calls = append(g.calls, in.(wire.DecideCall))
	return nil
}

// A press is taken by its presser's own id, once each, by one replica at a time.
func TestButtonsOfTelegram_B57_B64_B65(t *testing.T) {
	t.Parallel()
	s := &service{polls: make(chan int64, 1000), told: make(chan string, 100)}
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	c, err := New(token, srv.URL, true)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	g := &gateway{}
	var mine sync.Mutex
	held := false
	asked := make(chan struct{}, 1000)
	d := &press.Desk{
		Gateway: func() press.Gateway { return g }, People: map[string]string{"42": "ada"}, Logger: slog.New(slog.DiscardHandler),
		Hold: func(context.Context) (bool, error) {
			asked <- struct{}{}
			mine.Lock()
			defer mine.Unlock()
			return held, nil
		},
	}
	listen := func() (stop func()) {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- c.Listen(ctx, d) }()
		return func() {
			cancel()
			require.NoError(t, <-done)
		}
	}
	next := func() string {
		select {
		case text := <-s.told:
			return text
		case <-time.After(20 * time.Second):
			t.Fatal("nobody was told")
			return ""
		}
	}
	stop := listen()
	<-asked
	<-asked
	require.Empty(t, s.polls, "another replica listens")
	mine.Lock()
	held = true
	mine.Unlock()
	s.press(1, 7, "allow:ticket_x")
	require.Contains(t, next(), "not on the list")
	s.press(2, 42, "allow:ticket_x")
	require.Contains(t, next(), "You have approved it.")
	stop()
	// Another replica, or the next start, does not know what was asked for.
	s.press(3, 42, "nonsense")
	stop = listen()
	var after []string
	for range 3 {
		after = append(after, next())
	}
	// What was taken is confirmed by the next question, so it does not come again.
	for limit := time.After(20 * time.Second); ; {
		select {
		case offset := <-s.polls:
			if offset < 4 {
				continue
			}
		case <-limit:
			t.Fatal("no question for what comes next")
		}
		break
	}
	stop()
	require.Empty(t, s.told)
	require.Contains(t, after[0], "not on the list")
	require.Contains(t, after[1], "You had approved it already.")
	require.Contains(t, after[2], "no button of ours")
	g.mu.Lock()
	defer g.mu.Unlock()
	require.Equal(t, wire.DecideCall{Token: "ticket_x", Person: "ada", AsTold: true, Response: hitl.Response{Decision: "allow"}}, g.calls[0])
	require.Len(t, g.calls, 2)
}

// What was pressed while nobody listened, perhaps hours ago, decides nothing; a press of
// the same button decides once somebody listens.
func TestAPressOfLongAgoDecidesNothing_B64(t *testing.T) {
	t.Parallel()
	s := &service{polls: make(chan int64, 1000), told: make(chan string, 100)}
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	c, err := New(token, srv.URL, true)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	g := &gateway{}
	d := &press.Desk{
		Gateway: func() press.Gateway { return g }, People: map[string]string{"42": "ada"}, Logger: slog.New(slog.DiscardHandler),
		Hold: func(context.Context) (bool, error) { return true, nil },
	}
	sent := time.Now().Add(-maxAge - time.Minute)
	s.pressBelow(sent, 1, 42, "allow:ticket_x")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Listen(ctx, d) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	require.Contains(t, <-s.told, tooOld)
	g.mu.Lock()
	require.Empty(t, g.calls)
	g.mu.Unlock()
	s.pressBelow(sent, 2, 42, "allow:ticket_x")
	require.Contains(t, <-s.told, "You have approved it.")
}

func TestButtonsStandBelowWhatTheyDecide(t *testing.T) {
	t.Parallel()
	a := channeltest.Alert(channel.Opened)
	require.Nil(t, compose(&a, true).Buttons)
	a.Act = &channel.Act{Token: "ticket_" + strings.Repeat("x", 43), Text: "make test"}
	for _, marked := range []bool{true, false} {
		a.Act.Allow = false
		m := compose(&a, marked)
		require.Equal(t, [][]button{{{"Deny", "deny:" + a.Act.Token}}}, m.Buttons.Rows)
		require.NotContains(t, m.Text, "make test")
		a.Act.Allow = true
		m = compose(&a, marked)
		require.Len(t, m.Buttons.Rows[0], 2)
		require.Contains(t, m.Text, "What is asked:\nmake test")
		for _, b := range m.Buttons.Rows[0] {
			require.LessOrEqual(t, len(b.Data), 64, "Telegram takes no more")
		}
	}
	closed := channeltest.Alert(channel.Closed)
	require.Nil(t, compose(&closed, true).Buttons, "an edit without a keyboard takes it away")
}
