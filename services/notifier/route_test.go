package notifier_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/notifier"
	"github.com/banksman/banksman/services/notifier/internal/ledger"
)

const digested = "banksman.digest"

// routed is a configuration with people: more is what else stands in it.
func (r *receiver) routed(more string) string {
	return fmt.Sprintf(`channels:
  - name: hook
    type: webhook
    url: %q
    secrets: [%q]
    allow_private: true
%s`, r.URL+"/hook?token=hidden", secret, more)
}

// onlyAda tells ada after five seconds.
const onlyAda = `recipients:
  - name: ada
    channels: [{channel: hook}]
routes:
  - name: all
    steps: [{after: 5s, to: [ada]}]
`

func (r *receiver) people(t *testing.T, more string) notifier.Options {
	t.Helper()
	file := filepath.Join(t.TempDir(), "notifier.yaml")
	require.NoError(t, os.WriteFile(file, []byte(r.routed(more)), 0o600))
	cfg, err := notifier.LoadConfig(file)
	require.NoError(t, err)
	return notifier.Options{Config: cfg}
}

// at reads a delivery to an address.
func (b *bench) at(t *testing.T, ref subject.Ref, step ledger.Step, address string) *ledger.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := b.ledger.Get(ctx, ledger.Key{Ref: ref, Step: step, Channel: address})
	if err != nil {
		require.ErrorIs(t, err, ledger.ErrNotFound)
		return nil
	}
	return r
}

func (b *bench) awaitAt(t *testing.T, ref subject.Ref, step ledger.Step, address string, state ledger.State) *ledger.Record {
	t.Helper()
	var r *ledger.Record
	require.Eventually(t, func() bool {
		r = b.at(t, ref, step, address)
		return r != nil && r.State == state
	}, patience, tick, "%s to %s is not %s", step, address, state)
	return r
}

// waiting is how many requests a message stands for.
func (c call) waiting() int {
	if c.Type != digested {
		return 1
	}
	return int(c.Data["digest"].(map[string]any)["waiting"].(float64))
}

// A thousand requests of one session within a minute are at most three messages
// to one person in that minute, and in the end each of them was told of.
func TestFloodIsThreeMessagesAMinute(t *testing.T) {
	t.Parallel()
	const n, minute = 1000, 60
	b, hook, clk := newBench(t), newReceiver(t, nil), newClock(time.Now())
	o := hook.people(t, onlyAda)
	o.Clock = clk
	b.notify(t, o)
	sent := 0
	for s := range minute {
		for ; sent < n*(s+1)/minute; sent++ {
			b.open(t, newRef(sent), summary(newRef(sent), clk.Now()))
		}
		b.awaitAt(t, newRef(sent-1), "step1", "ada/hook", ledger.Planned)
		clk.move(time.Second)
	}
	// The steps of the last five seconds are not due, and none of the others can
	// be told of before the minute of the first message is over.
	told := 0
	for range 3 {
		c := hook.next(t)
		told += c.waiting()
		require.Equal(t, "ada", c.Data["recipient"])
		require.NotContains(t, c.Raw, toolInput)
	}
	require.Empty(t, hook.calls, "more than three messages in the first minute")
	require.Less(t, told, n)
	for told < n {
		clk.move(20 * time.Second)
		select {
		case c := <-hook.calls:
			require.Equal(t, digested, c.Type)
			require.Equal(t, "https://banksman.test/", c.Data["link"])
			told += c.waiting()
		case <-time.After(100 * time.Millisecond): // the clock has to move on
		}
	}
	require.Equal(t, n, told)
	for i := range n {
		b.awaitAt(t, newRef(i), "step1", "ada/hook", ledger.Sent)
	}
	require.Empty(t, hook.calls)
}

// However long somebody wants to look after a request, the others are told while there is
// time to decide.
func TestAClaimLeavesTimeToDecide(t *testing.T) {
	t.Parallel()
	b, hook, clk := newBench(t), newReceiver(t, nil), newClock(time.Now())
	o := hook.people(t, `recipients:
  - {name: ada, channels: [{channel: hook}], group: 0s}
  - {name: bob, channels: [{channel: hook}], group: 0s}
routes:
  - name: shop
    match: {project: shop}
    steps:
      - {after: 0s, to: [ada]}
      - {after: 5m, to: [bob]}
`)
	o.Clock = clk
	b.notify(t, o)
	ref := newRef(1)
	s := summary(ref, clk.Now())
	deadline := clk.Now().Add(40 * time.Minute)
	s.ExpiresAt = &deadline
	b.open(t, ref, s)
	hook.next(t)
	view, err := notifier.OpenLedger(t.Context(), b.cred)
	require.NoError(t, err)
	defer view.Close()
	got, err := view.Claim(t.Context(), ref, "ada", clk.Now().Add(24*time.Hour))
	require.NoError(t, err)
	require.WithinDuration(t, clk.Now().Add(20*time.Minute), got.Until, time.Minute)
	clk.move(21 * time.Minute)
	c := hook.next(t)
	require.Equal(t, "bob", c.Data["recipient"])
}

// Escalation: the next person is told when the time has come, unless somebody
// says that they look after it; the end is told to whom was told.
func TestEscalationAndClaim(t *testing.T) {
	t.Parallel()
	b, hook, clk := newBench(t), newReceiver(t, nil), newClock(time.Now())
	o := hook.people(t, `recipients:
  - {name: ada, channels: [{channel: hook}], group: 0s}
  - {name: bob, channels: [{channel: hook}], group: 0s}
routes:
  - name: shop
    match: {project: shop, risk: [high, critical]}
    steps:
      - {after: 0s, to: [ada]}
      - {after: 5m, to: [bob]}
`)
	o.Clock = clk
	n := b.notify(t, o)
	alone, claimed, other := newRef(1), newRef(2), newRef(3)
	for _, ref := range []subject.Ref{alone, claimed} {
		b.open(t, ref, summary(ref, clk.Now()))
		c := hook.next(t)
		require.Equal(t, opened, c.Type)
		require.Equal(t, "ada", c.Data["recipient"])
		b.awaitAt(t, ref, "step1", "ada/hook", ledger.Sent)
	}
	s := summary(other, clk.Now())
	s.Risk = "low"
	b.open(t, other, s)
	require.Eventually(t, func() bool { return len(n.log.lines(`"level":"WARN"`, "nobody is told", other.String())) == 1 }, patience, tick)

	view, err := notifier.OpenLedger(t.Context(), b.cred)
	require.NoError(t, err)
	defer view.Close()
	_, err = view.Claim(t.Context(), claimed, "adda", clk.Now().Add(20*time.Minute))
	require.EqualError(t, err, `"adda" is none of its recipients: ada, bob`)
	_, err = view.Claim(t.Context(), newRef(9), "ada", clk.Now().Add(20*time.Minute))
	require.ErrorIs(t, err, notifier.ErrUnknown)
	until, err := view.Claim(t.Context(), claimed, "ada", clk.Now().Add(20*time.Minute))
	require.NoError(t, err)
	require.Equal(t, "ada", until.By)
	second, err := view.Claim(t.Context(), claimed, "bob", clk.Now().Add(time.Hour))
	require.NoError(t, err)
	require.Equal(t, "ada", second.By, "the first one looks after it")

	clk.move(5 * time.Minute)
	c := hook.next(t)
	require.Equal(t, alone.String(), c.Subject)
	require.Equal(t, "bob", c.Data["recipient"])
	held := ledger.Record{}
	require.Eventually(t, func() bool {
		held = *b.at(t, claimed, "step2", "bob/hook")
		return held.Held != ""
	}, patience, tick)
	require.Equal(t, "ada looks after it", held.Held)
	require.Equal(t, ledger.Planned, held.State)
	require.WithinDuration(t, until.Until, held.DueAt, time.Second)
	require.Empty(t, hook.calls)

	b.end(t, claimed, summary(claimed, clk.Now()), hitl.Allowed, ada)
	c = hook.next(t)
	require.Equal(t, closed, c.Type)
	require.Equal(t, "ada", c.Data["recipient"])
	b.awaitAt(t, claimed, "step2", "bob/hook", ledger.Retracted)
	clk.move(time.Hour)
	b.awaitAt(t, claimed, "closed", "ada/hook", ledger.Sent)
	require.Empty(t, hook.calls, "bob was never told and hears nothing")
	require.Nil(t, b.at(t, claimed, "closed", "bob/hook"))
}

// In quiet hours nothing is sent but what is critical; what waits is told in the
// morning, once, and not if it is over by then.
func TestQuietHours(t *testing.T) {
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
	b.notify(t, o)
	waits, over, grave := newRef(1), newRef(2), newRef(3)
	for _, ref := range []subject.Ref{waits, over} {
		b.open(t, ref, summary(ref, midnight))
		require.Eventually(t, func() bool {
			r := b.at(t, ref, "step1", "ada/hook")
			return r != nil && r.Held == "quiet hours" && r.DueAt.Equal(midnight.Add(6*time.Hour))
		}, patience, tick)
	}
	s := summary(grave, midnight)
	s.Risk = "critical"
	b.open(t, grave, s)
	require.Equal(t, grave.String(), hook.next(t).Subject)
	b.end(t, over, summary(over, midnight), hitl.Denied, ada)
	b.awaitAt(t, over, "step1", "ada/hook", ledger.Retracted)
	clk.move(6*time.Hour - time.Minute)
	require.Empty(t, hook.calls)
	clk.move(time.Minute)
	require.Equal(t, waits.String(), hook.next(t).Subject)
	b.awaitAt(t, waits, "step1", "ada/hook", ledger.Sent)
	require.Empty(t, hook.calls)
}

// A receiver that is away gets a digest later, under one id however often it is
// tried, and a refused one is not tried again.
func TestDigestIsRetriedAsItIs(t *testing.T) {
	t.Parallel()
	b, clk := newBench(t), newClock(time.Now())
	hook := newReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		switch {
		case n <= 2:
			w.WriteHeader(http.StatusServiceUnavailable)
		case n == 4:
			w.WriteHeader(http.StatusBadRequest)
		}
	})
	o := hook.people(t, onlyAda)
	o.Clock = clk
	n := b.notify(t, o)
	batch := func(from int) {
		for i := range 5 {
			b.open(t, newRef(from+i), summary(newRef(from+i), clk.Now()))
			b.awaitAt(t, newRef(from+i), "step1", "ada/hook", ledger.Planned)
		}
		n.queues(t, 5)
		clk.move(5 * time.Second)
	}
	batch(0)
	first := hook.next(t)
	require.Equal(t, digested, first.Type)
	require.Equal(t, 5, first.waiting())
	for range 2 {
		c := call{}
		require.Eventually(t, func() bool {
			clk.move(5 * time.Second)
			select {
			case c = <-hook.calls:
				return true
			default:
				return false
			}
		}, patience, 50*time.Millisecond)
		require.Equal(t, first.ID, c.ID)
		require.Equal(t, first.Raw, c.Raw)
	}
	for i := range 5 {
		r := b.awaitAt(t, newRef(i), "step1", "ada/hook", ledger.Sent)
		require.Equal(t, "status 200", r.Receipt.Said)
		require.True(t, r.Many)
	}
	clk.move(time.Minute)
	batch(10)
	require.NotEqual(t, first.ID, hook.next(t).ID)
	for i := range 5 {
		r := b.awaitAt(t, newRef(10+i), "step1", "ada/hook", ledger.Failed)
		require.Contains(t, r.Problem, "status 400")
	}
	clk.move(time.Hour)
	require.Empty(t, hook.calls)
}

// What is decided while it waits for a digest is not in it.
func TestB68_DecidedBeforeTheDigest(t *testing.T) {
	t.Parallel()
	b, hook, clk := newBench(t), newReceiver(t, nil), newClock(time.Now().Truncate(time.Hour))
	o := hook.people(t, strings.Replace(onlyAda, "    channels", "    digest: 1h\n    channels", 1))
	o.Clock = clk
	b.notify(t, o)
	for i := range 10 {
		ref := newRef(i)
		b.open(t, ref, summary(ref, clk.Now().Add(time.Minute)))
		b.awaitAt(t, ref, "step1", "ada/hook", ledger.Planned)
	}
	clk.move(2 * time.Minute)
	require.Eventually(t, func() bool {
		for i := range 10 {
			if b.at(t, newRef(i), "step1", "ada/hook").Held != "goes out with the next digest" {
				return false
			}
		}
		return true
	}, patience, tick)
	for i := range 4 {
		b.end(t, newRef(i), summary(newRef(i), clk.Now()), hitl.Allowed, ada)
		b.awaitAt(t, newRef(i), "step1", "ada/hook", ledger.Retracted)
	}
	require.Empty(t, hook.calls)
	clk.move(time.Hour)
	c := hook.next(t)
	require.Equal(t, 6, c.waiting())
	require.Equal(t, "6 requests are waiting for a decision", c.Data["headline"])
	require.Equal(t, map[string]any{"high": 6.0}, c.Data["digest"].(map[string]any)["risks"])
	b.awaitAt(t, newRef(9), "step1", "ada/hook", ledger.Sent)
	b.end(t, newRef(9), summary(newRef(9), clk.Now()), hitl.Allowed, ada)
	require.Eventually(t, func() bool { _, err := b.ledger.Over(t.Context(), newRef(9)); return err == nil }, patience, tick)
	require.Nil(t, b.at(t, newRef(9), "closed", "ada/hook"), "a digest is not corrected")
	require.Empty(t, hook.calls)
}

// Who has the card before their eyes need not be told of it; a look away, and
// they are. What nobody sees is told at once.
func TestLookHoldsBackTheFirstStep(t *testing.T) {
	t.Parallel()
	b, hook, clk := newBench(t), newReceiver(t, nil), newClock(time.Now())
	o := hook.people(t, strings.Replace(onlyAda, "    channels", "    group: 0s\n    channels", 1))
	o.Clock = clk
	b.notify(t, o)
	gateway := b.connect(t, bus.RoleGateway)
	seen, unseen := newRef(1), newRef(2)
	b.open(t, seen, summary(seen, clk.Now()))
	b.awaitAt(t, seen, "step1", "ada/hook", ledger.Planned)
	// A look is not stored, so its arrival cannot be waited for. What comes after it
	// on the same connection, and takes longer, can.
	require.NoError(t, gateway.Publish(subject.Seen(seen), nil))
	require.NoError(t, gateway.Flush())
	b.open(t, unseen, summary(unseen, clk.Now()))
	b.awaitAt(t, unseen, "step1", "ada/hook", ledger.Planned)
	clk.move(5 * time.Second)
	require.Equal(t, unseen.String(), hook.next(t).Subject)
	require.Eventually(t, func() bool {
		return b.at(t, seen, "step1", "ada/hook").Held == "somebody has it before their eyes"
	}, patience, tick)
	require.Empty(t, hook.calls)
	require.WithinDuration(t, clk.Now().Add(15*time.Second), b.at(t, seen, "step1", "ada/hook").DueAt, time.Second)
	clk.move(20 * time.Second)
	require.Equal(t, seen.String(), hook.next(t).Subject)
	b.awaitAt(t, seen, "step1", "ada/hook", ledger.Sent)
	require.Empty(t, hook.calls)
}
