package engine

import (
	"context"
	"time"

	"github.com/banksman/banksman/pkg/journal"
)

const (
	// maxSkew is how far this clock may be from the server's, which deadlines
	// count by, before the gateway is not ready.
	maxSkew = 2 * time.Second
	// clockEvery is how often the two are compared.
	clockEvery = 10 * time.Second
)

func (e *Engine) watchClock(ctx context.Context) error {
	tick := time.NewTicker(e.opts.clockEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := e.compareClocks(ctx); err != nil && ctx.Err() == nil {
			e.log.Debug("the clocks were not compared", "error", err)
		}
		e.stores.Look(ctx)
	}
}

// Skew is how far this clock is certainly before the server's; behind: negative.
func (e *Engine) Skew() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.skew
}

// compareClocks asks the server for the time. The server looked at its clock
// while the call was under way; what the call took is not held against ours.
func (e *Engine) compareClocks(ctx context.Context) error {
	before := e.now()
	pos, err := e.opts.Journal.Position(ctx, journal.Events)
	if err != nil {
		return err
	}
	skew := skewOf(before, e.now(), pos.Now)
	e.mu.Lock()
	was := e.skew
	e.skew = skew
	e.mu.Unlock()
	if off := skew.Abs() > maxSkew; off && was.Abs() <= maxSkew {
		e.log.Error("this machine's clock is off the NATS server's: deadlines would be wrong", "by", skew.Round(time.Millisecond))
	}
	return nil
}

// skewOf is how far a clock is before another (behind: negative), which was
// read between two looks at the first. The zero time says nothing.
func skewOf(before, after, other time.Time) time.Duration {
	switch {
	case other.IsZero():
		return 0
	case before.After(other):
		return before.Sub(other)
	case after.Before(other):
		return after.Sub(other)
	}
	return 0
}
