package notifier_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/services/notifier"
	"github.com/banksman/banksman/services/notifier/internal/channel"
	"github.com/banksman/banksman/services/notifier/internal/ledger"
)

// A recipient is renamed while a request waits: what was planned for the old name
// is given up, and the one who is named instead is told, then and of the end.
func TestRenamedRecipientLeavesNobodyUntold_B71(t *testing.T) {
	t.Parallel()
	b, hook, clk := newBench(t), newReceiver(t, nil), newClock(time.Now())
	people := func(second string) notifier.Options {
		o := hook.people(t, `recipients:
  - {name: ada, channels: [{channel: hook}], messages: 0}
  - {name: `+second+`, channels: [{channel: hook}], messages: 0}
routes:
  - name: all
    remind: []
    steps: [{to: [ada]}, {after: 10m, to: [`+second+`]}]
`)
		o.Clock = clk
		return o
	}
	first := b.notify(t, people("bob"))
	ref, over := newRef(1), newRef(2)
	s := summary(ref, clk.Now())
	b.open(t, ref, s)
	b.open(t, over, summary(over, clk.Now()))
	hook.next(t)
	for _, r := range []ledger.Key{{Ref: ref}, {Ref: over}} {
		b.awaitAt(t, r.Ref, "step1", "ada/hook", ledger.Sent)
		b.awaitAt(t, r.Ref, "step2", "bob/hook", ledger.Planned)
	}
	for len(hook.calls) > 0 {
		<-hook.calls
	}
	first.stop()

	second := b.notify(t, people("carol"))
	b.end(t, over, summary(over, clk.Now()), hitl.Allowed, ada)
	require.Equal(t, closed, hook.next(t).Type)
	b.awaitAt(t, over, "step2", "bob/hook", ledger.Retracted)
	clk.move(14 * time.Minute)
	require.Equal(t, ledger.Planned, b.at(t, ref, "step2", "bob/hook").State, "another replica may be about to send it")
	clk.move(2 * time.Minute)
	c := hook.next(t)
	require.Equal(t, opened, c.Type)
	require.Equal(t, ref.String(), c.Subject)
	require.Equal(t, "carol", c.Data["recipient"])
	dead := b.awaitAt(t, ref, "step2", "bob/hook", ledger.Dead)
	require.Contains(t, dead.Problem, "not in the configuration any more")
	b.awaitAt(t, ref, "step2", "carol/hook", ledger.Sent)
	require.Nil(t, b.at(t, over, "step2", "carol/hook"), "it was over")
	require.NotEmpty(t, second.log.lines(`"level":"WARN"`, "bob/hook", ref.String()))

	b.end(t, ref, s, hitl.Denied, ada)
	who := map[string]bool{}
	for range 2 {
		c := hook.next(t)
		require.Equal(t, closed, c.Type)
		who[c.Data["recipient"].(string)] = true
	}
	require.Equal(t, map[string]bool{"ada": true, "carol": true}, who)
	require.Empty(t, hook.calls)
}

// Whoever is told of a request in place of somebody else is reminded of it as well, when
// an answer becomes urgent.
func TestWhoIsToldInsteadIsReminded_B71(t *testing.T) {
	t.Parallel()
	b, hook, clk := newBench(t), newReceiver(t, nil), newClock(time.Now())
	people := func(name string) notifier.Options {
		o := hook.people(t, `recipients: [{name: `+name+`, channels: [{channel: hook}], messages: 0}]
routes: [{name: all, steps: [{after: 10m, to: [`+name+`]}]}]
`)
		o.Clock = clk
		return o
	}
	first := b.notify(t, people("bob"))
	ref, s := newRef(1), summary(newRef(1), clk.Now())
	urgent, expires := clk.Now().Add(30*time.Minute), clk.Now().Add(time.Hour)
	s.AttentionAt, s.ExpiresAt = &urgent, &expires
	b.open(t, ref, s)
	first.queues(t, 2)
	first.stop()

	b.notify(t, people("carol"))
	clk.move(16 * time.Minute)
	c := hook.next(t)
	require.Equal(t, opened, c.Type)
	require.Equal(t, "carol", c.Data["recipient"])
	b.awaitAt(t, ref, "step1", "carol/hook", ledger.Sent)
	r := b.awaitAt(t, ref, ledger.StepReminder, "carol/hook", ledger.Planned)
	require.WithinDuration(t, urgent, r.DueAt, time.Millisecond)
	clk.move(14 * time.Minute)
	c = hook.next(t)
	require.Equal(t, reminder, c.Type)
	require.Equal(t, "carol", c.Data["recipient"])
	require.Empty(t, hook.calls)
}

// Requests that opened under a build that wrote no plans end as others do: who
// was told hears of it, and what was not sent is taken back.
func TestRequestsWithoutAPlanEndAsOthersDo_B67(t *testing.T) {
	t.Parallel()
	b, hook, clk := newBench(t), newReceiver(t, nil), newClock(time.Now())
	told, planned := newRef(1), newRef(2)
	at := clk.Now().UTC()
	_, _, err := b.ledger.Create(t.Context(), ledger.Key{Ref: told, Step: ledger.StepOpen, Channel: "hook"},
		ledger.Entry{State: ledger.Sent, DueAt: at, Tries: 1, SentAt: &at, Receipt: &channel.Receipt{Said: "status 204"}})
	require.NoError(t, err)
	_, _, err = b.ledger.Create(t.Context(), ledger.Key{Ref: planned, Step: ledger.StepOpen, Channel: "hook"},
		ledger.Entry{State: ledger.Planned, DueAt: at.Add(time.Hour), Alert: &channel.Alert{Type: channel.Opened, Key: planned.String(), Time: at}})
	require.NoError(t, err)

	l, err := notifier.OpenLedger(t.Context(), b.cred)
	require.NoError(t, err)
	defer l.Close()
	x, err := l.Explain(t.Context(), told)
	require.NoError(t, err)
	require.Equal(t, "sent", x.Deliveries[0].State)

	o := hook.options(t, "0s")
	o.Clock = clk
	b.notify(t, o)
	b.end(t, planned, summary(planned, clk.Now()), hitl.Allowed, ada)
	b.await(t, planned, ledger.StepOpen, ledger.Retracted)
	b.end(t, told, summary(told, clk.Now()), hitl.Denied, ada)
	c := hook.next(t)
	require.Equal(t, closed, c.Type)
	require.Equal(t, told.String(), c.Subject)
	b.await(t, told, ledger.StepClosed, ledger.Sent)
	require.Empty(t, hook.calls)
}
