package engine

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
)

// jitter spreads the gateways that reach the same deadline, so that mostly one
// of them writes.
const jitter = 100 * time.Millisecond

func (e *Engine) watchDeadlines(ctx context.Context) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		e.mu.Lock()
		now := e.now()
		over := e.deadlines.Take(now)
		wait := e.deadlines.Next(now, time.Hour)
		e.mu.Unlock()
		for _, en := range over {
			e.expireSoon(en)
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

func (e *Engine) expireSoon(en *entry) {
	e.later(time.Minute, func(ctx context.Context) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(rand.Int64N(int64(jitter)))):
		}
		winner, err := e.settle(ctx, en.Ref, e.now(), hitl.Content{Outcome: hitl.Expired}, system, "deadline")
		if err != nil {
			e.log.Error("expiry not stored, trying again", "interaction", en.summary.Key, "error", err)
			e.mu.Lock()
			if e.open[en.Ref] == en && !en.alarm.Waits() {
				en.alarm, _ = e.deadlines.Add(en, e.now().Add(time.Second))
				signal(e.alarm)
			}
			e.mu.Unlock()
			return
		}
		if winner.Outcome != hitl.Expired {
			return // somebody was faster
		}
		e.log.Warn("expired: nobody decided in time", "interaction", en.summary.Key, "kind", en.summary.Kind, "tool", en.summary.ToolName)
	})
}
