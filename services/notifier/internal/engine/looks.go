package engine

import (
	"sync"
	"time"

	"github.com/banksman/banksman/pkg/subject"
)

// looks remembers who had what before their eyes lately. It is a hint that may
// get lost: then somebody is told who need not have been.
type looks struct {
	mu sync.Mutex
	at map[subject.Ref]time.Time
}

const (
	maxLooks = 10_000
	// stale is when a look does not matter any more.
	stale = time.Minute
)

// Seen says that somebody has the interaction's card before their eyes.
func (e *Engine) Seen(ref subject.Ref) {
	now := e.Clock.Now()
	l := &e.looks
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

func (l *looks) last(ref subject.Ref) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at[ref]
}
