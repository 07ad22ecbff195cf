// Package recent holds the newest decided interactions in memory.
package recent

import (
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
)

// List holds the newest decided interactions, for lists, receipts and
// the rule that what is decided is never shown again.
type List struct {
	max   int
	order []subject.Ref // oldest first
	byRef map[subject.Ref]*wire.Closed
	added uint64
}

func New(limit int) *List {
	return &List{max: limit, byRef: map[subject.Ref]*wire.Closed{}}
}

func (l *List) Add(ref subject.Ref, c *wire.Closed) {
	if l.byRef[ref] != nil {
		return
	}
	l.added++
	l.byRef[ref] = c
	l.order = append(l.order, ref)
	if len(l.order) > l.max {
		delete(l.byRef, l.order[0])
		l.order = l.order[1:]
	}
}

func (l *List) Get(ref subject.Ref) *wire.Closed { return l.byRef[ref] }

func (l *List) Has(ref subject.Ref) bool { return l.byRef[ref] != nil }

// Added is how many were added so far.
func (l *List) Added() uint64 { return l.added }

// Since reports whether all that were added since Added was n are held still.
func (l *List) Since(n uint64) bool { return l.added-n <= uint64(l.max) }

// Newest returns all, the newest first.
func (l *List) Newest() []*wire.Closed {
	out := make([]*wire.Closed, 0, len(l.order))
	for i := len(l.order) - 1; i >= 0; i-- {
		out = append(out, l.byRef[l.order[i]])
	}
	return out
}

// ByPlainID finds those with an id, which several owners may have used. What was
// refused has an id that its sender chose, another tenant's if it likes: it is found
// by its key only, so that nobody learns what else has that id.
func (l *List) ByPlainID(id string) []subject.Ref {
	var refs []subject.Ref
	for _, ref := range l.order {
		if c := l.byRef[ref]; c.RequestID == id && c.Outcome != hitl.InvalidIX {
			refs = append(refs, ref)
		}
	}
	return refs
}

// ByToolCall finds the newest of a session with this tool call id.
func (l *List) ByToolCall(s subject.Session, toolCall string) (subject.Ref, bool) {
	key := s.String()
	for i := len(l.order) - 1; i >= 0; i-- {
		c := l.byRef[l.order[i]]
		if c.SessionKey == key && c.ToolCallID == toolCall && toolCall != "" {
			return l.order[i], true
		}
	}
	return subject.Ref{}, false
}

// Trail notes what became of a decision, each stage once.
func (l *List) Trail(ref subject.Ref, a hitl.Ack) {
	c := l.byRef[ref]
	if c == nil {
		return
	}
	for _, have := range c.Trail {
		if have.Stage == a.Stage {
			return
		}
	}
	c.Trail = append(c.Trail[:len(c.Trail):len(c.Trail)], a)
}
