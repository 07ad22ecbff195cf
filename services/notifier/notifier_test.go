package notifier_test

import (
	"log/slog"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/notifier"
	"github.com/banksman/banksman/services/notifier/internal/channel"
	"github.com/banksman/banksman/services/notifier/internal/ledger"
)

const (
	opened   = "banksman.interaction.opened"
	reminder = "banksman.interaction.reminder"
	closed   = "banksman.interaction.closed"
)

// A message says all that a receiver needs, and the same place hears how it
// ended, from whom and when.
func TestB71_B67_ToldWholeThenToldOutcomeWhoAndWhen(t *testing.T) {
	t.Parallel()
	b, hook := newBench(t), newReceiver(t, nil)
	b.notify(t, hook.options(t, "0s"))
	ref, now := newRef(1), time.Now()
	s := summary(ref, now)
	expires := now.Add(time.Hour)
	s.ExpiresAt = &expires
	b.open(t, ref, s)
	first := hook.next(t)
	require.Equal(t, opened, first.Type)
	require.Equal(t, ref.String(), first.Subject)
	require.Equal(t, map[string]any{
		"title": "Clean up the release", "headline": "build-7 wants to use Bash", "agent": "build-7", "session": "s1",
		"project": "shop", "risk": "high", "kind": "approval", "tool": "Bash",
		"expires_at": expires.Format(time.RFC3339Nano), "link": "https://banksman.test/#/i/" + ref.String(),
	}, first.Data)

	b.end(t, ref, s, hitl.Denied, ada)
	last := hook.next(t)
	require.Equal(t, closed, last.Type)
	require.Equal(t, first.Subject, last.Subject, "one tag for both")
	require.NotEqual(t, first.ID, last.ID)
	require.Equal(t, "denied", last.Data["outcome"])
	require.Equal(t, map[string]any{"kind": "person", "id": "ada", "name": "Ada"}, last.Data["decided_by"])
	require.Equal(t, "2026-03-01T14:02:00Z", last.Data["at"])
	require.Equal(t, first.Data["link"], last.Data["link"])
	b.await(t, ref, ledger.StepClosed, ledger.Sent)
	require.Empty(t, hook.calls)
}

// What is decided before the delay has passed is never heard of.
func TestB68_SilentOnceDecided(t *testing.T) {
	t.Parallel()
	b, hook, clk := newBench(t), newReceiver(t, nil), newClock(time.Now())
	o := hook.options(t, "5s")
	o.Clock = clk
	b.notify(t, o)

	gone, other := newRef(1), newRef(2)
	b.open(t, gone, summary(gone, clk.Now()))
	b.await(t, gone, ledger.StepOpen, ledger.Planned)
	b.end(t, gone, summary(gone, clk.Now()), hitl.Allowed, ada)
	b.await(t, gone, ledger.StepOpen, ledger.Retracted)

	b.open(t, other, summary(other, clk.Now()))
	b.await(t, other, ledger.StepOpen, ledger.Planned)
	require.Empty(t, hook.calls, "the delay has not passed")
	clk.move(time.Minute)
	require.Equal(t, other.String(), hook.next(t).Subject)
	b.await(t, other, ledger.StepOpen, ledger.Sent)
	require.Empty(t, hook.calls)
	require.Nil(t, b.entry(t, gone, ledger.StepClosed), "who was told nothing needs no end")
}

// What a rule decided never waited: nobody is told.
func TestB68_SilentAboutWhatNeverWaited(t *testing.T) {
	t.Parallel()
	b, hook := newBench(t), newReceiver(t, nil)
	b.notify(t, hook.options(t, "0s"))
	now := time.Now()
	ruled, other := newRef(1), newRef(2)
	b.event(t, ruled, subject.Open, wire.Opened{V: 1, Summary: summary(ruled, now), RequestSeq: 1, Decided: true})
	b.end(t, ruled, summary(ruled, now), hitl.Allowed, hitl.Principal{Kind: "rule", ID: "r1"})
	b.open(t, other, summary(other, now))
	require.Equal(t, other.String(), hook.next(t).Subject)
	b.await(t, other, ledger.StepOpen, ledger.Sent)
	require.Empty(t, hook.calls)
	require.Nil(t, b.entry(t, ruled, ledger.StepOpen))
	require.Nil(t, b.entry(t, ruled, ledger.StepClosed))
}

// A notifier that comes back finds opens and their ends together, in any order,
// and is silent about all of them.
func TestB68_SilentAboutWhatWasDecidedWhileAway(t *testing.T) {
	t.Parallel()
	b, hook := newBench(t), newReceiver(t, nil)
	now := time.Now()
	// More than one pull: the first half opens long before its ends, the second
	// half ends before it opens.
	const n = 200
	for i := range n / 2 {
		b.open(t, newRef(i), summary(newRef(i), now))
	}
	for i := range n {
		b.end(t, newRef(i), summary(newRef(i), now), hitl.Allowed, ada)
	}
	for i := n / 2; i < n; i++ {
		b.open(t, newRef(i), summary(newRef(i), now))
	}
	last := newRef(1000)
	b.open(t, last, summary(last, now))
	b.notify(t, hook.options(t, "0s"))
	require.Equal(t, last.String(), hook.next(t).Subject)
	for i := range n {
		ctx := t.Context()
		require.Eventually(t, func() bool { _, err := b.ledger.Over(ctx, newRef(i)); return err == nil }, patience, tick)
		if r := b.entry(t, newRef(i), ledger.StepOpen); r != nil {
			b.await(t, newRef(i), ledger.StepOpen, ledger.Retracted)
		}
	}
	require.Empty(t, hook.calls)
}

// An expiry leaves a warning with kind and tool, whoever was told, and those
// that were told hear that nobody decided.
func TestB32_B33_ExpiredIsNobodysDecision(t *testing.T) {
	t.Parallel()
	b, hook := newBench(t), newReceiver(t, nil)
	n := b.notify(t, hook.options(t, "0s"))
	told, untold := newRef(1), newRef(2)
	b.open(t, told, summary(told, time.Now()))
	hook.next(t)
	b.end(t, told, summary(told, time.Now()), hitl.Expired, nobody)
	last := hook.next(t)
	require.Equal(t, closed, last.Type)
	require.Equal(t, "expired", last.Data["outcome"])
	require.NotContains(t, last.Data, "decided_by")

	b.end(t, untold, summary(untold, time.Now()), hitl.Expired, nobody)
	for _, ref := range []string{told.String(), untold.String()} {
		require.Eventually(t, func() bool {
			return len(n.log.lines(`"level":"WARN"`, "nobody decided in time", ref, `"kind":"approval"`, `"tool":"Bash"`)) == 1
		}, patience, tick)
	}
	require.NotContains(t, n.log.String(), toolInput)
	require.Empty(t, hook.calls)
}

// A person hears once more, before the time is over, and only while it waits.
func TestB42_RemindsOnceBeforeExpiry(t *testing.T) {
	t.Parallel()
	start := time.Now()
	b, hook, clk := newBench(t), newReceiver(t, nil), newClock(start)
	o := hook.options(t, "0s")
	o.Clock = clk
	b.notify(t, o)
	waits, answered := newRef(1), newRef(2)
	attention, expires := start.Add(5*time.Hour), start.Add(10*time.Hour)
	for _, r := range []subject.Ref{waits, answered} {
		s := summary(r, start)
		s.AttentionAt, s.ExpiresAt = &attention, &expires
		b.open(t, r, s)
		require.Equal(t, opened, hook.next(t).Type)
		b.await(t, r, ledger.StepReminder, ledger.Planned)
		b.await(t, r, ledger.StepOpen, ledger.Sent)
	}
	b.end(t, answered, summary(answered, start), hitl.Allowed, ada)
	require.Equal(t, closed, hook.next(t).Type)
	b.await(t, answered, ledger.StepReminder, ledger.Retracted)

	require.Empty(t, hook.calls)
	clk.move(5 * time.Hour)
	c := hook.next(t)
	require.Equal(t, reminder, c.Type)
	require.Equal(t, waits.String(), c.Subject)
	b.await(t, waits, ledger.StepReminder, ledger.Sent)
	clk.move(time.Hour)
	require.Empty(t, hook.calls)

	// The time is over, and no gateway has said so yet.
	late := newRef(3)
	s := summary(late, start)
	soon := clk.Now().Add(time.Second)
	s.ExpiresAt = &soon
	clk.move(time.Minute)
	b.open(t, late, s)
	b.end(t, late, s, hitl.Expired, nobody)
	require.Eventually(t, func() bool { _, err := b.ledger.Over(t.Context(), late); return err == nil }, patience, tick)
	require.Nil(t, b.entry(t, late, ledger.StepOpen))
	require.Empty(t, hook.calls)
}

// Two asks of one session, one tool call even, are two alerts.
func TestB68_SecondAskOfASessionAlertsAgain(t *testing.T) {
	t.Parallel()
	b, hook := newBench(t), newReceiver(t, nil)
	b.notify(t, hook.options(t, "0s"))
	ids := map[string]bool{}
	for i := range 2 {
		ref := newRef(i)
		s := summary(ref, time.Now())
		s.ToolCallID = "same"
		b.open(t, ref, s)
		c := hook.next(t)
		require.Equal(t, opened, c.Type)
		ids[c.ID] = true
		b.end(t, ref, s, hitl.Allowed, ada)
		require.Equal(t, closed, hook.next(t).Type)
	}
	require.Len(t, ids, 2)
}

// The default configuration logs, and the log has neither input nor the agent's
// own words.
func TestLogChannelIsTheDefaultAndDiscreet(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.notify(t, notifier.Options{})
	ref := newRef(1)
	b.open(t, ref, summary(ref, time.Now()))
	require.Eventually(t, func() bool {
		return len(n.log.lines(`"msg":"waiting for a decision"`, ref.String(), "https://banksman.test/#/i/")) == 1
	}, patience, tick)
	b.end(t, ref, summary(ref, time.Now()), hitl.Allowed, ada)
	require.Eventually(t, func() bool {
		return len(n.log.lines(`"msg":"no longer waiting"`, `"outcome":"allowed"`, `"decided_by":"person ada"`)) == 1
	}, patience, tick)
	require.NotContains(t, n.log.String(), toolInput)
	require.NotContains(t, n.log.String(), "Clean up")
}

// An attempt under way at the end of the process is finished and written down.
func TestStopFinishesWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	release := make(chan struct{})
	hook := newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		<-release
		w.WriteHeader(http.StatusOK)
	})
	n := b.notify(t, hook.options(t, "0s"))
	ref := newRef(1)
	b.open(t, ref, summary(ref, time.Now()))
	hook.next(t)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		n.stop()
	}()
	close(release)
	<-stopped
	require.Equal(t, ledger.Sent, b.entry(t, ref, ledger.StepOpen).State)
}

// The server may go and come back; nothing is missed and nothing said twice.
func TestServerRestart(t *testing.T) {
	t.Parallel()
	b, hook := newBench(t), newReceiver(t, nil)
	b.notify(t, hook.options(t, "0s"))
	seen := map[string]int{}
	for i := range 3 {
		ref := newRef(i)
		b.open(t, ref, summary(ref, time.Now()))
		seen[hook.next(t).Subject]++
		b.await(t, ref, ledger.StepOpen, ledger.Sent)
		b.srv.Shutdown()
		b.start(t)
	}
	require.Len(t, seen, 3)
	require.Empty(t, hook.calls)

	// It still hears of what others plan.
	other := newRef(4)
	_, created, err := b.ledger.Create(t.Context(), ledger.Key{Ref: other, Step: ledger.StepOpen, Channel: "hook"}, ledger.Entry{
		State: ledger.Planned, DueAt: time.Now(), Alert: &channel.Alert{ID: "msg_other", Type: channel.Opened, Key: other.String()},
	})
	require.NoError(t, err)
	require.True(t, created)
	require.Equal(t, "msg_other", hook.next(t).ID)
}

// Retries keep id and body, follow the schedule and the receiver's wish, and
// end with a success that clears the alarm.
func TestRetriesUntilTheReceiverTakesIt(t *testing.T) {
	t.Parallel()
	hook := newReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		switch n {
		case 1, 3, 4, 5:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 2:
			w.Header().Set("Retry-After", "20")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})
	b, clk := newBench(t), newClock(time.Now())
	o := hook.options(t, "0s")
	o.Clock = clk
	n := b.notify(t, o)
	ref := newRef(1)
	b.open(t, ref, summary(ref, clk.Now()))
	first := hook.next(t)
	for i, wait := range []time.Duration{time.Second, 20 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute} {
		r := b.entry(t, ref, ledger.StepOpen)
		require.Eventually(t, func() bool {
			r = b.entry(t, ref, ledger.StepOpen)
			return r.State == ledger.Planned && r.Tries == i+1
		}, patience, tick)
		require.WithinDuration(t, clk.Now().Add(wait), r.DueAt, time.Millisecond)
		require.Contains(t, r.Problem, "status ")
		clk.move(wait - time.Millisecond)
		require.Empty(t, hook.calls)
		clk.move(time.Millisecond)
		c := hook.next(t)
		require.Equal(t, first.ID, c.ID)
		require.Equal(t, first.Raw, c.Raw)
	}
	r := b.await(t, ref, ledger.StepOpen, ledger.Sent)
	require.Equal(t, 6, r.Tries)
	require.NotNil(t, r.SentAt)
	require.Nil(t, r.Alert, "what is done needs no text")
	require.Len(t, n.log.lines("ALARM", `"channel":"hook"`), 1)
	require.Eventually(t, func() bool { return len(n.log.lines("works again")) == 1 }, patience, tick)
	require.NotContains(t, n.log.String(), "hidden", "the query of the address")
	require.NotContains(t, n.log.String(), "whsec_")
}

// Attempts end: by refusal, by their number, by the deadline.
func TestGivesUp(t *testing.T) {
	t.Parallel()
	var status atomic.Int32
	hook := newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(status.Load())) })
	b, clk := newBench(t), newClock(time.Now())
	o := hook.options(t, "0s")
	o.Clock = clk
	n := b.notify(t, o)

	status.Store(http.StatusBadRequest)
	refused := newRef(1)
	b.open(t, refused, summary(refused, clk.Now()))
	hook.next(t)
	r := b.await(t, refused, ledger.StepOpen, ledger.Failed)
	require.Equal(t, 1, r.Tries)
	require.False(t, r.Told(), "who refused it is not told of the end")

	status.Store(http.StatusInternalServerError)
	short := newRef(2)
	s := summary(short, clk.Now())
	expires := clk.Now().Add(4 * time.Second)
	s.ExpiresAt = &expires
	b.open(t, short, s)
	hook.next(t)
	require.Eventually(t, func() bool { return b.entry(t, short, ledger.StepOpen).State == ledger.Planned }, patience, tick)
	clk.move(time.Second)
	hook.next(t)
	require.Equal(t, 2, b.await(t, short, ledger.StepOpen, ledger.Dead).Tries)
	require.Len(t, n.log.lines(`"level":"WARN"`, "no time left", short.String()), 1)

	never := newRef(3)
	b.open(t, never, summary(never, clk.Now()))
	hook.next(t)
	for i := range 5 {
		require.Eventually(t, func() bool {
			r := b.entry(t, never, ledger.StepOpen)
			return r.State == ledger.Planned && r.Tries == i+1
		}, patience, tick)
		clk.move(10 * time.Minute)
		hook.next(t)
	}
	require.Equal(t, 6, b.await(t, never, ledger.StepOpen, ledger.Dead).Tries)
	require.Len(t, n.log.lines(`"level":"WARN"`, "every attempt failed", never.String()), 1)
	clk.move(time.Hour)
	require.Empty(t, hook.calls)
}

// An endpoint that says 410 is left alone, by all replicas and for what opens later,
// until somebody reaches it by a test or a notifier starts anew.
func TestGoneEndpointGetsNothingMoreUntilItIsReached(t *testing.T) {
	t.Parallel()
	var gone atomic.Bool
	gone.Store(true)
	hook := newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		if gone.Load() {
			w.WriteHeader(http.StatusGone)
		}
	})
	b, other := newBench(t), newReceiver(t, nil)
	o := hook.options(t, "0s")
	o.Config.Channels = append(o.Config.Channels, other.options(t, "0s").Config.Channels...)
	o.Config.Channels[1].Name = "other"
	first := b.notify(t, o)
	replica := b.notify(t, o)
	ref := newRef(1)
	b.open(t, ref, summary(ref, time.Now()))
	hook.next(t)
	require.Equal(t, 1, b.await(t, ref, ledger.StepOpen, ledger.Dead).Tries)
	require.Len(t, append(first.log.lines(`"level":"ERROR"`, "410"), replica.log.lines(`"level":"ERROR"`, "410")...), 1)
	other.next(t)
	l, err := notifier.OpenLedger(t.Context(), b.cred)
	require.NoError(t, err)
	defer l.Close()
	// The replicas learn of it a moment later; what opens then is not even planned.
	for i := 2; ; i++ {
		next := newRef(i)
		b.open(t, next, summary(next, time.Now()))
		require.Equal(t, next.String(), other.next(t).Subject)
		x, err := l.Explain(t.Context(), next)
		require.NoError(t, err)
		mine := of(x, "open", "hook")
		if mine.State == "skipped" {
			require.Contains(t, mine.Problem, "wants no more messages; banksman notify test tries it again")
			break
		}
		require.Less(t, i, 100, "%+v", mine)
	}
	before := len(hook.calls)

	// A test that fails changes nothing, one that succeeds does, without a new start.
	for _, works := range []bool{false, true} {
		gone.Store(!works)
		tested, err := notifier.Test(t.Context(), slog.New(slog.DiscardHandler), o.Config, nil, baseURL, "hook")
		require.NoError(t, err)
		n, err := l.Welcome(t.Context(), tested)
		require.NoError(t, err)
		require.Equal(t, map[bool]int{false: 0, true: 1}[works], n)
	}
	for range before + 2 {
		hook.next(t)
	}
	told := false
	for i := 200; !told; i++ { // until both replicas know
		require.Less(t, i, 300)
		next := newRef(i)
		b.open(t, next, summary(next, time.Now()))
		other.next(t)
		require.Eventually(t, func() bool {
			x, err := l.Explain(t.Context(), next)
			told = err == nil && of(x, "open", "hook").State == "sent"
			return err == nil && (told || of(x, "open", "hook").State == "skipped")
		}, patience, tick)
	}

	// So does a new start.
	gone.Store(true)
	last := newRef(400)
	b.open(t, last, summary(last, time.Now()))
	other.next(t)
	require.Eventually(t, func() bool {
		x, err := l.Explain(t.Context(), last)
		s := of(x, "open", "hook").State
		return err == nil && (s == "dead" || s == "skipped")
	}, patience, tick)
	first.stop()
	replica.stop()
	gone.Store(false)
	b.notify(t, o)
	again := newRef(401)
	b.open(t, again, summary(again, time.Now()))
	b.await(t, again, ledger.StepOpen, ledger.Sent)
}

// The notifier may be there before the streams are.
func TestStartsBeforeTheStreams(t *testing.T) {
	t.Parallel()
	b, hook := newBareBench(t), newReceiver(t, nil)
	n := b.notify(t, hook.options(t, "0s"))
	require.Eventually(t, func() bool { return len(n.log.lines("cannot be reached")) == 1 }, patience, tick)
	b.provision(t)
	ref := newRef(1)
	b.open(t, ref, summary(ref, time.Now()))
	require.Equal(t, ref.String(), hook.next(t).Subject)
}

// An event that makes no sense is named and dropped; the next one is handled.
func TestUnreadableEventIsDropped(t *testing.T) {
	t.Parallel()
	b, hook := newBench(t), newReceiver(t, nil)
	n := b.notify(t, hook.options(t, "0s"))
	b.event(t, newRef(1), subject.Open, []string{"not", "an", "event"})
	b.event(t, newRef(2), subject.Closed, 7)
	ref := newRef(3)
	b.open(t, ref, summary(ref, time.Now()))
	require.Equal(t, ref.String(), hook.next(t).Subject)
	require.Eventually(t, func() bool { return len(n.log.lines(`"level":"ERROR"`, "cannot be read is dropped")) == 2 }, patience, tick)
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	inside := notifier.Config{Channels: []notifier.Channel{{Name: "browser", Type: notifier.TypePush, From: "mailto:ops@c.example", To: "ada", AllowPrivate: true}}}
	for _, c := range []struct {
		name, want string
		o          notifier.Options
	}{
		{"no credential", "Credentials: missing", notifier.Options{}},
		{"another role", "want a notifier's", notifier.Options{Credentials: &bus.Credentials{Role: bus.RoleGateway}}},
		{"a relative base", "-base-url", notifier.Options{Credentials: &bus.Credentials{Role: bus.RoleNotifier}, BaseURL: "/x"}},
		{"a base with a password", "-base-url", notifier.Options{Credentials: &bus.Credentials{Role: bus.RoleNotifier}, BaseURL: "https://a:b@c"}},
		{"pushes that lead inside", "is for pushes only where", notifier.Options{Credentials: &bus.Credentials{Role: bus.RoleNotifier}, BaseURL: "https://c.example", Config: inside}},
		{"pushes of nowhere", "is for pushes only where", notifier.Options{Credentials: &bus.Credentials{Role: bus.RoleNotifier, Tenant: "default"}, Config: inside}},
		{"pushes that lead to a page on loopback", "seed: ", notifier.Options{Credentials: &bus.Credentials{Role: bus.RoleNotifier}, BaseURL: "http://127.0.0.1:8080", Config: inside}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := notifier.New(t.Context(), c.o)
			require.ErrorContains(t, err, c.want)
		})
	}
}
