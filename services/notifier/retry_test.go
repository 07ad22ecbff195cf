package notifier_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
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

// A digest that could not be sent is not sent any more once nothing in it waits.
func TestADigestOfWhichAllIsOverIsNotRetried(t *testing.T) {
	t.Parallel()
	b, clk := newBench(t), newClock(time.Now())
	hook := newReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	o := hook.people(t, onlyAda)
	o.Clock = clk
	n := b.notify(t, o)
	for i := range 5 {
		b.open(t, newRef(i), summary(newRef(i), clk.Now()))
		b.awaitAt(t, newRef(i), "step1", "ada/hook", ledger.Planned)
	}
	n.queues(t, 5)
	clk.move(5 * time.Second)
	require.Equal(t, 5, hook.next(t).waiting())
	b.rests(t, "ada/hook")
	for i := range 5 {
		b.end(t, newRef(i), summary(newRef(i), clk.Now()), hitl.Allowed, ada)
		b.awaitAt(t, newRef(i), "step1", "ada/hook", ledger.Retracted)
	}
	require.Eventually(t, func() bool {
		clk.move(5 * time.Second)
		p, err := b.ledger.PaceOf(t.Context(), "ada/hook")
		require.NoError(t, err)
		return p.Batch == nil
	}, patience, 20*time.Millisecond)
	require.Empty(t, hook.calls)
}

// Ends that go out together are over by nature: they are tried again as they are.
func TestEndsInOneMessageAreRetriedAsTheyAre_B67(t *testing.T) {
	t.Parallel()
	b, clk := newBench(t), newClock(time.Now())
	hook := newReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n == 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	o := hook.people(t, onlyAda)
	o.Clock = clk
	n := b.notify(t, o)
	for i := range 2 {
		b.open(t, newRef(i), summary(newRef(i), clk.Now()))
		n.queues(t, 1)
		clk.move(10 * time.Second)
		require.Equal(t, newRef(i).String(), hook.next(t).Subject)
		b.awaitAt(t, newRef(i), "step1", "ada/hook", ledger.Sent)
	}
	for i := range 2 {
		b.end(t, newRef(i), summary(newRef(i), clk.Now()), hitl.Allowed, ada)
	}
	n.queues(t, 2)
	clk.move(10 * time.Second)
	first := hook.next(t)
	require.Equal(t, digested, first.Type)
	b.rests(t, "ada/hook")
	clk.move(5 * time.Second)
	again := hook.next(t)
	require.Equal(t, first.ID, again.ID)
	require.Equal(t, first.Raw, again.Raw)
	for i := range 2 {
		b.awaitAt(t, newRef(i), ledger.StepClosed, "ada/hook", ledger.Sent)
	}
}

// rests waits until the message to an address waits for its next attempt.
func (b *bench) rests(t *testing.T, address string) {
	t.Helper()
	require.Eventually(t, func() bool {
		p, err := b.ledger.PaceOf(t.Context(), address)
		require.NoError(t, err)
		return p.Batch != nil && p.Batch.Tries == 1 && p.Batch.By == ""
	}, patience, tick)
}

// A message of two, of which one was over before it was sent, is one for the other: its
// end corrects it, though it comes while the message is on its way.
func TestTheEndOfWhatWasLeftAloneIsTold(t *testing.T) {
	t.Parallel()
	b, clk := newBench(t), newClock(time.Now())
	sends, let := make(chan struct{}), make(chan struct{})
	hook := newReceiver(t, func(n int, _ http.ResponseWriter, _ *http.Request) {
		if n == 1 {
			close(sends)
			<-let
		}
	})
	o := hook.people(t, onlyAda)
	o.Clock = clk
	n := b.notify(t, o)
	over, waits := newRef(1), newRef(2)
	for _, ref := range []subject.Ref{over, waits} {
		b.open(t, ref, summary(ref, clk.Now()))
		b.awaitAt(t, ref, "step1", "ada/hook", ledger.Planned)
	}
	n.queues(t, 2)
	_, err := b.ledger.MarkOver(t.Context(), over, ledger.Over{Outcome: hitl.Allowed, At: clk.Now()})
	require.NoError(t, err)
	clk.move(5 * time.Second)
	<-sends
	require.Equal(t, waits.String(), hook.next(t).Subject)
	b.end(t, waits, summary(waits, clk.Now()), hitl.Denied, ada)
	require.Eventually(t, func() bool {
		is, err := b.ledger.IsOver(t.Context(), waits)
		return err == nil && is
	}, patience, tick)
	close(let)
	var c call
	require.Eventually(t, func() bool {
		clk.move(time.Second)
		select {
		case c = <-hook.calls:
			return true
		default:
			return false
		}
	}, patience, 50*time.Millisecond)
	require.Equal(t, closed, c.Type)
	require.Equal(t, waits.String(), c.Subject)
}
