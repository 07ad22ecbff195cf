package engine

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/run"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/gateway/internal/cursor"
	"github.com/banksman/banksman/services/gateway/internal/projection"
	"github.com/banksman/banksman/services/gateway/internal/record"
)

// load reads the open set. Its cost follows what is open, not the history.
//
// The order matters. What is at or below the floors was finished before the
// stream positions are read, and what comes after those is followed: nothing
// between is missed. A request at or below intake's floor was shown; one above
// it counts only if its open event exists, else intake is still to decide about
// it. What the sweeper has not finished is decided and must not be shown, not
// even while its events are still to come. It returns how many stored messages
// it read.
func (e *Engine) load(ctx context.Context) (n int, err error) {
	defer run.Growing()()
	j := e.opts.Journal
	intake, sweeper, err := j.Floors(ctx)
	if err != nil {
		return 0, err
	}
	events, err := j.Position(ctx, journal.Events)
	if err != nil {
		return 0, err
	}
	transcripts, err := j.Position(ctx, journal.Transcripts)
	if err != nil {
		return 0, err
	}
	e.view.Begin(cursor.Of(e.opts.Epoch, events, transcripts))
	for _, of := range []struct{ stream, words string }{{journal.Transcripts, "hitl.ses.>"}, {journal.Events, "hitl.sgw.>"}} {
		if err := j.Last(ctx, of.stream, []string{of.words}, func(m journal.Message) error {
			n++
			e.view.LoadSession(m)
			return nil
		}); err != nil {
			return n, err
		}
	}
	closed, err := e.loadClosed(ctx, events)
	n += closed
	if err != nil {
		return n, err
	}

	decided := map[subject.Ref]bool{}
	err = j.Read(ctx, journal.Decisions, sweeper+1, nil, func(m journal.Message) error {
		n++
		if at, err := subject.Parse(m.Subject); err == nil {
			decided[at.Ref()] = true
			e.view.Decided(at.Ref())
		}
		return nil
	})
	if err != nil {
		return n, err
	}
	var waiting []journal.Message // above the floor
	// Reading what the requests say takes longer than getting them.
	taken := make(chan journal.Message, 256) // closed below
	var readers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		readers.Go(func() {
			for m := range taken {
				e.loadTaken(m)
			}
		})
	}
	err = j.Read(ctx, journal.Requests, 1, []string{"hitl.req.>"}, func(m journal.Message) error {
		n++
		at, err := subject.Parse(m.Subject)
		switch {
		case err != nil || decided[at.Ref()]:
		case m.Seq > intake:
			waiting = append(waiting, m)
		default:
			taken <- m
		}
		return nil
	})
	close(taken)
	readers.Wait()
	if err != nil {
		return n, err
	}
	opened, err := e.loadWaiting(ctx, waiting)
	return n + opened, err
}

// loadTaken shows a request that intake has examined and shown before.
func (e *Engine) loadTaken(m journal.Message) {
	at, err := subject.Parse(m.Subject)
	if err != nil {
		return
	}
	r, a, err := record.Examined(&e.policy, at.Ref(), m)
	if err != nil {
		return // intake refused it
	}
	e.view.LoadOpen(projection.NewListed(r, len(m.Data), hitl.Digest(m.Data), a))
}

// loadWaiting shows those whose open event exists although intake's floor has
// not reached them. It returns how many stored messages it read.
func (e *Engine) loadWaiting(ctx context.Context, waiting []journal.Message) (n int, err error) {
	const chunk = 100
	for part := range slices.Chunk(waiting, chunk) {
		entries := map[subject.Ref]*projection.Entry{}
		var filters []string
		for _, m := range part {
			at, err := subject.Parse(m.Subject)
			if err != nil {
				continue
			}
			r, a, err := record.Examine(&e.policy, at.Ref(), m)
			if err != nil {
				continue // intake refuses it
			}
			entries[at.Ref()] = projection.NewListed(r, len(m.Data), hitl.Digest(m.Data), a)
			filters = append(filters, subject.Event(at.Ref(), subject.Token(r.SessionID), subject.Open))
		}
		if len(filters) == 0 {
			continue
		}
		var opened []subject.Ref
		err := e.opts.Journal.Last(ctx, journal.Events, filters, func(m journal.Message) error {
			n++
			if at, err := subject.Parse(m.Subject); err == nil {
				opened = append(opened, at.Ref())
			}
			return nil
		})
		if err != nil && !errors.Is(err, journal.ErrNotFound) {
			return n, err
		}
		n += len(opened)
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(loadReads)
		for _, ref := range opened {
			g.Go(func() error {
				// An asker may have sent again what was decided and swept long ago.
				_, err := e.opts.Journal.Decision(ctx, ref)
				switch {
				case errors.Is(err, journal.ErrNotFound):
					e.view.LoadOpen(entries[ref])
				case err != nil && !errors.Is(err, journal.ErrUnsigned):
					return err
				}
				return nil
			})
		}
		if err := g.Wait(); err != nil {
			return n, err
		}
	}
	return n, nil
}

// loadReads is how many decisions are asked for at once.
const loadReads = 32

// loadClosed reads the tail of the events for the newest decisions, and
// returns how many messages that were.
func (e *Engine) loadClosed(ctx context.Context, events journal.Position) (n int, err error) {
	from := events.First
	// Two events an interaction.
	if tail := uint64(2 * e.opts.recent); events.Last > tail && events.Last-tail > from {
		from = events.Last - tail
	}
	var acks []string
	err = e.opts.Journal.Read(ctx, journal.Events, max(from, 1), []string{"hitl.ixe.*.*.*.*.closed"}, func(m journal.Message) error {
		n++
		e.view.LoadClosed(m)
		if at, err := subject.Parse(m.Subject); err == nil {
			acks = append(acks, trail(at.Ref())...)
		}
		return nil
	})
	if err != nil {
		return n, err
	}
	// What became of these decisions is another stream's matter.
	if len(acks) == 0 {
		return n, nil // without subjects it would be every one
	}
	return n, e.opts.Journal.Last(ctx, journal.Transcripts, acks, func(m journal.Message) error {
		n++
		e.view.LoadAck(m)
		return nil
	})
}

// trail is where an asker says what became of a decision.
func trail(ref subject.Ref) []string {
	return []string{subject.Ack(ref, hitl.Delivered), subject.Ack(ref, hitl.Applied), subject.Ack(ref, hitl.Refused)}
}
