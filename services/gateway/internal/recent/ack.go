package recent

import (
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
)

// Bounds of Acks: how many interactions, and words on each.
const (
	maxEarly     = 1024
	maxEarlyEach = 8
)

// Acks are the newest words of askers on decisions that are not known yet: a rule
// decides, and its asker may have acted, before the events are here. The zero value
// is empty.
type Acks struct {
	order []subject.Ref // oldest first; may name what was taken
	byRef map[subject.Ref][]hitl.Ack
}

// Add keeps a word.
func (l *Acks) Add(ref subject.Ref, a hitl.Ack) {
	if l.byRef == nil {
		l.byRef = map[subject.Ref][]hitl.Ack{}
	}
	have := l.byRef[ref]
	if len(have) == maxEarlyEach {
		return
	}
	if have == nil {
		l.order = append(l.order, ref)
	}
	l.byRef[ref] = append(have, a)
	if len(l.order) > maxEarly {
		delete(l.byRef, l.order[0])
		l.order = l.order[1:]
	}
}

// Take returns what was kept about an interaction, and forgets it.
func (l *Acks) Take(ref subject.Ref) []hitl.Ack {
	have := l.byRef[ref]
	delete(l.byRef, ref)
	return have
}
