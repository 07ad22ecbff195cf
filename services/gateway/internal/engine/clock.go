package engine

import (
	"context"
	"time"
)

// clockEvery is how often this machine's clock is compared with the server's.
const clockEvery = 10 * time.Second

func (e *Engine) watchClock(ctx context.Context) error {
	tick := time.NewTicker(e.opts.clockEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := e.clock.Compare(ctx, e.opts.Journal); err != nil && ctx.Err() == nil {
			e.log.Debug("the clocks were not compared", "error", err)
		}
		e.stores.Look(ctx)
	}
}

// Skew is how far this clock is certainly before the server's; behind: negative.
func (e *Engine) Skew() time.Duration { return e.clock.Off() }
