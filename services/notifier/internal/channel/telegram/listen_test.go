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
	slow  func(context.Context) // while a receipt is on its way; nil: it is there at once
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
		if s.slow != nil {
			s.slow(r.Context())
		}
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

func newService(t *testing.T) (*service, *Channel) {
	t.Helper()
	s := &service{polls: make(chan int64, 1000), told: make(chan string, 100)}
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	c, err := New(token, srv.URL, true)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return s, c
}

// A press is taken by its presser's own id, once each, by one replica at a time.
func TestButtonsOfTelegram_B57_B64_B65(t *testing.T) {
	t.Parallel()
	s, c := newService(t)
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

// A replica that takes long over many presses keeps what makes it the only one: no other
// takes and answers them, too. Telegram and the clock of the leases are doubles.
func TestASlowReplicaKeepsItsTurn_B65(t *testing.T) {
	t.Parallel()
	s := &service{polls: make(chan int64, 1000), told: make(chan string, 100)}
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	var mu sync.Mutex
	var now, until time.Duration
	holder, bounded := "", true
	other := make(chan struct{}, 1000) // one for each time that the second one asks
	s.slow = func(ctx context.Context) {
		mu.Lock()
		now += 18 * time.Second // the limits of the gateway and of Telegram together
		mu.Unlock()
		for range 1 + len(other) {
			select {
			case <-other:
			case <-ctx.Done():
			}
		}
	}
	g := &gateway{}
	desk := func(name string) *press.Desk {
		return &press.Desk{
			Gateway: func() press.Gateway { return g }, People: map[string]string{"42": "ada"}, Logger: slog.New(slog.DiscardHandler),
			Hold: func(ctx context.Context) (bool, error) {
				_, limited := ctx.Deadline()
				mu.Lock()
				defer mu.Unlock()
				bounded = bounded && limited
				mine := holder == name || until <= now
				if mine {
					holder, until = name, now+press.HoldFor
				}
				if name == "second" {
					other <- struct{}{}
				}
				return mine, nil
			},
		}
	}
	for i := range maxPolls {
		s.press(i+1, 42, "allow:ticket_x")
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
		require.NoError(t, <-done)
	})
	for _, name := range []string{"first", "second"} {
		c, err := New(token, srv.URL, true)
		require.NoError(t, err)
		t.Cleanup(c.Close)
		go func() { done <- c.Listen(ctx, desk(name)) }()
		if name == "first" {
			require.Zero(t, <-s.polls)
		}
	}
	told := map[string]int{}
	for limit := time.After(60 * time.Second); ; {
		select {
		case text := <-s.told:
			id, _, _ := strings.Cut(text, " ")
			told[id]++
			continue
		case offset := <-s.polls:
			if offset <= maxPolls {
				continue
			}
		case <-limit:
			t.Fatal("the presses are not taken")
		}
		break
	}
	require.Len(t, told, maxPolls)
	for id, n := range told {
		require.Equal(t, 1, n, id)
	}
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, "first", holder)
	require.True(t, bounded, "a lease that is waited for is out of date")
}

// A replica that is not the one any more leaves what it was told of to the one that is.
func TestAReplicaWhoseTurnIsOverTakesNoMorePresses_B65(t *testing.T) {
	t.Parallel()
	s, c := newService(t)
	g := &gateway{}
	answers := []bool{true, true, false, false, true, true, false}
	var once sync.Once
	asked := make(chan struct{})
	d := &press.Desk{
		Gateway: func() press.Gateway { return g }, People: map[string]string{"42": "ada"}, Logger: slog.New(slog.DiscardHandler),
		Hold: func(context.Context) (bool, error) {
			if len(answers) == 1 {
				once.Do(func() { close(asked) })
				return false, nil
			}
			mine := answers[0]
			answers = answers[1:]
			return mine, nil
		},
	}
	for i := range 3 {
		s.press(i+1, 42, "allow:ticket_x")
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Listen(ctx, d) }()
	<-asked
	cancel()
	require.NoError(t, <-done)
	require.Len(t, s.told, 2)
	require.Equal(t, []int64{0, 2}, []int64{<-s.polls, <-s.polls}, "what was taken is not asked for again, what was left is")
}

// What was pressed while nobody listened, perhaps hours ago, decides nothing; a press of
// the same button decides once somebody listens.
func TestAPressOfLongAgoDecidesNothing_B64(t *testing.T) {
	t.Parallel()
	s, c := newService(t)
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
