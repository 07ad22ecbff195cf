// Package latest brings what a gateway shows up to what is decided and told now,
// wherever that was done: a decision is known to its asker, and to who decided, before
// the other gateways have heard of it.
package latest

import (
	"context"
	"sync"
	"time"

	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/gateway/internal/projection"
)

// limit bounds one Look.
const limit = 5 * time.Second

// Wait waits until done is closed, or returns an error.
type Wait func(ctx context.Context, done <-chan struct{}) error

// Desk looks for a gateway. The zero Desk is ready.
type Desk struct {
	mu  sync.Mutex
	now *look // under way; nil: none
	// hidden is the number of the last decision that is hidden; its reader's own.
	hidden uint64
}

// look is one reading of the record, for all who came before it began.
type look struct {
	done chan struct{} // closed at its end
	err  error         // then
}

// Look returns when everything that had a decision when it was called is hidden in
// view, and everything told then is in there. An error says that this is not so.
func (d *Desk) Look(ctx context.Context, j journal.Journal, view *projection.Projection, wait Wait) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	d.mu.Lock()
	old := d.now // it may have passed by what the caller knows of
	for d.now != nil {
		l := d.now
		d.mu.Unlock()
		if err := wait(ctx, l.done); err != nil {
			return err
		}
		if l != old {
			return l.err
		}
		d.mu.Lock()
	}
	l := &look{done: make(chan struct{})}
	d.now = l
	d.mu.Unlock()
	// It is a look for others as well, who have all their time and may not have gone away.
	ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	l.err = d.look(ctx, j, view, wait)
	d.mu.Lock()
	d.now = nil
	d.mu.Unlock()
	close(l.done)
	return l.err
}

// look is like what a gateway does at its start: what the sweeper has finished is told,
// and what it has not is read.
func (d *Desk) look(ctx context.Context, j journal.Journal, view *projection.Projection, wait Wait) error {
	decided, err := j.Position(ctx, journal.Decisions)
	if err != nil {
		return err
	}
	if decided.Last > d.hidden {
		_, swept, err := j.Floors(ctx)
		if err != nil {
			return err
		}
		err = j.Read(ctx, journal.Decisions, max(swept, d.hidden)+1, nil, func(m journal.Message) error {
			if at, err := subject.Parse(m.Subject); err == nil {
				view.Decided(at.Ref())
			}
			return nil
		})
		if err != nil {
			return err
		}
		d.hidden = decided.Last
	}
	told, err := j.Position(ctx, journal.Events)
	if err != nil {
		return err
	}
	for behind := view.Behind(told); behind != nil; behind = view.Behind(told) {
		if err := wait(ctx, behind); err != nil {
			return err
		}
	}
	return nil
}
