package engine

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
)

// A gateway whose clock is more than 2 s off the server's is not ready, and is
// again once the clock is right.
func TestReadinessFailsOnAWrongClock_invariant9(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, off := range map[string]time.Duration{"ahead": 3 * time.Second, "behind": -3 * time.Second} {
		t.Run(name, func(t *testing.T) {
			var c clock
			e, _ := w.gateway(func(o *Options) { o.Clock = c.now })
			require.NoError(t, e.Healthy())
			c.jump(off)
			require.NoError(t, e.clock.Compare(t.Context(), e.opts.Journal))
			require.ErrorContains(t, e.Healthy(), name)
			c.jump(-off)
			require.NoError(t, e.clock.Compare(t.Context(), e.opts.Journal))
			require.NoError(t, e.Healthy())
		})
	}
	t.Run("wrong from the start", func(t *testing.T) {
		var c clock
		c.jump(-time.Hour)
		e, _ := w.gateway(func(o *Options) { o.Clock = c.now })
		require.ErrorContains(t, e.Healthy(), "behind the NATS server's")
	})
}

// A clock may go wrong while the gateway runs: it finds out by itself, says so
// once in the log, and is ready again when the clock is right again.
func TestAClockThatGoesWrongLaterIsNoticed_invariant9(t *testing.T) {
	t.Parallel()
	require.Equal(t, clockEvery, New(Options{Logger: slog.New(slog.DiscardHandler)}).opts.clockEvery)
	w := newWorld(t)
	var log lockedLog
	var c clock
	e, _ := w.gateway(func(o *Options) {
		o.Clock, o.clockEvery = c.now, time.Millisecond
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	require.NoError(t, e.Healthy())
	for _, step := range []struct {
		jump time.Duration
		want string // of the readiness; empty: ready
	}{
		{3 * time.Second, "ahead of the NATS server's"},
		{-3 * time.Second, ""},
		{-time.Hour, "behind the NATS server's"},
		{time.Hour, ""},
	} {
		c.jump(step.jump)
		require.Eventually(t, func() bool {
			err := e.Healthy()
			if step.want == "" {
				return err == nil
			}
			return err != nil && strings.Contains(err.Error(), step.want)
		}, patience, time.Millisecond, step.want)
	}
	require.Len(t, log.lines("this machine's clock is off"), 2, "not once a tick")
}

// Two gateways whose clocks differ: the one that is right ends it in time, and
// what the other one takes for an answer in time does not count any more.
func TestADeadlineHoldsWhereAnotherGatewaysClockIsLate_invariant1_invariant9(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var c clock
	c.jump(-time.Hour)
	right, _ := w.gateway()
	late, _ := w.gateway(func(o *Options) { o.Clock = c.now })
	r := request("k1", expiring(300*time.Millisecond))
	raw := w.ask(w.connect(), r)
	require.Equal(t, hitl.Expired, outcome(t, right, r).Outcome)
	a := answer(r, raw, "ada", allow)
	a.RequestID = ref(r).String()
	rec := late.Decide(t.Context(), a)
	require.Equal(t, hitl.TooLate, rec.Status, rec.Error)
	pending(t, late)
	pos, err := w.journal(w.connect()).Position(t.Context(), journal.Decisions)
	require.NoError(t, err)
	require.EqualValues(t, 1, pos.Last)
}

// A gateway whose clock is behind takes nothing after the deadline, by however little, and
// whether it was so from the start or was set back meanwhile.
func TestAClockThatIsBehindTakesNothingLate_invariant9(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]time.Duration{"from the start": -time.Hour, "set back meanwhile": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			var c clock
			c.jump(before)
			e, _ := w.gateway(func(o *Options) { o.Clock = c.now })
			r := request("k1", expiring(500*time.Millisecond))
			raw := w.ask(w.connect(), r)
			c.jump(-time.Hour - before)
			pos := func() journal.Position {
				at, err := w.journal(w.connect()).Position(t.Context(), journal.Events)
				require.NoError(t, err)
				return at
			}
			for deadline := pos().Now.Add(500 * time.Millisecond); !pos().Now.After(deadline); {
			}
			rec := e.Decide(t.Context(), answer(r, raw, "ada", allow))
			require.Equal(t, hitl.TooLate, rec.Status, rec.Error)
			require.Equal(t, hitl.Expired, rec.Decision.Outcome)
			require.WithinDuration(t, pos().Now, rec.Decision.DecidedAt, 10*time.Minute, "by the clock that counts")
		})
	}
}

// A gateway whose clock is ahead of the server's ends nothing early, whether it was so
// from the start or was set on meanwhile: an end is final, and for everybody.
func TestAClockThatIsAheadEndsNothingEarly_invariant9(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]time.Duration{"from the start": 2 * time.Hour, "set on meanwhile": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			var c clock
			c.jump(before)
			e, _ := w.gateway(func(o *Options) { o.Clock = c.now })
			nc := w.connect()
			mine, other := request("k1", expiring(time.Hour)), request("k2", expiring(time.Hour))
			raw := w.ask(nc, mine)
			w.ask(nc, other)
			pending(t, e, mine.ID, other.ID)
			short := request("short", expiring(200*time.Millisecond))
			w.ask(nc, short)
			c.jump(2*time.Hour - before)
			signal(e.alarm)
			require.Equal(t, hitl.Expired, outcome(t, e, short).Outcome, "in its time")
			pending(t, e, mine.ID, other.ID)
			require.Equal(t, hitl.Accepted, e.Decide(t.Context(), answer(mine, raw, "ada", allow)).Status)
			w.store(nc, subject.Withdraw(ref(other)), []byte(`{"v":1}`))
			require.Equal(t, hitl.Cancelled, outcome(t, e, other).Outcome)
			late := request("late", expiring(time.Hour))
			w.leave(late)
			pending(t, e, late.ID)
		})
	}
}

// The deadline itself is too late; the moment before is not.
func TestTheDeadlineItselfIsTooLate_invariant9(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, tc := range map[string]struct {
		before time.Duration
		want   hitl.Status
	}{"at": {0, hitl.TooLate}, "before": {time.Nanosecond, hitl.Accepted}} {
		t.Run(name, func(t *testing.T) {
			r := request(name, expiring(time.Hour))
			raw := w.ask(w.connect(), r)
			deadline := w.stamp(ref(r)).Add(time.Hour)
			// Its clock stands still, so no timer is earlier.
			e, _ := w.gateway(sharing(func() time.Time { return deadline.Add(-tc.before) }))
			a := answer(r, raw, "ada", allow)
			a.RequestID = ref(r).String()
			require.Equal(t, tc.want, e.Decide(t.Context(), a).Status)
		})
	}
}

// However far a deadline is, it is one item in a heap: the timer's rounds do
// not become more by it. The one that is past is ended at once and leaves
// nothing behind.
func TestFarAndPastDeadlinesCostNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e, _ := w.gateway()
	nc := w.connect()
	none := request("none", func(r *hitl.Request) { zero := hitl.Duration(0); r.ExpiresIn, r.AttentionIn = &zero, &zero })
	var want []string
	for name, d := range map[string]time.Duration{"years": 5 * 365 * 24 * time.Hour, "290 years": 290 * 365 * 24 * time.Hour} {
		r := request(name, expiring(d))
		w.ask(nc, r)
		ix := shownAs(t, e, r)
		require.Equal(t, ix.CreatedAt.Add(d), *ix.ExpiresAt)
		want = append(want, r.ID)
	}
	w.ask(nc, none)
	ix := shownAs(t, e, none)
	require.Nil(t, ix.ExpiresAt)
	require.Nil(t, ix.AttentionAt)
	require.Len(t, pendingIDs(t, e), len(want)+1)
	past := request("past", expiring(time.Nanosecond))
	w.ask(nc, past)
	require.Equal(t, hitl.Expired, outcome(t, e, past).Outcome)
	over, wait := e.view.Due(time.Hour)
	require.Empty(t, over)
	require.Equal(t, time.Hour, wait, "the timer sleeps for as long as it may")
}

// A request that somebody removed from the record without a decision is shown no
// longer than its deadline, and nobody tries to end it for ever.
func TestWhatIsGoneIsNotShownForEver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var log lockedLog
	var c clock
	e, _ := w.gateway(sharing(c.now), func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	nc := w.connect()
	// Larger than what a gateway holds of it.
	r := request("gone", expiring(time.Hour), func(r *hitl.Request) { r.Message = strings.Repeat("x", 60_000) })
	w.ask(nc, r)
	pending(t, e, r.ID)
	m, err := w.journal(nc).Request(t.Context(), ref(r))
	require.NoError(t, err)
	require.NoError(t, w.journal(nc).DeleteRequest(t.Context(), m.Seq))
	c.jump(2 * time.Hour)
	signal(e.alarm)
	pending(t, e)
	require.Eventually(t, func() bool { return len(log.lines("is gone without a decision")) == 1 }, patience, time.Millisecond)
	require.Zero(t, e.view.Len())
	require.Empty(t, log.lines("trying again"))
	_, err = w.journal(nc).Decision(t.Context(), ref(r))
	require.ErrorIs(t, err, journal.ErrNotFound)
}

// shownAs waits until r is shown and returns its list form as a client reads it.
func shownAs(t *testing.T, e *Engine, r *hitl.Request) (sum struct {
	CreatedAt   time.Time  `json:"created_at"`
	ExpiresAt   *time.Time `json:"expires_at"`
	AttentionAt *time.Time `json:"attention_at"`
},
) {
	t.Helper()
	require.Eventually(t, func() bool { _, ok := e.view.Pending(ref(r)); return ok }, patience, time.Millisecond)
	p, _ := e.view.Pending(ref(r))
	raw, err := hitl.Marshal(p.Summary)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &sum))
	return sum
}
