package engine

import (
	"context"
	"time"

	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
)

// ending is an interaction that is being ended here: the sweeper waits for it
// rather than do the same at the same time.
type ending struct {
	users   int           // who entered and did not leave
	telling bool          // one of them writes the events, or has
	done    chan struct{} // closed when the last has left
}

// enter begins to end an interaction; leave or finishLater must follow.
func (e *Engine) enter(ref subject.Ref) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f := e.finishing[ref]
	if f == nil {
		f = &ending{done: make(chan struct{})}
		e.finishing[ref] = f
	}
	f.users++
}

func (e *Engine) leave(ref subject.Ref) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if f := e.finishing[ref]; f.users > 1 {
		f.users--
	} else {
		delete(e.finishing, ref)
		close(f.done)
	}
}

// ended waits until nobody here is ending an interaction.
func (e *Engine) ended(ctx context.Context, ref subject.Ref) error {
	e.mu.Lock()
	f := e.finishing[ref]
	e.mu.Unlock()
	if f == nil {
		return nil
	}
	return e.wait(ctx, f.done)
}

// finishLater tells the streams of a decision without waiting for the sweeper,
// which does it should this process end here. It leaves what was entered.
func (e *Engine) finishLater(ref subject.Ref, w *journal.StoredDecision) {
	e.mu.Lock()
	f := e.finishing[ref]
	first := !f.telling
	f.telling = true
	e.mu.Unlock()
	if !first {
		e.leave(ref)
		return
	}
	e.later(time.Minute, func(ctx context.Context) {
		defer e.leave(ref)
		if err := e.announce(ctx, ref, w); err != nil {
			e.mu.Lock()
			f.telling = false
			e.mu.Unlock()
			if ctx.Err() == nil {
				e.log.WarnContext(w.Trace.In(ctx), "closed event not written, the sweeper will", "interaction", ref.String(), "error", err)
			}
		}
	})
}
