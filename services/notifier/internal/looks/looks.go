// Package looks remembers who had what before their eyes lately.
package looks

import (
	"sync"
	"time"

	"github.com/banksman/banksman/pkg/subject"
)

// Looks is what was looked at. It is a hint that may get lost: then somebody is told
// who need not have been. The zero value is ready; its methods are safe for concurrent
// use.
type Looks struct {
	mu sync.Mutex
	at map[subject.Ref]time.Time
}

const (
	maxLooks = 10_000
	// stale is when a look does not matter any more.
	stale = time.Minute
)

// Seen says that somebody has the interaction's card before their eyes.
func (l *Looks) Seen(ref subject.Ref, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.at == nil {
		l.at = map[subject.Ref]time.Time{}
	}
	if len(l.at) >= maxLooks {
		for r, at := range l.at {
			if now.Sub(at) > stale {
				delete(l.at, r)
			}
		}
		if len(l.at) >= maxLooks {
			return
		}
	}
	l.at[ref] = now
}

// Last is when somebody last had it; zero: nobody, or long ago.
func (l *Looks) Last(ref subject.Ref) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at[ref]
}
