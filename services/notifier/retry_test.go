package notifier_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/services/notifier"
	"github.com/banksman/banksman/services/notifier/internal/ledger"
)

// hourly tells ada once an hour.
var hourly = strings.Replace(onlyAda, "    channels", "    digest: 1h\n    channels", 1)

// What has left with its digest and did not arrive is tried again after the usual
// pause, not with the next digest, and so is what a person sends again.
func TestARetryWaitsForNoDigest(t *testing.T) {
	t.Parallel()
	b, clk := newBench(t), newClock(time.Now().Truncate(time.Hour).Add(time.Minute))
	hook := newReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		switch n {
		case 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 2:
			w.WriteHeader(http.StatusBadRequest)
		}
	})
	o := hook.people(t, hourly)
	o.Clock = clk
	n := b.notify(t, o)
	ref := newRef(1)
	b.open(t, ref, summary(ref, clk.Now()))
	b.awaitAt(t, ref, "step1", "ada/hook", ledger.Planned)
	n.queues(t, 1)
	clk.move(10 * time.Second)
	require.Eventually(t, func() bool { return b.at(t, ref, "step1", "ada/hook").Held == "goes out with the next digest" }, patience, tick)
	clk.move(time.Hour)
	first := hook.next(t)
	require.Eventually(t, func() bool {
		r := b.at(t, ref, "step1", "ada/hook")
		return r.State == ledger.Planned && r.Tries == 1
	}, patience, tick)
	clk.move(2 * time.Second)
	require.Equal(t, first.Raw, hook.next(t).Raw)
	b.awaitAt(t, ref, "step1", "ada/hook", ledger.Failed)

	view, err := notifier.OpenLedger(t.Context(), b.cred)
	require.NoError(t, err)
	defer view.Close()
	again, err := view.Replay(t.Context(), ref.String(), "")
	require.NoError(t, err)
	require.Equal(t, 1, again)
	clk.move(2 * time.Second)
	require.Equal(t, first.Raw, hook.next(t).Raw)
	b.awaitAt(t, ref, "step1", "ada/hook", ledger.Sent)
}

// A digest that would leave after the deadline tells nobody in time: it is told alone.
func TestWhatADigestWouldTellTooLateIsToldAtOnce(t *testing.T) {
	t.Parallel()
	b, hook, clk := newBench(t), newReceiver(t, nil), newClock(time.Now().Truncate(time.Hour).Add(time.Minute))
	o := hook.people(t, hourly)
	o.Clock = clk
	n := b.notify(t, o)
	ref, s := newRef(1), summary(newRef(1), clk.Now())
	deadline := clk.Now().Add(20 * time.Minute)
	s.ExpiresAt = &deadline
	b.open(t, ref, s)
	b.awaitAt(t, ref, "step1", "ada/hook", ledger.Planned)
	n.queues(t, 1)
	clk.move(10 * time.Second)
	require.Equal(t, ref.String(), hook.next(t).Subject)
}
