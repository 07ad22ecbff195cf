package ledger_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/natsd"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/notifier/internal/channel"
	"github.com/banksman/banksman/services/notifier/internal/ledger"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 20 * time.Second

var (
	ref = subject.Ref{Tenant: "default", Owner: "agents", ID: "id1"}
	key = ledger.Key{Ref: ref, Step: ledger.StepOpen, Channel: "hook"}
)

func planned() ledger.Entry {
	return ledger.Entry{State: ledger.Planned, DueAt: time.Now().UTC(), Alert: &channel.Alert{ID: "msg_1"}}
}

// server returns how to connect with a notifier's rights.
func server(t *testing.T) (connect func() *nats.Conn) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, natsd.Write(natsd.Plan{Dir: dir, Port: natsd.RandomPort, Durability: natsd.DurabilityRelaxed}))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	srv, err := natsd.Start(ctx, natsd.StartOptions{ConfigFile: natsd.ConfigFile(dir)})
	require.NoError(t, err)
	t.Cleanup(srv.Shutdown)
	cred, err := bus.LoadCredentials(natsd.CredentialsFile(dir, bus.RoleNotifier, "", ""))
	require.NoError(t, err)
	return func() *nats.Conn {
		auth, err := cred.Auth()
		require.NoError(t, err)
		closed := make(chan struct{})
		nc, err := nats.Connect(cred.URLs[0], auth, nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
		require.NoError(t, err)
		t.Cleanup(func() {
			nc.Close()
			<-closed
		})
		return nc
	}
}

// Replicas that start together make one bucket, and of all that claim a delivery
// one gets it.
func TestOneOfManyClaims(t *testing.T) {
	t.Parallel()
	connect := server(t)
	const replicas = 6
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var created, claimed, first atomic.Int32
	var ready, wg sync.WaitGroup
	ready.Add(replicas)
	for range replicas {
		nc := connect()
		wg.Go(func() {
			l, err := ledger.Open(ctx, nc, 1)
			if err != nil {
				t.Error(err)
				ready.Done()
				return
			}
			r, won, err := l.Create(ctx, key, planned())
			if err != nil {
				t.Error(err)
			}
			if won {
				created.Add(1)
			}
			ready.Done()
			ready.Wait() // all hold the same version now
			if r == nil {
				return
			}
			next := r.Entry
			next.State = ledger.Claimed
			stored, won, err := l.Update(ctx, r, next)
			if err != nil || stored == nil || stored.State != ledger.Claimed {
				t.Error("lost without seeing the winner", stored, err)
			}
			if won {
				claimed.Add(1)
			}
			if won, err := l.MarkOver(ctx, ref, ledger.Over{Outcome: "allowed"}); err != nil {
				t.Error(err)
			} else if won {
				first.Add(1)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 1, created.Load())
	require.EqualValues(t, 1, claimed.Load())
	require.EqualValues(t, 1, first.Load())
}

func TestWatchShowsTheNewestThenChanges(t *testing.T) {
	t.Parallel()
	l, err := ledger.Open(t.Context(), server(t)(), 1)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err = l.Get(ctx, key)
	require.ErrorIs(t, err, ledger.ErrNotFound)
	_, err = l.Over(ctx, ref)
	require.ErrorIs(t, err, ledger.ErrNotFound)

	r, won, err := l.Create(ctx, key, planned())
	require.NoError(t, err)
	require.True(t, won)
	next := r.Entry
	next.Tries = 1
	r, won, err = l.Update(ctx, r, next)
	require.NoError(t, err)
	require.True(t, won)
	mark := func(back bool) bool {
		was, err := l.MarkGone(ctx, ledger.Gone{Channel: "hook", Target: "t", Back: back})
		require.NoError(t, err)
		return was
	}
	require.False(t, mark(true), "it was never gone")
	require.True(t, mark(false))
	require.False(t, mark(false), "twice is once")

	seen := make(chan *ledger.Record, 10)
	gone := make(chan ledger.Gone, 10)
	ready := make(chan struct{})
	watch, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		done <- l.Watch(watch, ledger.Watcher{
			Delivery: func(r *ledger.Record) { seen <- r },
			Gone:     func(g ledger.Gone) { gone <- g },
			Ready:    func() { close(ready) },
			Broken:   func(key string, err error) { t.Error(key, err) },
		})
	}()
	<-ready
	require.Len(t, seen, 1)
	require.Equal(t, r, <-seen)
	require.Equal(t, "t", (<-gone).Target)
	require.True(t, mark(true))
	require.False(t, mark(true))
	require.True(t, (<-gone).Back)
	require.True(t, mark(false))
	require.False(t, (<-gone).Back)
	next.State, next.Alert = ledger.Sent, nil
	_, _, err = l.Update(ctx, r, next)
	require.NoError(t, err)
	require.Equal(t, ledger.Sent, (<-seen).State)

	_, won, err = l.Update(ctx, r, next)
	require.NoError(t, err)
	require.False(t, won, "of an old version")
	stop()
	require.ErrorIs(t, <-done, context.Canceled)
}

// A bucket that answers from followers would let a decided interaction pass for
// a pending one.
func TestDriftedBucketIsRefused(t *testing.T) {
	t.Parallel()
	nc := server(t)()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	_, err = js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: ledger.Bucket})
	require.NoError(t, err)
	_, err = ledger.Open(t.Context(), nc, 1)
	require.ErrorIs(t, err, ledger.ErrDrift)
	require.ErrorContains(t, err, "allow_direct")
}

// A closed connection is an end, not a reason to wait.
func TestClosedConnection(t *testing.T) {
	t.Parallel()
	nc := server(t)()
	l, err := ledger.Open(t.Context(), nc, 1)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel) // before the connection's own
	done := make(chan error, 1)
	ready := make(chan struct{})
	go func() {
		done <- l.Watch(ctx, ledger.Watcher{Ready: func() { close(ready) }})
	}()
	<-ready
	nc.Close()
	require.ErrorIs(t, <-done, ledger.ErrWatchEnded)
	_, err = l.Over(ctx, ref)
	require.ErrorIs(t, err, nats.ErrConnectionClosed)
}
