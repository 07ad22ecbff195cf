package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/gateway/internal/projection"
)

// failing stores no decision while it is told so.
type failing struct {
	journal.Journal
	now *atomic.Bool
}

func (f *failing) Decide(ctx context.Context, ref subject.Ref, d *hitl.Decision) (*journal.StoredDecision, bool, error) {
	if f.now.Load() {
		return nil, false, errors.New("not now")
	}
	return f.Journal.Decide(ctx, ref, d)
}

// lost is a world with a request without a deadline, whose worker told of its session.
func lost(t *testing.T) (*world, *nats.Conn, *hitl.Request) {
	w := newWorld(t)
	nc := w.connect()
	w.state(nc, hitl.SessionState{SessionID: "s1", Worker: "w1", Generation: 1, State: hitl.StateAssistantTurn})
	r := request("k1", func(r *hitl.Request) { zero := hitl.Duration(0); r.ExpiresIn = &zero })
	w.ask(nc, r)
	return w, nc, r
}

// The gateway that finds a worker gone may not be able to end what it asked: it tries
// again, and the others, who only hear of the verdict, do it as well.
func TestWhatALostWorkerAskedEnds_B37_B48(t *testing.T) {
	t.Parallel()
	for name, others := range map[string]int{"tries again": 0, "another gateway": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, _, r := lost(t)
			var c clock
			var fails atomic.Bool
			fails.Store(true)
			var log lockedLog
			e, _ := w.gateway(func(o *Options) {
				o.OrphanAfter, o.Clock, o.Journal = time.Minute, c.now, &failing{o.Journal, &fails}
				o.reviveGrace, o.beatGrace = time.Millisecond, time.Millisecond
				o.Logger = slog.New(slog.NewTextHandler(&log, nil))
			})
			pending(t, e, r.ID)
			for range others {
				other, _ := w.gateway(func(o *Options) { o.beatGrace = time.Millisecond })
				pending(t, other, r.ID)
			}
			c.jump(61 * time.Second)
			if others == 0 {
				require.Eventually(t, func() bool { return len(log.lines("orphan not settled")) > 1 }, patience, time.Millisecond)
				fails.Store(false)
			}
			require.Equal(t, hitl.Orphaned, outcome(t, e, r).Outcome)
		})
	}
}

// However many wait in however many sessions, and however long nothing can be stored:
// each is tried once at a time.
func TestWhatCannotBeEndedIsTriedOnceAtATime_B37(t *testing.T) {
	t.Parallel()
	w, nc, r := lost(t)
	want := []string{r.ID}
	for i := range 20 {
		more := request(fmt.Sprintf("more-%d", i), func(r *hitl.Request) { zero := hitl.Duration(0); r.ExpiresIn = &zero })
		w.ask(nc, more)
		want = append(want, more.ID)
	}
	var c clock
	var fails atomic.Bool
	fails.Store(true)
	var log lockedLog
	e, _ := w.gateway(func(o *Options) {
		o.OrphanAfter, o.Clock, o.Journal = time.Minute, c.now, &failing{o.Journal, &fails}
		o.reviveGrace, o.beatGrace = 10*time.Millisecond, 10*time.Millisecond
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	pending(t, e, want...)
	c.jump(61 * time.Second)
	rounds := func() int { return len(log.lines("orphan not settled")) / len(want) }
	require.Eventually(t, func() bool { return rounds() > 5 }, patience, time.Millisecond)
	most := 0
	for began := rounds(); rounds() < began+5; {
		most = max(most, runtime.NumGoroutine())
	}
	n := 0
	e.orphans.Range(func(any, any) bool { n++; return true })
	require.LessOrEqual(t, n, len(want))
	require.LessOrEqual(t, e.doubts.Waiting(), 1)
	require.Less(t, most, 5000, "goroutines of all tests that run beside this one")
	fails.Store(false)
	for _, id := range want {
		require.Eventually(t, func() bool {
			_, ok := e.view.Pending(subject.Ref{Tenant: ref(r).Tenant, Owner: ref(r).Owner, ID: subject.Token(id)})
			return !ok
		}, patience, time.Millisecond)
	}
	require.Equal(t, hitl.Orphaned, outcome(t, e, r).Outcome)
}

// unsaid stores no verdict while it is told so.
type unsaid struct {
	journal.Journal
	now *atomic.Bool
}

func (u *unsaid) WriteGatewayState(ctx context.Context, s subject.Session, data []byte) error {
	if u.now.Load() {
		return errors.New("not now")
	}
	return u.Journal.WriteGatewayState(ctx, s, data)
}

// A worker is found gone once. Where that cannot be stored, it is said later, unless the
// worker is back by then.
func TestAVerdictThatCannotBeStoredIsSaidLater_B37(t *testing.T) {
	t.Parallel()
	for name, back := range map[string]bool{"it stays away": false, "it is back": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, nc, r := lost(t)
			var c clock
			var fails atomic.Bool
			fails.Store(true)
			var log lockedLog
			e, _ := w.gateway(func(o *Options) {
				o.OrphanAfter, o.Clock, o.Journal = time.Minute, c.now, &unsaid{&failing{o.Journal, &fails}, &fails}
				o.reviveGrace, o.beatGrace = time.Millisecond, time.Millisecond
				o.Logger = slog.New(slog.NewTextHandler(&log, nil))
			})
			pending(t, e, r.ID)
			c.jump(61 * time.Second)
			require.Eventually(t, func() bool { return len(log.lines("verdict on a session not stored")) > 2 }, patience, time.Millisecond)
			gone := projection.Gone{Session: subject.NewSession("default", "agents", "s1")}
			gone.Verdict.Generation = 1
			require.True(t, e.view.Missed(gone))
			if !back {
				fails.Store(false)
				require.Equal(t, hitl.Orphaned, outcome(t, e, r).Outcome)
				return
			}
			raw, err := hitl.Marshal(hitl.Beat{V: 1, Worker: "w1", Runtimes: []string{"demo"}, Sessions: []string{"s1"}})
			require.NoError(t, err)
			require.NoError(t, nc.Publish(subject.Beat("default", "agents", "w1"), raw))
			require.NoError(t, nc.Flush())
			require.Eventually(t, func() bool { return e.view.Serves("default", "agents", "demo") }, patience, time.Millisecond)
			require.False(t, e.view.Missed(gone))
			require.Equal(t, hitl.StateAssistantTurn, e.Sessions()[0].State)
		})
	}
}

// A worker that was away for long, and not gone, beats again: what it asks from then
// on waits, although its session had been called dead.
func TestAWorkerThatComesBackIsBelieved_B37(t *testing.T) {
	t.Parallel()
	w, nc, r := lost(t)
	var c clock
	e, _ := w.gateway(func(o *Options) { o.OrphanAfter, o.Clock = time.Minute, c.now })
	pending(t, e, r.ID)
	c.jump(61 * time.Second)
	require.Equal(t, hitl.Orphaned, outcome(t, e, r).Outcome)
	state := func(e *Engine, want string) {
		require.Eventually(t, func() bool { return e.Sessions()[0].State == want }, patience, time.Millisecond)
	}
	state(e, hitl.StateDead)
	next := request("k2")
	raw := w.ask(nc, next) // before its heartbeat
	pending(t, e, next.ID)
	beat := func(worker string, sessions ...string) {
		raw, err := hitl.Marshal(hitl.Beat{V: 1, Worker: worker, Runtimes: []string{"demo"}, Sessions: sessions})
		require.NoError(t, err)
		require.NoError(t, nc.Publish(subject.Beat("default", "agents", worker), raw))
		require.NoError(t, nc.Flush())
	}
	beat("w2", "s1") // not its worker
	beat("w1", "s2") // not its session
	beat("w1", "s1")
	state(e, hitl.StateAssistantTurn)
	e.view.OrphanIfDead(subject.NewSession("default", "agents", "s1")) // the grace is over
	pending(t, e, next.ID)
	// A gateway that starts now finds the verdict, and hears the worker before it acts on it.
	other, _ := w.gateway()
	state(other, hitl.StateDead)
	pending(t, other, next.ID)
	require.Eventually(t, func() bool { // it may not have listened when the first one came
		beat("w1", "s1")
		return other.Sessions()[0].State == hitl.StateAssistantTurn
	}, patience, time.Millisecond)
	require.Equal(t, hitl.Accepted, other.Decide(t.Context(), answer(next, raw, "ada", allow)).Status)
}
