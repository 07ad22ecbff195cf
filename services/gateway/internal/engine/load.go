package engine

import (
	"context"
	"errors"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/gateway/internal/cursor"
	"github.com/banksman/banksman/services/gateway/internal/projection"
	"github.com/banksman/banksman/services/gateway/internal/record"
)

// load reads the open set. Its cost follows what is open, not the history.
//
// The order matters. The stream positions come first, so that nothing between
// loading and following is missed. A request at or below intake's floor was
// shown; one above it counts only if its open event exists, else intake is
// still to decide about it. What the sweeper has not finished is decided and
// must not be shown.
func (e *Engine) load(ctx context.Context) error {
	j := e.opts.Journal
	events, err := j.Position(ctx, journal.Events)
	if err != nil {
		return err
	}
	transcripts, err := j.Position(ctx, journal.Transcripts)
	if err != nil {
		return err
	}
	intake, sweeper, err := j.Floors(ctx)
	if err != nil {
		return err
	}
	e.view.Begin(cursor.Of(events, transcripts))
	session := func(m journal.Message) error {
		e.view.LoadSession(m)
		return nil
	}
	if err := j.Last(ctx, journal.Transcripts, []string{"hitl.ses.>"}, session); err != nil {
		return err
	}
	if err := j.Last(ctx, journal.Events, []string{"hitl.sgw.>"}, session); err != nil {
		return err
	}
	if err := e.loadClosed(ctx, events); err != nil {
		return err
	}

	decided := map[subject.Ref]bool{}
	err = j.Read(ctx, journal.Decisions, sweeper+1, nil, func(m journal.Message) error {
		if p, err := subject.Parse(m.Subject); err == nil {
			decided[p.Ref()] = true
		}
		return nil
	})
	if err != nil {
		return err
	}
	var waiting []journal.Message // above the floor
	err = j.Read(ctx, journal.Requests, 1, []string{"hitl.req.>"}, func(m journal.Message) error {
		p, err := subject.Parse(m.Subject)
		if err != nil || decided[p.Ref()] {
			return nil
		}
		if m.Seq > intake {
			waiting = append(waiting, m)
			return nil
		}
		e.loadRequest(p.Ref(), m)
		return nil
	})
	if err != nil {
		return err
	}
	return e.loadWaiting(ctx, waiting)
}

func (e *Engine) loadRequest(ref subject.Ref, m journal.Message) {
	r, a, err := record.Examine(&e.policy, ref, m)
	if err != nil {
		return // intake refuses it
	}
	e.view.LoadOpen(projection.NewEntry(r, m.Data, hitl.Digest(m.Data), a))
}

// loadWaiting shows those whose open event exists although intake's floor has
// not reached them.
func (e *Engine) loadWaiting(ctx context.Context, waiting []journal.Message) error {
	const chunk = 100
	for len(waiting) > 0 {
		part := waiting[:min(chunk, len(waiting))]
		waiting = waiting[len(part):]
		byRef := map[subject.Ref]journal.Message{}
		var filters []string
		for _, m := range part {
			p, err := subject.Parse(m.Subject)
			if err != nil {
				continue
			}
			r, _, err := record.Examine(&e.policy, p.Ref(), m)
			if err != nil {
				continue
			}
			byRef[p.Ref()] = m
			filters = append(filters, subject.Event(p.Ref(), subject.Token(r.SessionID), subject.Open))
		}
		if len(filters) == 0 {
			continue
		}
		var opened []subject.Ref
		err := e.opts.Journal.Last(ctx, journal.Events, filters, func(m journal.Message) error {
			if p, err := subject.Parse(m.Subject); err == nil {
				opened = append(opened, p.Ref())
			}
			return nil
		})
		if err != nil && !errors.Is(err, journal.ErrNotFound) {
			return err
		}
		for _, ref := range opened {
			// An asker may have sent again what was decided and swept long ago.
			_, err := e.opts.Journal.Decision(ctx, ref)
			if errors.Is(err, journal.ErrNotFound) {
				e.loadRequest(ref, byRef[ref])
			} else if err != nil && !errors.Is(err, journal.ErrUnsigned) {
				return err
			}
		}
	}
	return nil
}

// loadClosed reads the tail of the events for the newest decisions.
func (e *Engine) loadClosed(ctx context.Context, events journal.Position) error {
	from := events.First
	// Two events an interaction.
	if tail := uint64(2 * recentClosed); events.Last > tail && events.Last-tail > from {
		from = events.Last - tail
	}
	return e.opts.Journal.Read(ctx, journal.Events, max(from, 1), []string{"hitl.ixe.*.*.*.*.closed"}, func(m journal.Message) error {
		e.view.LoadClosed(m)
		return nil
	})
}
