package run

import (
	"context"
	"time"
)

// Pause waits for d and reports whether ctx is still alive.
func Pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
