// Package pace is how long is waited between the attempts of one call.
package pace

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/banksman/banksman/pkg/run"
)

// Soon is the pause after a refusal that passes in a moment.
func Soon() time.Duration { return time.Millisecond + rand.N(2*time.Millisecond) }

// Backoff waits between attempts, longer each time, never more than a second.
type Backoff struct{ wait time.Duration }

// Sleep waits a jittered while and reports whether ctx is still alive.
func (b *Backoff) Sleep(ctx context.Context) bool {
	b.wait = min(max(2*b.wait, 10*time.Millisecond), time.Second)
	return run.Pause(ctx, b.wait/2+rand.N(b.wait/2))
}
