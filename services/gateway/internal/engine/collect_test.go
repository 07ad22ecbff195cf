package engine

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/quota"
)

// leave puts a request where owners leave it while no gateway is there.
func (w *world) leave(r *hitl.Request) []byte {
	w.t.Helper()
	raw, err := hitl.Marshal(r)
	require.NoError(w.t, err)
	w.store(w.connect(), subject.Left(subject.Request(ref(r))), raw)
	return raw
}

// What was asked while no gateway was there is taken in by the next one, as old as it
// is: its time runs since then, and who withdrew it meanwhile is not kept waiting for.
func TestWhatWasLeftIsTakenIn_D0_10_D1_16_invariant3(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nc := w.connect()
	waits, late, gone := request("waits", expiring(time.Hour)), request("late", expiring(20*time.Millisecond)), request("gone")
	raw := w.leave(waits)
	w.leave(late)
	w.leave(gone)
	w.store(nc, subject.Left(subject.Withdraw(ref(gone))), []byte(`{"v":1,"reason":"not needed any more"}`))
	left := time.Now()
	for time.Since(left) < 20*time.Millisecond { // its time runs out with nobody there
		require.NoError(t, nc.Flush())
	}
	e, _ := w.gateway()
	pending(t, e, waits.ID)
	require.Equal(t, hitl.Expired, outcome(t, e, late).Outcome)
	require.Equal(t, hitl.Cancelled, outcome(t, e, gone).Outcome)
	ix, err := e.Interaction(t.Context(), ref(waits).String())
	require.NoError(t, err)
	require.True(t, ix.CreatedAt.Before(left), "%s is not before %s", ix.CreatedAt, left)
	rec := e.Decide(t.Context(), answer(waits, raw, "ada", allow))
	require.Equal(t, hitl.Accepted, rec.Status)
	require.Eventually(t, func() bool {
		pos, err := w.journal(nc).Position(t.Context(), journal.Mailbox)
		return err == nil && pos.First > pos.Last
	}, patience, time.Millisecond, "nothing is left there")
}

// idle collects nothing before it is let.
type idle struct {
	journal.Journal
	let chan struct{}
}

func (i *idle) Collect(ctx context.Context, workers int, fn func(context.Context, journal.Delivery)) error {
	select {
	case <-i.let:
	case <-ctx.Done():
		return ctx.Err()
	}
	return i.Journal.Collect(ctx, workers, fn)
}

// A withdrawal that comes by a gateway, while its request lies where it was left, ends
// it there: it waits for nothing, and nobody is shown what its asker took back, however
// late and by whatever way the request comes.
func TestAWithdrawalEndsWhatWasLeft_D1_17_invariant3_invariant8(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nc := w.connect()
	let := make(chan struct{})
	e, _ := w.gateway(func(o *Options) { o.Journal = &idle{o.Journal, let} })
	j := w.journal(nc)
	var all []*hitl.Request
	for i := range 20 {
		r := request(fmt.Sprintf("left-%d", i))
		all = append(all, r)
		w.leave(r)
		w.store(nc, subject.Withdraw(ref(r)), []byte(`{"v":1}`))
	}
	for _, r := range all {
		require.Equal(t, hitl.Cancelled, outcome(t, e, r).Outcome)
	}
	require.Eventually(t, func() bool { // the withdrawals are used up, though nothing was collected
		pos, err := j.Position(t.Context(), journal.Requests)
		return err == nil && pos.First > pos.Last
	}, patience, time.Millisecond)
	w.ask(nc, all[0]) // its first try, which had waited at another gateway
	close(let)
	require.Eventually(t, func() bool {
		pos, err := j.Position(t.Context(), journal.Mailbox)
		return err == nil && pos.First > pos.Last
	}, patience, time.Millisecond)
	require.Eventually(t, func() bool {
		pos, err := j.Position(t.Context(), journal.Requests)
		return err == nil && pos.First > pos.Last
	}, patience, time.Millisecond)
	pending(t, e)
	pos, err := j.Position(t.Context(), journal.Decisions)
	require.NoError(t, err)
	require.EqualValues(t, len(all), pos.Last)
}

// What an owner leaves and takes back, while it lies there, goes on the record within
// its quota only. What is beyond is not forgotten: whatever gateway takes it in later,
// with whatever quota, shows nobody what was taken back, and nothing is left lying.
func TestWhatWasLeftAndTakenBackIsCharged_B56_D1_17_invariant3(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nc := w.connect()
	var all []*hitl.Request
	for i := range 10 {
		r := request(fmt.Sprintf("left-%d", i))
		all = append(all, r)
		w.leave(r)
		w.store(nc, subject.Withdraw(ref(r)), []byte(`{"v":1}`))
	}
	never := make(chan struct{})
	e, stop := w.gateway(func(o *Options) {
		o.Quota = quota.Limits{DayBytes: 3 * 4096}
		o.Journal = &idle{o.Journal, never}
	})
	j := w.journal(nc)
	require.Eventually(t, func() bool {
		intake, _, err := j.Floors(t.Context())
		return err == nil && intake == uint64(len(all))
	}, patience, time.Millisecond, "no withdrawal waits in intake's hand")
	pending(t, e)
	pos, err := j.Position(t.Context(), journal.Decisions)
	require.NoError(t, err)
	require.EqualValues(t, 3, pos.Last)
	stop()

	e, _ = w.gateway()
	for _, r := range all {
		require.Equal(t, hitl.Cancelled, outcome(t, e, r).Outcome)
	}
	for _, stream := range []string{journal.Mailbox, journal.Requests} {
		require.Eventually(t, func() bool {
			pos, err := j.Position(t.Context(), stream)
			return err == nil && pos.First > pos.Last
		}, patience, time.Millisecond, stream)
	}
	pending(t, e)
}

// What was left of a request that is decided meanwhile is not shown again.
func TestWhatWasLeftAndDecidedIsNotShownAgain_invariant8(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := request("twice")
	e, stop := w.gateway()
	raw := w.ask(w.connect(), r)
	pending(t, e, r.ID)
	require.Equal(t, hitl.Accepted, e.Decide(t.Context(), answer(r, raw, "ada", allow)).Status)
	require.Equal(t, hitl.Allowed, outcome(t, e, r).Outcome)
	stop()
	w.leave(r)
	next := request("next")
	w.leave(next)
	e, _ = w.gateway()
	pending(t, e, next.ID)
	j := w.journal(w.connect())
	require.Eventually(t, func() bool {
		_, err := j.Request(t.Context(), ref(r))
		return err != nil
	}, patience, time.Millisecond)
	pending(t, e, next.ID)
	list, err := e.Interactions(t.Context(), wire.StateClosed, 0)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, hitl.Allowed, list[0].Outcome)
}

// Nobody is told that there is no such thing of what was asked and acknowledged, and
// has not been passed on yet.
func TestWhatWasLeftIsNotUnknown_invariant6_invariant9(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := request("left")
	raw := w.leave(r)
	never := make(chan struct{})
	e, _ := w.gateway(func(o *Options) { o.Journal = &idle{o.Journal, never} })
	for _, id := range []string{ref(r).String(), r.ID} {
		_, err := e.Interaction(t.Context(), id)
		require.ErrorIs(t, err, journal.ErrLeft, id)
		a := answer(r, raw, "ada", allow)
		a.RequestID = id
		rec := e.Decide(t.Context(), a)
		require.Equal(t, hitl.Unavailable, rec.Status, id)
		require.Contains(t, rec.Error, "try again")
	}
	close(never)
	pending(t, e, r.ID)
	require.Equal(t, hitl.Accepted, e.Decide(t.Context(), answer(r, raw, "ada", allow)).Status)
}

// Somebody asks again while no gateway is there and takes it back: of one request then
// lies a copy where it was asked before, and one where it was left. It ends once, and
// neither copy is left to be shown by a gateway that has forgotten its end.
func TestACopyOfWhatWasTakenBackIsNotLeft_invariant3_invariant8(t *testing.T) {
	t.Parallel()
	for name, over := range map[string]func(*world, *hitl.Request){
		"taken back": func(w *world, r *hitl.Request) {
			w.store(w.connect(), subject.Left(subject.Withdraw(ref(r))), []byte(`{"v":1}`))
		},
		"its time was up": func(w *world, r *hitl.Request) {
			for until := w.stamp(ref(r)).Add(r.Expiry()); time.Now().Before(until); {
				require.NoError(t, w.connect().Flush())
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			r := request("twice", expiring(time.Hour))
			if name == "its time was up" {
				expiring(300 * time.Millisecond)(r)
			}
			w.ask(w.connect(), r)
			w.leave(r)
			over(w, r)
			e, stop := w.gateway()
			require.NotEqual(t, hitl.Allowed, outcome(t, e, r).Outcome)
			j := w.journal(w.connect())
			require.Eventually(t, func() bool {
				for _, stream := range []string{journal.Requests, journal.Mailbox} {
					if pos, err := j.Position(t.Context(), stream); err != nil || pos.First <= pos.Last {
						return false
					}
				}
				return true
			}, patience, time.Millisecond, "a copy stays")
			stop()
			for i := range 3 { // later ends, which push this one out of what a gateway remembers
				next := request(fmt.Sprintf("next-%d", i))
				w.ask(w.connect(), next)
				w.store(w.connect(), subject.Withdraw(ref(next)), []byte(`{"v":1}`))
			}
			e, stop = w.gateway()
			require.Equal(t, hitl.Cancelled, outcome(t, e, request("next-2")).Outcome)
			stop()
			e, _ = w.gateway(func(o *Options) { o.recent = 1 })
			pending(t, e)
		})
	}
}
