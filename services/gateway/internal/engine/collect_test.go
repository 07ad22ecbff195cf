package engine

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
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

// slowCollector lets nothing be collected before somebody has looked for a request
// that is still to be.
type slowCollector struct {
	journal.Journal
	look   func()
	looked chan struct{}
}

func (s *slowCollector) Request(ctx context.Context, ref subject.Ref) (*journal.Message, error) {
	m, err := s.Journal.Request(ctx, ref)
	if errors.Is(err, journal.ErrLeft) {
		s.look()
	}
	return m, err
}

func (s *slowCollector) Collect(ctx context.Context, workers int, fn func(context.Context, journal.Delivery)) error {
	select {
	case <-s.looked:
	case <-ctx.Done():
		return ctx.Err()
	}
	return s.Journal.Collect(ctx, workers, fn)
}

// A withdrawal that comes by a gateway, while its request lies where it was left, is not
// spent on nothing: nobody is shown what its asker took back.
func TestAWithdrawalWaitsForWhatWasLeft_D1_17_invariant3(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := request("left")
	w.leave(r)
	w.store(w.connect(), subject.Withdraw(ref(r)), []byte(`{"v":1}`))
	looked := make(chan struct{})
	e, _ := w.gateway(func(o *Options) {
		o.Journal = &slowCollector{o.Journal, sync.OnceFunc(func() { close(looked) }), looked}
	})
	require.Equal(t, hitl.Cancelled, outcome(t, e, r).Outcome)
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
	e, _ := w.gateway(func(o *Options) { o.Journal = &slowCollector{o.Journal, func() {}, never} })
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
