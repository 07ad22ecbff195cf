package recent

import (
	"context"
	"sync"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
)

// Bounds of the memory of what was decided lately. One decision is kept whatever
// its size.
const (
	maxWinners     = 128
	maxWinnerBytes = 16 << 20
)

// Winners are the newest decisions that this gateway stored or met, for those
// who come too late: of many people who decide at once one writes, and the
// others wait for what it finds. What is decided stays decided, so nothing in
// here can get wrong.
type Winners struct {
	mu      sync.Mutex
	order   []subject.Ref // oldest first
	byRef   map[subject.Ref]*Winner
	bytes   int
	writing map[subject.Ref]chan struct{} // closed when the write has ended
}

// Winner is a decision with its request.
type Winner struct {
	*journal.StoredDecision
	// Asked reads its request, once; nil where only its digest was kept.
	Asked func() *hitl.Request
}

// size is about what w takes, in bytes.
func (w *Winner) size() int { return len(w.RequestB64) + len(w.UpdatedInput) + len(w.Content.Content) }

// Get is nil where none is known.
func (l *Winners) Get(ref subject.Ref) *Winner {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byRef[ref]
}

// Add returns the winner of ref, which is d if none is known.
func (l *Winners) Add(ref subject.Ref, d *journal.StoredDecision) *Winner {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := l.byRef[ref]; w != nil {
		return w
	}
	w := &Winner{d, sync.OnceValue(func() *hitl.Request {
		raw, err := d.Request()
		if err != nil || raw == nil {
			return nil
		}
		r, err := hitl.ParseRequest(raw)
		if err != nil {
			return nil
		}
		return r
	})}
	if l.byRef == nil {
		l.byRef = map[subject.Ref]*Winner{}
	}
	l.byRef[ref] = w
	l.order = append(l.order, ref)
	l.bytes += w.size()
	for len(l.order) > 1 && (len(l.order) > maxWinners || l.bytes > maxWinnerBytes) {
		l.bytes -= l.byRef[l.order[0]].size()
		delete(l.byRef, l.order[0])
		l.order = l.order[1:]
	}
	return w
}

// Turn waits until nobody here writes the decision of ref, by means of wait. It
// returns the winner, or what ends the caller's own turn to write.
func (l *Winners) Turn(ctx context.Context, ref subject.Ref, wait func(context.Context, <-chan struct{}) error) (*Winner, func(), error) {
	for {
		l.mu.Lock()
		w, busy := l.byRef[ref], l.writing[ref]
		if w != nil {
			l.mu.Unlock()
			return w, nil, nil
		}
		if busy == nil {
			if l.writing == nil {
				l.writing = map[subject.Ref]chan struct{}{}
			}
			mine := make(chan struct{})
			l.writing[ref] = mine
			l.mu.Unlock()
			return nil, func() {
				l.mu.Lock()
				defer l.mu.Unlock()
				delete(l.writing, ref)
				close(mine)
			}, nil
		}
		l.mu.Unlock()
		if err := wait(ctx, busy); err != nil {
			return nil, nil, err
		}
	}
}
