package engine

import (
	"sync"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
)

// maxWinners bounds the memory of what was decided lately.
const maxWinners = 128

// winners are the newest decisions that this gateway stored or met, for those
// who come too late: of many people who decide at once only the first few read
// the record. What is decided stays decided, so nothing in here can get wrong.
type winners struct {
	mu    sync.Mutex
	order []subject.Ref // oldest first
	byRef map[subject.Ref]*winner
}

// winner is a decision with its request.
type winner struct {
	*journal.StoredDecision
	// request reads it, once; nil where only its digest was kept.
	request func() *hitl.Request
}

func (l *winners) get(ref subject.Ref) *winner {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byRef[ref]
}

// add returns the winner of ref, which is d if none is known. Decisions of
// large requests are not kept.
func (l *winners) add(ref subject.Ref, d *journal.StoredDecision) *winner {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := l.byRef[ref]; w != nil {
		return w
	}
	w := &winner{d, sync.OnceValue(func() *hitl.Request {
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
	if len(d.RequestB64)+len(d.UpdatedInput)+len(d.Content.Content) > 2*wire.MaxInline {
		return w
	}
	if l.byRef == nil {
		l.byRef = map[subject.Ref]*winner{}
	}
	l.byRef[ref] = w
	l.order = append(l.order, ref)
	if len(l.order) > maxWinners {
		delete(l.byRef, l.order[0])
		l.order = l.order[1:]
	}
	return w
}
