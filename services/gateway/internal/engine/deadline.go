package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/projection"
)

// jitter spreads the gateways that reach the same deadline, so that mostly one
// of them writes.
const jitter = 100 * time.Millisecond

// awakeAfter bounds one wait for the earliest deadline: a timer does not count
// the time that a machine sleeps, so the clock is looked at now and then.
const awakeAfter = 5 * time.Second

func (e *Engine) watchDeadlines(ctx context.Context) error {
	timer := time.NewTimer(awakeAfter)
	defer timer.Stop()
	for {
		over, wait := e.view.Due(awakeAfter)
		for _, d := range over {
			e.expireSoon(d)
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return nil
		case <-e.alarm:
		case <-timer.C:
		}
	}
}

func (e *Engine) expireSoon(d projection.Due) {
	e.later(time.Minute, func(ctx context.Context) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(rand.Int64N(int64(jitter)))):
		}
		e.expire(ctx, d)
	})
}

func (e *Engine) expire(ctx context.Context, d projection.Due) {
	over, err := e.clock.Over(ctx, e.opts.Journal, d.At)
	if err == nil && !over { // this machine's clock is ahead
		e.view.Again(d.Ref, min(d.At.Sub(e.clock.Server()), awakeAfter))
		return
	}
	var winner *journal.StoredDecision
	if err == nil {
		winner, err = e.settle(ctx, d.Ref, e.clock.Server(), hitl.Content{Outcome: hitl.Expired}, system, "deadline")
	}
	if errors.Is(err, api.ErrNotFound) && !errors.Is(err, errUnread) {
		// Somebody with the rights to do so, or an older copy of the store.
		e.log.Error("a request is gone without a decision: it is not shown any more", "interaction", d.Ref.String())
		e.view.Lost(d.Ref)
		return
	}
	if err != nil {
		e.log.Error("expiry not stored, trying again", "interaction", d.Ref.String(), "error", err)
		e.view.Again(d.Ref, time.Second)
		return
	}
	if winner.Outcome != hitl.Expired {
		return // somebody was faster
	}
	e.log.WarnContext(winner.Trace.In(ctx), "expired: nobody decided in time", "interaction", d.Ref.String(), "kind", d.Kind, "tool", d.Tool)
}
