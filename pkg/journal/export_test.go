package journal

import (
	"context"
	"time"
)

// SweepAfter is Sweep with another pause.
func (j *JetStream) SweepAfter(ctx context.Context, gather time.Duration, fn func(context.Context, Delivery)) error {
	return j.consume(ctx, Decisions, SweeperConsumer, 1, gather, fn)
}
