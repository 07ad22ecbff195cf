package engine

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
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
	beat("w1", "s1")
	state(other, hitl.StateAssistantTurn)
	require.Equal(t, hitl.Accepted, other.Decide(t.Context(), answer(next, raw, "ada", allow)).Status)
}
