// Package pace is how long is waited between the attempts of one call.
package pace

import (
	"context"
	"math/rand/v2"
	"time"
)

// Soon is the pause after a refusal that passes in a moment.
func Soon() time.Duration { return time.Millisecond + rand.N(2*time.Millisecond) }

// Backoff waits between attempts, longer each time, never more than a second.
type Backoff struct{ wait time.Duration }

// Sleep waits a jittered while and reports whether ctx is still alive.
func (b *Backoff) Sleep(ctx context.Context) bool {
	b.wait = min(max(2*b.wait, 10*time.Millisecond), time.Second)
	return Pause(ctx, b.wait/2+rand.N(b.wait/2))
}

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
