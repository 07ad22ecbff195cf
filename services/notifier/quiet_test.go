package notifier_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/services/notifier"
	"github.com/banksman/banksman/services/notifier/internal/ledger"
)

// What expires before the quiet hours end is told to nobody then: explain, the log and the
// metrics say so at once, not only that it was put off.
func TestQuietHoursBeyondTheDeadlineAreSaid(t *testing.T) {
	t.Parallel()
	midnight := time.Date(2026, 3, 3, 0, 0, 0, 0, time.UTC)
	b, hook, clk := newBench(t), newReceiver(t, nil), newClock(midnight)
	o := hook.people(t, `recipients:
  - name: ada
    channels: [{channel: hook}]
    zone: Europe/Berlin
    quiet: [{from: "22:00", to: "07:00"}]
routes:
  - name: all
    steps: [{to: ada}]
`)
	o.Clock = clk
	n := b.notify(t, o)
	held := func(i int, life time.Duration) string {
		t.Helper()
		ref, s, at := newRef(i), summary(newRef(i), midnight), midnight.Add(life)
		s.ExpiresAt = &at
		b.open(t, ref, s)
		require.Eventually(t, func() bool {
			r := b.at(t, ref, "step1", "ada/hook")
			return r != nil && r.Held != ""
		}, patience, tick)
		return b.at(t, ref, "step1", "ada/hook").Held
	}
	require.Equal(t, "quiet hours", held(1, 7*time.Hour))
	n.counted(t, "banksman_notifier_muted_total", 0)
	require.Equal(t, "quiet hours until 3 Mar 07:00 CET, after its deadline of 3 Mar 01:10 CET: it is not told here", held(2, 10*time.Minute))
	n.counted(t, "banksman_notifier_muted_total", 1)
	require.Len(t, n.log.lines(`"level":"WARN"`, "never told", newRef(2).String(), "ada/hook", "after its deadline"), 1)
	require.Empty(t, n.log.lines("never told", newRef(1).String()))
	require.Contains(t, held(3, 6*time.Hour), "after its deadline", "at the very end is too late")

	l, err := notifier.OpenLedger(t.Context(), b.cred)
	require.NoError(t, err)
	t.Cleanup(l.Close)
	ref := newRef(2)
	at := midnight.Add(10 * time.Minute)
	s := summary(ref, midnight)
	s.ExpiresAt = &at
	clk.move(10 * time.Minute)
	b.end(t, ref, s, hitl.Expired, nobody)
	b.awaitAt(t, ref, "step1", "ada/hook", ledger.Retracted)
	x, err := l.Explain(t.Context(), ref)
	require.NoError(t, err)
	require.Contains(t, x.Deliveries[0].Held, "it is not told here", "also once it is over")
	require.Empty(t, hook.calls)
}
