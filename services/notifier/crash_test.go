package notifier_test

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/notifier/internal/ledger"
)

// What a killed notifier had planned is sent by the next one, once each, and
// the message is whole although its sender never saw the event.
func TestB71_KilledBeforeSending(t *testing.T) {
	t.Parallel()
	b, hook := newBench(t), newReceiver(t, nil)
	kill := b.child(t, hook.config("1h"))
	const n = 20
	now := time.Now()
	for i := range n {
		b.open(t, newRef(i), summary(newRef(i), now))
	}
	for i := range n {
		b.await(t, newRef(i), ledger.StepOpen, ledger.Planned)
	}
	kill()
	decided := newRef(0)
	b.end(t, decided, summary(decided, now), hitl.Allowed, ada) // meanwhile

	// The server may have given the end to the dead one: only a gateway knows of it then.
	b.desk(t).ended(decided)

	require.Empty(t, hook.calls)
	o := hook.options(t, "1h")
	o.Clock = newClock(now.Add(2 * time.Hour))
	b.notify(t, o)
	seen := map[string]bool{}
	for range n - 1 {
		c := hook.next(t)
		require.False(t, seen[c.Subject], "twice: %s", c.Subject)
		seen[c.Subject] = true
		require.Equal(t, "build-7 wants to use Bash", c.Data["headline"])
		require.Equal(t, "Clean up the release", c.Data["title"])
	}
	for i := 1; i < n; i++ {
		b.await(t, newRef(i), ledger.StepOpen, ledger.Sent)
	}
	require.False(t, seen[decided.String()])
	b.await(t, decided, ledger.StepOpen, ledger.Retracted)
	require.Empty(t, hook.calls)
}

// An event that was given to a replica which is dead comes again only after some
// seconds. Until then a gateway knows of the end, and nobody is told that it waits.
func TestB71_AnEndThatADeadReplicaHas(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ address, step, people string }{
		"on its own": {"hook", "open", ""},
		"in the pace of a person": {"ada/hook", "step1", `recipients:
  - {name: ada, messages: 10, channels: [{channel: hook}]}
routes:
  - {name: all, remind: [], steps: [{to: [ada], after: 1h}]}
`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, hook := newBench(t), newReceiver(t, nil)
			start := func(at time.Time) *running {
				o := hook.options(t, "1h")
				if c.people != "" {
					o = hook.people(t, c.people)
				}
				o.Clock = newClock(at)
				return b.notify(t, o)
			}
			now := time.Now()
			first := start(now)
			over, waits := newRef(0), newRef(1)
			for _, ref := range []subject.Ref{over, waits} {
				b.open(t, ref, summary(ref, now))
			}
			first.queues(t, 2)
			first.stop()
			// The dead one has asked for an event and will never say that it had it.
			nc := b.connect(t, bus.RoleNotifier)
			dead, err := nc.SubscribeSync(nats.NewInbox())
			require.NoError(t, err)
			require.NoError(t, nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT."+journal.Events+"."+journal.NotifierDurable(bus.DefaultTenant), dead.Subject, []byte(`{"batch":1}`)))
			require.NoError(t, nc.Flush())
			b.desk(t).ended(over)
			b.end(t, over, summary(over, now), hitl.Allowed, ada)
			m, err := dead.NextMsg(patience)
			require.NoError(t, err)
			require.Equal(t, subject.Event(over, "s1", subject.Closed), m.Subject)

			second := start(now.Add(2 * time.Hour))
			require.Equal(t, waits.String(), hook.next(t).Subject)
			b.awaitAt(t, over, ledger.Step(c.step), c.address, ledger.Retracted)
			require.Empty(t, hook.calls)
			second.stop() // what it counts is counted by then
			second.counted(t, "banksman_notifier_untold_total", 0)
		})
	}
}

// A gateway that hangs is not asked for each of what is due: people are told.
func TestAGatewayThatHangsKeepsNoAlertBack(t *testing.T) {
	t.Parallel()
	b, hook := newBench(t), newReceiver(t, nil)
	nc := b.connect(t, bus.RoleGateway)
	var asked atomic.Int64
	_, err := nc.Subscribe(subject.Service(bus.DefaultTenant, "notifier", wire.VerbGet), func(*nats.Msg) { asked.Add(1) })
	require.NoError(t, err)
	require.NoError(t, nc.Flush())
	o, now := hook.options(t, "1h"), time.Now()
	clk := newClock(now)
	o.Clock = clk
	n := b.notify(t, o)
	const many = 50
	for i := range many {
		b.open(t, newRef(i), summary(newRef(i), now))
	}
	n.queues(t, many)
	clk.move(2 * time.Hour)
	for range many {
		require.Equal(t, opened, hook.next(t).Type)
	}
	// Eight are on their way at a time; none of the others is asked about.
	require.LessOrEqual(t, asked.Load(), int64(8))
	require.Positive(t, asked.Load())
}

// Whoever is killed while sending may have been heard. The next one waits for
// the claim to run out, then repeats the message under the same id.
func TestKilledWhileSending(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	hook := newReceiver(t, func(n int, _ http.ResponseWriter, r *http.Request) {
		if n <= 2 {
			<-r.Context().Done() // until the sender is dead
		}
	})
	kill := b.child(t, hook.config("0s"))
	now := time.Now()
	waits, decided := newRef(1), newRef(2)
	first := map[string]call{}
	for _, ref := range []string{waits.String(), decided.String()} {
		r := waits
		if ref == decided.String() {
			r = decided
		}
		b.open(t, r, summary(r, now))
		c := hook.next(t)
		first[c.Subject] = c
	}
	require.Len(t, first, 2)
	kill()
	require.Equal(t, ledger.Claimed, b.entry(t, waits, ledger.StepOpen).State)

	clk := newClock(time.Now())
	o := hook.options(t, "0s")
	o.Clock = clk
	b.notify(t, o)
	b.end(t, decided, summary(decided, now), hitl.Allowed, ada)
	require.Eventually(t, func() bool { _, err := b.ledger.Over(t.Context(), decided); return err == nil }, patience, tick)
	require.Empty(t, hook.calls, "the claims are still good")
	clk.move(time.Minute)
	got := map[string]call{}
	for range 2 {
		c := hook.next(t)
		got[c.Subject+" "+c.Type] = c
	}
	again, end := got[waits.String()+" "+opened], got[decided.String()+" "+closed]
	require.Equal(t, first[waits.String()].ID, again.ID)
	require.Equal(t, first[waits.String()].Raw, again.Raw)
	require.Equal(t, "allowed", end.Data["outcome"], "it may have been told, so it is told the end")
	b.await(t, waits, ledger.StepOpen, ledger.Sent)
	b.await(t, decided, ledger.StepOpen, ledger.Retracted)
	b.await(t, decided, ledger.StepClosed, ledger.Sent)
	require.Empty(t, hook.calls)
}

// What is decided while its alert is on the way is told as soon as that has
// arrived, and not before.
func TestB67_DecidedWhileSending(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	b := newBench(t)
	hook := newReceiver(t, func(n int, _ http.ResponseWriter, _ *http.Request) {
		if n == 1 {
			<-release
		}
	})
	b.notify(t, hook.options(t, "0s"))
	ref := newRef(1)
	b.open(t, ref, summary(ref, time.Now()))
	require.Equal(t, opened, hook.next(t).Type)
	b.end(t, ref, summary(ref, time.Now()), hitl.Denied, ada)
	require.Eventually(t, func() bool { _, err := b.ledger.Over(t.Context(), ref); return err == nil }, patience, tick)
	require.Nil(t, b.entry(t, ref, ledger.StepClosed))
	require.Empty(t, hook.calls)
	close(release)
	require.Equal(t, closed, hook.next(t).Type)
	b.await(t, ref, ledger.StepClosed, ledger.Sent)
	require.Equal(t, ledger.Sent, b.entry(t, ref, ledger.StepOpen).State)
	require.Empty(t, hook.calls)
}

// The ledger may be out of reach when the receiver has taken the message: that
// is written down later, and nothing is said twice.
func TestSentIsRecordedAfterAnOutage(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	hook := newReceiver(t, func(int, http.ResponseWriter, *http.Request) { b.srv.Shutdown() })
	n := b.notify(t, hook.options(t, "0s"))
	ref := newRef(1)
	b.open(t, ref, summary(ref, time.Now()))
	hook.next(t)
	require.Eventually(t, func() bool {
		return len(n.log.lines("could not be recorded", `"state":"sent"`, ref.String())) > 0
	}, patience, tick)
	b.start(t)
	r := b.await(t, ref, ledger.StepOpen, ledger.Sent)
	require.Equal(t, 1, r.Tries)
	require.Empty(t, hook.calls)
}

// Two replicas share 200 interactions while a third is killed; each is told
// once, and so is each end.
func TestReplicasShareTheWork(t *testing.T) {
	t.Parallel()
	const n = 200
	b, hook := newBench(t), newReceiver(t, nil)
	kill := b.child(t, hook.config("1h")) // takes events, and never gets to send
	late := newClock(time.Now().Add(2 * time.Hour))
	var wg sync.WaitGroup
	for range 2 {
		o := hook.options(t, "1h")
		o.Clock = late
		b.notify(t, o)
	}
	now := time.Now()
	wg.Go(func() {
		for i := range n {
			b.open(t, newRef(i), summary(newRef(i), now))
			if i == n/2 {
				kill()
			}
		}
	})
	count := map[string]int{}
	id := map[string]bool{}
	take := func(want string) {
		for range n {
			c := hook.next(t)
			require.Equal(t, want, c.Type)
			count[fmt.Sprint(c.Type, c.Subject)]++
			require.False(t, id[c.ID], "doubled: %s", c.Subject)
			id[c.ID] = true
		}
	}
	wg.Wait()
	for i := range n {
		require.Eventually(t, func() bool { return b.entry(t, newRef(i), ledger.StepOpen) != nil }, patience, tick)
	}
	late.move(time.Minute) // what looks old is given a moment for its end to arrive
	take(opened)
	for i := range n {
		b.await(t, newRef(i), ledger.StepOpen, ledger.Sent)
		b.end(t, newRef(i), summary(newRef(i), now), hitl.Answered, ada)
	}
	take(closed)
	require.Len(t, count, 2*n)
	for i := range n {
		b.await(t, newRef(i), ledger.StepClosed, ledger.Sent)
	}
	require.Empty(t, hook.calls)
}
