package bus

import (
	"context"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/banksman/banksman/pkg/subject"
)

// earlier is a look for the decision of an earlier asking, or the end of its
// attempt, beside the publish. A request without a key has no earlier asking.
type earlier struct {
	a     *ask
	stop  context.CancelFunc
	found chan func() (*nats.Msg, error) // capacity 1; nil: nothing to look for
}

func (a *ask) readEarlier(ctx context.Context) *earlier {
	if !a.keyed {
		return &earlier{a: a, stop: func() {}}
	}
	ctx, cancel := context.WithCancel(ctx)
	e := &earlier{a: a, found: make(chan func() (*nats.Msg, error), 1)}
	var reading sync.WaitGroup
	subj := subject.Decision(a.ref)
	reading.Go(func() {
		m, err := a.c.link.Read(ctx, streamDecisions, subj)
		e.found <- func() (*nats.Msg, error) { return m, err }
	})
	e.stop = func() { cancel(); reading.Wait() }
	return e
}

// take waits for what the look found. A look that the server refused to answer
// is an error; the end of the context is the caller's.
func (e *earlier) take() (*Answer, error) {
	if e.found == nil {
		return nil, nil
	}
	return e.a.found((<-e.found)())
}
