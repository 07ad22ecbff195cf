package auth_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/services/gateway/internal/auth"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// The embedded server's own, which outlive its shutdown by a moment.
		goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server.(*fileStore).flushLoop"),
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*fileStore).syncBlocks"),
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.startSystemInfo"),
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server/pse.updateUsage"),
	)
}

const patience = 20 * time.Second

var ada = hitl.Principal{Kind: "person", ID: "owner", Name: "Ada"}

// clock is a clock that tests set.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time        { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *clock) later(d time.Duration) { c.ahead.Add(int64(d)) }

// bus is a real server with the product's bucket.
type bus struct {
	t   *testing.T
	srv *server.Server
	clk *clock
}

func newBus(t *testing.T) *bus {
	t.Helper()
	srv, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: -1, JetStream: true, JetStreamMaxStore: 64 << 30, StoreDir: t.TempDir(), NoSigs: true, NoLog: true, MaxPayload: 8 << 20,
	})
	require.NoError(t, err)
	srv.Start()
	require.True(t, srv.ReadyForConnections(patience))
	t.Cleanup(func() {
		srv.Shutdown()
		srv.WaitForShutdown()
	})
	b := &bus{t, srv, &clock{}}
	require.NoError(t, journal.Provision(t.Context(), b.connect(), journal.Config{}))
	return b
}

func (b *bus) connect() *nats.Conn {
	b.t.Helper()
	closed := make(chan struct{})
	nc, err := nats.Connect(b.srv.ClientURL(), nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
	require.NoError(b.t, err)
	b.t.Cleanup(func() {
		nc.Close()
		<-closed
	})
	return nc
}

// store is that of one gateway.
func (b *bus) store() *auth.Store {
	b.t.Helper()
	s, err := auth.Open(b.t.Context(), auth.Options{
		Conn: b.connect(), Logger: slog.New(slog.DiscardHandler), Clock: b.clk.now, Person: ada,
	})
	require.NoError(b.t, err)
	return s
}

func TestLinkSignsInOnce(t *testing.T) {
	t.Parallel()
	t.Run("one of 100 racing exchanges on two gateways wins", func(t *testing.T) {
		t.Parallel()
		b := newBus(t)
		stores := []*auth.Store{b.store(), b.store()}
		link, _, err := stores[0].Link(t.Context())
		require.NoError(t, err)
		var won atomic.Int64
		var wg sync.WaitGroup
		errs := make(chan error, 100)
		for i := range 100 {
			wg.Go(func() {
				token, sess, err := stores[i%2].Exchange(t.Context(), link)
				if err != nil {
					errs <- err
					return
				}
				won.Add(1)
				if sess.Person != ada || token == "" {
					errs <- fmt.Errorf("session of %v", sess.Person)
				}
			})
		}
		wg.Wait()
		close(errs)
		require.EqualValues(t, 1, won.Load())
		n := 0
		for err := range errs {
			n++
			require.ErrorIs(t, err, auth.ErrUnknown)
		}
		require.Equal(t, 99, n)
	})
	t.Run("only for ten minutes", func(t *testing.T) {
		t.Parallel()
		b := newBus(t)
		s := b.store()
		link, expires, err := s.Link(t.Context())
		require.NoError(t, err)
		require.WithinDuration(t, time.Now().Add(10*time.Minute), expires, time.Minute)
		b.clk.later(10 * time.Minute)
		_, _, err = s.Exchange(t.Context(), link)
		require.ErrorIs(t, err, auth.ErrUnknown)
	})
	t.Run("nothing else is a link", func(t *testing.T) {
		t.Parallel()
		s := newBus(t).store()
		session, _, err := s.Grant(t.Context())
		require.NoError(t, err)
		for _, token := range []string{"", "x", "*", ">", "a.b", session, session + "=", session[:42]} {
			_, _, err := s.Exchange(t.Context(), token)
			require.ErrorIs(t, err, auth.ErrUnknown, token)
		}
	})
}

func TestLinksAskedForOverTheBusAreBounded(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	s := b.store()
	var token string
	for range 20 {
		var err error
		token, _, err = s.RequestLink(t.Context())
		require.NoError(t, err)
	}
	_, _, err := s.RequestLink(t.Context())
	require.ErrorIs(t, err, auth.ErrBusy, "unused links would fill the bucket until nobody can sign in")
	_, _, err = s.Link(t.Context())
	require.NoError(t, err, "a starting gateway still prints one")
	_, _, err = s.Exchange(t.Context(), token)
	require.NoError(t, err)
	b.clk.later(auth.LinkTTL)
	_, _, err = s.RequestLink(t.Context())
	require.NoError(t, err, "those that expired make room")
}

func TestSessions(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	s := b.store()
	link, _, err := s.Link(t.Context())
	require.NoError(t, err)
	token, sess, err := s.Exchange(t.Context(), link)
	require.NoError(t, err)
	require.Equal(t, "session", sess.Assurance)
	require.Equal(t, "web", sess.Channel)

	// Another gateway, or this one after a restart, knows it.
	other := b.store()
	got, err := other.Check(t.Context(), token)
	require.NoError(t, err)
	require.Equal(t, sess, got)
	_, err = other.Check(t.Context(), link)
	require.ErrorIs(t, err, auth.ErrUnknown, "a link is no session")

	second, _, err := s.Grant(t.Context())
	require.NoError(t, err)
	require.NoError(t, other.Revoke(t.Context(), sess.Hash))
	_, err = s.Check(t.Context(), token)
	require.ErrorIs(t, err, auth.ErrUnknown)
	_, err = s.Check(t.Context(), second)
	require.NoError(t, err)
	b.clk.later(30 * 24 * time.Hour)
	_, err = s.Check(t.Context(), second)
	require.ErrorIs(t, err, auth.ErrUnknown)
}

func TestUnreachableStoreIsNotUnknown(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	s := b.store()
	token, _, err := s.Grant(t.Context())
	require.NoError(t, err)
	b.srv.Shutdown()
	b.srv.WaitForShutdown()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = s.Check(ctx, token)
	require.ErrorIs(t, err, auth.ErrUnavailable)
	require.NotErrorIs(t, err, auth.ErrUnknown)
}

func TestTheBucketGivesNoTokenAway(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	s := b.store()
	link, _, err := s.Link(t.Context())
	require.NoError(t, err)
	session, _, err := s.Grant(t.Context())
	require.NoError(t, err)
	_, poll, err := s.RequestCLI(t.Context(), "laptop", false)
	require.NoError(t, err)
	js, err := jetstream.New(b.connect())
	require.NoError(t, err)
	stream, err := js.Stream(t.Context(), "KV_"+auth.Bucket)
	require.NoError(t, err)
	info, err := stream.Info(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 3, info.State.Msgs)
	for seq := info.State.FirstSeq; seq <= info.State.LastSeq; seq++ {
		m, err := stream.GetMsg(t.Context(), seq)
		require.NoError(t, err)
		for _, secret := range []string{link, session, poll, poll[len(poll)-43:]} {
			require.NotContains(t, m.Subject+" "+string(m.Data), secret)
		}
	}
}

func TestTerminalLogin(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	b := newBus(t)
	s := b.store()
	req, poll, err := s.RequestCLI(ctx, " my\n\x1b[31mlaptop ", false)
	require.NoError(t, err)
	require.Len(t, req.Code, 8)
	require.Equal(t, "my ⟦U+001B⟧[31mlaptop", req.Name)

	t.Run("it waits for a person", func(t *testing.T) {
		got, token, sess, err := s.PollCLI(ctx, poll)
		require.NoError(t, err)
		require.Equal(t, req.Code, got.Code)
		require.Empty(t, token)
		require.Nil(t, sess)
		list, err := s.WaitingCLI(ctx)
		require.NoError(t, err)
		require.Equal(t, []auth.CLIRequest{req}, list)
	})
	t.Run("whoever only saw the code gets nothing", func(t *testing.T) {
		_, other, err := s.RequestCLI(ctx, "other", false)
		require.NoError(t, err)
		for _, guess := range []string{"", req.Code, req.Code + ".", req.Code + other[8:], "AAAAAAAA." + poll[9:], "*." + poll[9:]} {
			_, _, _, err := s.PollCLI(ctx, guess)
			require.ErrorIs(t, err, auth.ErrUnknown, guess)
		}
	})
	t.Run("allowed, one poll of 50 gets the session", func(t *testing.T) {
		require.NoError(t, s.ConfirmCLI(ctx, req.Code, true, ada))
		require.ErrorIs(t, s.ConfirmCLI(ctx, req.Code, false, ada), auth.ErrUnknown, "it was answered")
		var mu sync.Mutex
		var tokens []string
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				_, token, _, err := s.PollCLI(ctx, poll)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					tokens = append(tokens, token)
				} else if !errors.Is(err, auth.ErrUnknown) {
					tokens = append(tokens, err.Error())
				}
			})
		}
		wg.Wait()
		require.Len(t, tokens, 1)
		sess, err := s.Check(ctx, tokens[0])
		require.NoError(t, err)
		require.Equal(t, "cli", sess.Channel)
		require.Equal(t, ada, sess.Person)
		require.WithinDuration(t, time.Now().Add(12*time.Hour), sess.ExpiresAt, time.Minute)
	})
	t.Run("denied", func(t *testing.T) {
		req, poll, err := s.RequestCLI(ctx, "x", false)
		require.NoError(t, err)
		require.NoError(t, s.ConfirmCLI(ctx, req.Code, false, ada))
		_, _, _, err = s.PollCLI(ctx, poll)
		require.ErrorIs(t, err, auth.ErrDenied)
		_, _, _, err = s.PollCLI(ctx, poll)
		require.ErrorIs(t, err, auth.ErrUnknown)
	})
	t.Run("so many may wait, and expired ones make room", func(t *testing.T) {
		var poll string
		for {
			req, p, err := s.RequestCLI(ctx, "flood", false)
			if err != nil {
				require.ErrorIs(t, err, auth.ErrBusy)
				require.ErrorIs(t, s.ConfirmCLI(ctx, "A"+req.Code, true, ada), auth.ErrUnknown)
				break
			}
			poll = p
		}
		list, err := s.WaitingCLI(ctx)
		require.NoError(t, err)
		require.Len(t, list, 20)
		b.clk.later(10 * time.Minute)
		require.ErrorIs(t, s.ConfirmCLI(ctx, poll[:8], true, ada), auth.ErrUnknown)
		_, _, _, err = s.PollCLI(ctx, poll)
		require.ErrorIs(t, err, auth.ErrUnknown)
		_, _, err = s.RequestCLI(ctx, "again", false)
		require.NoError(t, err)
	})
}

func TestFollowTellsWhatHappensOnAnyGateway(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	here, there := b.store(), b.store()
	ctx, cancel := context.WithCancel(t.Context())
	notices := make(chan auth.Notice, 100)
	done := make(chan error, 1)
	go func() { done <- here.Follow(ctx, func(n auth.Notice) { notices <- n }) }()
	next := func(want func(auth.Notice) bool) auth.Notice {
		t.Helper()
		for {
			select {
			case n := <-notices:
				if want(n) {
					return n
				}
			case <-time.After(patience):
				t.Fatal("nothing was told")
			}
		}
	}
	// Following has begun when a sign-in is told.
	require.Eventually(t, func() bool {
		_, _, err := there.Grant(t.Context())
		require.NoError(t, err)
		select {
		case n := <-notices:
			return n.SignedIn != nil
		case <-time.After(20 * time.Millisecond):
			return false
		}
	}, patience, time.Millisecond)
	_, sess, err := there.Grant(t.Context())
	require.NoError(t, err)
	n := next(func(n auth.Notice) bool { return n.SignedIn != nil && n.SignedIn.Hash == sess.Hash })
	told := *sess
	told.Rights = nil // those are asked for when they matter
	require.Equal(t, &told, n.SignedIn)
	require.NoError(t, there.Revoke(t.Context(), sess.Hash))
	next(func(n auth.Notice) bool { return n.Ended == sess.Hash })
	req, _, err := there.RequestCLI(t.Context(), "laptop", false)
	require.NoError(t, err)
	require.Equal(t, req, *next(func(n auth.Notice) bool { return n.Waiting != nil }).Waiting)
	require.NoError(t, there.ConfirmCLI(t.Context(), req.Code, true, ada))
	require.Equal(t, req.Code, next(func(n auth.Notice) bool { return n.Settled != "" }).Settled)
	cancel()
	require.NoError(t, <-done)
}

// What cannot be read signs nobody in, and keeps nobody else from it.
func TestABrokenRecordCountsForNothing(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	s := b.store()
	js, err := jetstream.New(b.connect())
	require.NoError(t, err)
	kv, err := js.KeyValue(t.Context(), auth.Bucket)
	require.NoError(t, err)
	const good = `{"v":1,"person":{"kind":"person","id":"owner"},"channel":"web","expires_at":"2999-01-01T00:00:00Z"}`
	for i, text := range []string{good, `{`, `{"v":2` + good[6:], `{"v":1,` + good[1:], `{"v":1,"expires_at":"2999-01-01T00:00:00Z"}`} {
		for _, kind := range []string{"session.", "link.", "cli."} {
			_, err := kv.PutString(t.Context(), fmt.Sprintf("%s%d", kind, i), text)
			require.NoError(t, err)
		}
	}
	for i := range 5 {
		_, err := s.CheckHash(t.Context(), fmt.Sprint(i))
		if i == 0 {
			require.NoError(t, err, "the record as such is one")
			continue
		}
		require.ErrorIs(t, err, auth.ErrUnknown)
	}
	_, _, err = s.RequestLink(t.Context())
	require.NoError(t, err)
	_, _, err = s.RequestCLI(t.Context(), "terminal", false)
	require.NoError(t, err)
}
