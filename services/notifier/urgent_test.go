package notifier_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/notifier/internal/ledger"
)

// twoRoutes tells ada of what is critical at once, and of everything else after five
// seconds.
const twoRoutes = `recipients:
  - name: ada
    channels: [{channel: hook}]
    messages: 3
    per: 10m
routes:
  - name: grave
    match: {risk: [critical]}
    steps: [{to: [ada]}]
  - name: rest
    steps: [{after: 5s, to: [ada]}]
`

// A digest that rests after a failure keeps nothing back that is critical: that goes on
// its own, within the bound, and the digest is tried again as it is.
func TestACriticalRequestWaitsForNoDigestThatRests(t *testing.T) {
	t.Parallel()
	b, clk := newBench(t), newClock(time.Now())
	hook := newReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n <= 2 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	o := hook.people(t, twoRoutes)
	o.Clock = clk
	n := b.notify(t, o)
	critical := func(ref subject.Ref) {
		s := summary(ref, clk.Now())
		s.Risk = "critical"
		b.open(t, ref, s)
	}
	for i := range 5 {
		b.open(t, newRef(i), summary(newRef(i), clk.Now()))
	}
	n.queues(t, 5)
	clk.move(5 * time.Second)
	digest := hook.next(t)
	require.Equal(t, digested, digest.Type)
	rests := func(tries int) {
		require.Eventually(t, func() bool {
			p, err := b.ledger.PaceOf(t.Context(), "ada/hook")
			require.NoError(t, err)
			return p.Batch != nil && p.Batch.By == "" && p.Batch.Tries == tries
		}, patience, tick)
	}
	rests(1)
	// The clock stands, so the digest rests. The first attempt fails, as the digest's did.
	critical(newRef(10))
	first := hook.next(t)
	require.Equal(t, newRef(10).String(), first.Subject)
	b.awaitAt(t, newRef(10), "step1", "ada/hook", ledger.Planned)
	for i := 11; i <= 13; i++ { // as many as the bound leaves: what failed does not count
		critical(newRef(i))
		require.Equal(t, newRef(i).String(), hook.next(t).Subject)
		require.False(t, b.awaitAt(t, newRef(i), "step1", "ada/hook", ledger.Sent).Many)
	}
	p, err := b.ledger.PaceOf(t.Context(), "ada/hook")
	require.NoError(t, err)
	require.Len(t, p.Sent, 3)
	require.Equal(t, 1, p.Batch.Tries, "it rests still")
	// The others come with time: the one that failed under its id, the digest as it was.
	ids := map[string]bool{}
	require.Eventually(t, func() bool {
		clk.move(5 * time.Second)
		for _, i := range []int{0, 1, 2, 3, 4, 10} {
			if r := b.at(t, newRef(i), "step1", "ada/hook"); r.State != ledger.Sent || r.Many == (i == 10) {
				return false
			}
		}
		return true
	}, patience, 20*time.Millisecond)
	for len(hook.calls) > 0 {
		ids[(<-hook.calls).ID] = true
	}
	require.Equal(t, map[string]bool{digest.ID: true, first.ID: true}, ids)
}

// Nor does it wait for the pause between two messages, where something else waits for it.
func TestACriticalRequestWaitsForNoPause(t *testing.T) {
	t.Parallel()
	b, hook, clk := newBench(t), newReceiver(t, nil), newClock(time.Now())
	o := hook.people(t, twoRoutes)
	o.Clock = clk
	n := b.notify(t, o)
	for i := range 2 {
		b.open(t, newRef(i), summary(newRef(i), clk.Now()))
		n.queues(t, float64(i+1))
		clk.move(time.Second)
	}
	clk.move(3 * time.Second)
	require.Equal(t, newRef(0).String(), hook.next(t).Subject)
	b.awaitAt(t, newRef(0), "step1", "ada/hook", ledger.Sent)
	clk.move(time.Second) // the second one is due, and waits for the pause
	s := summary(newRef(2), clk.Now())
	s.Risk = "critical"
	b.open(t, newRef(2), s)
	c := hook.next(t)
	require.Equal(t, digested, c.Type, "of one session it takes along what waits")
	require.Equal(t, 2, c.waiting())
}
