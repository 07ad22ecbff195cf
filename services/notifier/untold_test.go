package notifier_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/services/notifier/internal/ledger"
)

// adaThenBob tells ada after five seconds and once more later, bob after ten minutes.
const adaThenBob = `recipients:
  - {name: ada, channels: [{channel: hook}]}
  - {name: bob, channels: [{channel: hook}]}
routes:
  - {name: all, remind: [], steps: [{after: 5s, to: [ada]}, {after: 1m, to: [ada]}, {after: 10m, to: [bob]}]}
`

// answers is a receiver that answers with these, then well.
func answers(t *testing.T, status ...int) *receiver {
	t.Helper()
	return newReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n <= len(status) {
			w.WriteHeader(status[n-1])
		}
	})
}

// counted waits until the notifier has counted so many.
func (r *running) counted(t *testing.T, name string, n float64) {
	t.Helper()
	require.Eventually(t, func() bool {
		families, err := r.Metrics().Gather()
		require.NoError(t, err)
		for _, f := range families {
			if f.GetName() == name {
				return f.GetMetric()[0].GetCounter().GetValue() == n
			}
		}
		return false
	}, patience, tick, name)
}

// Nobody waits for the time of a step when it is known that nobody was told before: the
// next people are told at once. What only repeats what failed keeps its time.
func TestTheNextStepIsDueWhereNobodyWasTold_B71(t *testing.T) {
	t.Parallel()
	b, hook, clk := newBench(t), answers(t, http.StatusBadRequest), newClock(time.Now())
	o := hook.people(t, adaThenBob)
	o.Clock = clk
	n := b.notify(t, o)
	ref := newRef(1)
	b.open(t, ref, summary(ref, clk.Now()))
	n.queues(t, 3)
	clk.move(5 * time.Second)
	require.Equal(t, "ada", hook.next(t).Data["recipient"])
	require.Equal(t, "bob", hook.next(t).Data["recipient"])
	b.awaitAt(t, ref, "step1", "ada/hook", ledger.Failed)
	b.awaitAt(t, ref, "step3", "bob/hook", ledger.Sent)
	b.awaitAt(t, ref, "step2", "ada/hook", ledger.Planned)
	n.counted(t, "banksman_notifier_steps_untold_total", 1)
	n.counted(t, "banksman_notifier_untold_total", 0)
}

// One of a step was told: the next one keeps its time.
func TestTheNextStepWaitsWhereSomebodyWasTold(t *testing.T) {
	t.Parallel()
	b, hook, clk := newBench(t), answers(t, http.StatusBadRequest), newClock(time.Now())
	o := hook.people(t, `recipients:
  - {name: ada, channels: [{channel: hook}]}
  - {name: bob, channels: [{channel: hook}]}
  - {name: carol, channels: [{channel: hook}]}
routes:
  - {name: all, remind: [], steps: [{after: 5s, to: [ada, bob]}, {after: 10m, to: [carol]}]}
`)
	o.Clock = clk
	n := b.notify(t, o)
	ref := newRef(1)
	b.open(t, ref, summary(ref, clk.Now()))
	n.queues(t, 3)
	clk.move(5 * time.Second)
	hook.next(t)
	hook.next(t)
	var states []ledger.State
	require.Eventually(t, func() bool {
		states = []ledger.State{b.at(t, ref, "step1", "ada/hook").State, b.at(t, ref, "step1", "bob/hook").State}
		return states[0].Final() && states[1].Final()
	}, patience, tick)
	n.stop() // what follows from that has been done
	require.ElementsMatch(t, []ledger.State{ledger.Failed, ledger.Sent}, states)
	require.True(t, b.at(t, ref, "step2", "carol/hook").DueAt.After(clk.Now()))
	n.counted(t, "banksman_notifier_steps_untold_total", 0)
}

// A channel that wants nothing any more keeps nobody waiting either, and a request of
// which every channel fails counts as one that nobody is told of.
func TestAStepWithoutAChannelIsPassedOver_B71(t *testing.T) {
	t.Parallel()
	b, hook, clk := newBench(t), answers(t, http.StatusGone), newClock(time.Now())
	o := hook.people(t, adaThenBob)
	o.Clock = clk
	n := b.notify(t, o)
	for i := range 2 { // the first one finds out
		ref := newRef(i)
		b.open(t, ref, summary(ref, clk.Now()))
		b.awaitAt(t, ref, "step3", "bob/hook", ledger.Planned)
		n.queues(t, float64(3-i)) // ada's second one of the first is left, or bob's
		clk.move(10 * time.Second)
		if i == 0 {
			require.Equal(t, "ada", hook.next(t).Data["recipient"])
		}
		require.Equal(t, "bob", hook.next(t).Data["recipient"])
		b.awaitAt(t, ref, "step3", "bob/hook", ledger.Sent)
	}
	n.counted(t, "banksman_notifier_untold_total", 0)
}

// What fails everywhere is counted once, when the last one has failed.
func TestARequestOfWhichEveryChannelFailsIsUntold(t *testing.T) {
	t.Parallel()
	b, clk := newBench(t), newClock(time.Now())
	hook := answers(t, http.StatusBadRequest, http.StatusBadRequest, http.StatusBadRequest)
	o := hook.people(t, adaThenBob)
	o.Clock = clk
	n := b.notify(t, o)
	ref := newRef(1)
	b.open(t, ref, summary(ref, clk.Now()))
	n.queues(t, 3)
	clk.move(5 * time.Second)
	hook.next(t)
	hook.next(t)
	n.counted(t, "banksman_notifier_steps_untold_total", 2)
	n.counted(t, "banksman_notifier_untold_total", 0)
	clk.move(time.Minute)
	hook.next(t)
	n.counted(t, "banksman_notifier_untold_total", 1)
	n.counted(t, "banksman_notifier_steps_untold_total", 3)
}
