package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
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

// beat sends a worker's heartbeat.
func (w *world) beat(nc *nats.Conn, worker string, sessions ...string) {
	w.t.Helper()
	raw, err := hitl.Marshal(hitl.Beat{V: 1, Worker: worker, Runtimes: []string{"demo"}, Sessions: sessions})
	require.NoError(w.t, err)
	require.NoError(w.t, nc.Publish(subject.Beat("default", "agents", worker), raw))
	require.NoError(w.t, nc.Flush())
}

// hindered is a gateway that finds workers gone after a minute and stores no decision
// and, if mute, no verdict, while fails.
type hindered struct {
	*Engine
	clock clock
	log   lockedLog
	fails atomic.Bool
}

func (w *world) hindered(grace time.Duration, mute bool) *hindered {
	h := &hindered{}
	h.fails.Store(true)
	h.Engine, _ = w.gateway(func(o *Options) {
		o.OrphanAfter, o.Clock, o.Journal = time.Minute, h.clock.now, &failing{o.Journal, &h.fails}
		if mute {
			o.Journal = &unsaid{o.Journal, &h.fails}
		}
		o.reviveGrace, o.beatGrace = grace, grace
		o.Logger = slog.New(slog.NewTextHandler(&h.log, nil))
	})
	return h
}

// The gateway that finds a worker gone may not be able to end what it asked: it tries
// again, and the others, who only hear of the verdict, do it as well.
func TestWhatALostWorkerAskedEnds_B37_B48(t *testing.T) {
	t.Parallel()
	for name, others := range map[string]int{"tries again": 0, "another gateway": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, _, r := lost(t)
			h := w.hindered(time.Millisecond, false)
			e := h.Engine
			pending(t, e, r.ID)
			for range others {
				other, _ := w.gateway(func(o *Options) { o.beatGrace = time.Millisecond })
				pending(t, other, r.ID)
			}
			h.clock.jump(61 * time.Second)
			if others == 0 {
				require.Eventually(t, func() bool { return len(h.log.lines("orphan not settled")) > 1 }, patience, time.Millisecond)
				h.fails.Store(false)
			}
			require.Equal(t, hitl.Orphaned, outcome(t, e, r).Outcome)
		})
	}
}

// held lets each attempt to decide wait until it is told to fail, and knows how many
// waited at one time for one interaction.
type held struct {
	journal.Journal
	mu    sync.Mutex
	count map[subject.Ref]int
	all   int // under way
	most  int // for one interaction
	fail  chan struct{}
	well  atomic.Bool // nothing is held any more
}

func (h *held) Decide(ctx context.Context, ref subject.Ref, d *hitl.Decision) (*journal.StoredDecision, bool, error) {
	if h.well.Load() {
		return h.Journal.Decide(ctx, ref, d)
	}
	h.note(ref, 1)
	defer h.note(ref, -1)
	select {
	case <-h.fail:
		return nil, false, errors.New("not now")
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
}

func (h *held) note(ref subject.Ref, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.count[ref] += n
	h.all += n
	h.most = max(h.most, h.count[ref])
}

// However many wait in a session, and however often nothing can be stored: each of them
// is tried once at a time.
func TestWhatCannotBeEndedIsTriedOnceAtATime_B37(t *testing.T) {
	t.Parallel()
	w, nc, r := lost(t)
	all := []*hitl.Request{r}
	want := []string{r.ID}
	for i := range 9 {
		more := request(fmt.Sprintf("more-%d", i), func(r *hitl.Request) { zero := hitl.Duration(0); r.ExpiresIn = &zero })
		w.ask(nc, more)
		all, want = append(all, more), append(want, more.ID)
	}
	var c clock
	h := &held{count: map[subject.Ref]int{}, fail: make(chan struct{})}
	e, _ := w.gateway(func(o *Options) {
		h.Journal = o.Journal
		o.OrphanAfter, o.Clock, o.Journal = time.Minute, c.now, h
		o.reviveGrace, o.beatGrace = time.Millisecond, time.Millisecond
	})
	pending(t, e, want...)
	c.jump(61 * time.Second)
	for range 5 { // what fails in one round comes again in the next
		require.Eventually(t, func() bool {
			h.mu.Lock()
			defer h.mu.Unlock()
			return h.all >= len(want)
		}, patience, time.Millisecond)
		for range want {
			h.fail <- struct{}{}
		}
	}
	h.well.Store(true)
	close(h.fail)
	for _, r := range all {
		require.Equal(t, hitl.Orphaned, outcome(t, e, r).Outcome)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	require.Equal(t, 1, h.most)
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
			h := w.hindered(time.Millisecond, true)
			e := h.Engine
			pending(t, e, r.ID)
			h.clock.jump(61 * time.Second)
			require.Eventually(t, func() bool { return len(h.log.lines("verdict on a session not stored")) > 2 }, patience, time.Millisecond)
			gone := projection.Gone{Session: subject.NewSession("default", "agents", "s1")}
			gone.Verdict.Generation = 1
			require.True(t, e.view.Missed(gone))
			if !back {
				h.fails.Store(false)
				require.Equal(t, hitl.Orphaned, outcome(t, e, r).Outcome)
				return
			}
			w.beat(nc, "w1", "s1")
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
	w.beat(nc, "w2", "s1") // not its worker
	w.beat(nc, "w1", "s2") // not its session
	w.beat(nc, "w1", "s1")
	state(e, hitl.StateAssistantTurn)
	e.view.OrphanIfDead(subject.NewSession("default", "agents", "s1")) // the grace is over
	pending(t, e, next.ID)
	// A gateway that starts now finds the verdict, and hears the worker before it acts on it.
	other, _ := w.gateway()
	state(other, hitl.StateDead)
	pending(t, other, next.ID)
	require.Eventually(t, func() bool { // it may not have listened when the first one came
		w.beat(nc, "w1", "s1")
		return other.Sessions()[0].State == hitl.StateAssistantTurn
	}, patience, time.Millisecond)
	require.Equal(t, hitl.Accepted, other.Decide(t.Context(), answer(next, raw, "ada", allow)).Status)
}
