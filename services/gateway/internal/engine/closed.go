package engine

import (
	"strings"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
)

// closedList holds the newest decided interactions, for lists, receipts and
// the rule that what is decided is never shown again.
type closedList struct {
	max   int
	order []subject.Ref // oldest first
	byRef map[subject.Ref]*wire.Closed
}

func newClosedList(limit int) *closedList {
	return &closedList{max: limit, byRef: map[subject.Ref]*wire.Closed{}}
}

func (l *closedList) add(ref subject.Ref, c *wire.Closed) {
	if l.byRef[ref] != nil {
		return
	}
	l.byRef[ref] = c
	l.order = append(l.order, ref)
	if len(l.order) > l.max {
		delete(l.byRef, l.order[0])
		l.order = l.order[1:]
	}
}

func (l *closedList) get(ref subject.Ref) *wire.Closed { return l.byRef[ref] }

func (l *closedList) has(ref subject.Ref) bool { return l.byRef[ref] != nil }

// newest returns up to n, the newest first.
func (l *closedList) newest(n int) []*wire.Closed {
	var out []*wire.Closed
	for i := len(l.order) - 1; i >= 0 && len(out) < n; i-- {
		out = append(out, l.byRef[l.order[i]])
	}
	return out
}

func (l *closedList) byPlainID(id string) []subject.Ref {
	var refs []subject.Ref
	for _, ref := range l.order {
		if l.byRef[ref].RequestID == id {
			refs = append(refs, ref)
		}
	}
	return refs
}

// byToolCall finds the newest of a session with this tool call id.
func (l *closedList) byToolCall(s subject.Session, toolCall string) (subject.Ref, bool) {
	key := s.String()
	for i := len(l.order) - 1; i >= 0; i-- {
		c := l.byRef[l.order[i]]
		if c.SessionKey == key && c.ToolCallID == toolCall && toolCall != "" {
			return l.order[i], true
		}
	}
	return subject.Ref{}, false
}

// trail notes what became of a decision, each stage once.
func (l *closedList) trail(ref subject.Ref, a hitl.Ack) {
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

// parseKey reads an interaction key: tenant.owner.id.
func parseKey(s string) (subject.Ref, bool) {
	t := strings.Split(s, ".")
	if len(t) != 3 || !subject.ValidToken(t[0]) || !subject.ValidToken(t[1]) || !subject.ValidToken(t[2]) {
		return subject.Ref{}, false
	}
	return subject.Ref{Tenant: t[0], Owner: t[1], ID: t[2]}, true
}
