// Package writes remembers how the last write to each stream ended, so that a
// gateway whose writes fail is not ready.
package writes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/gateway/internal/api"
)

// sickFor is how long a write that was not stored makes the gateway unready:
// then somebody has to try again to find out.
const sickFor = 30 * time.Second

// lookLimit bounds a look at the streams.
const lookLimit = 5 * time.Second

// Watched is a journal, with a memory of how the last write to each stream
// ended. Nothing is written only to find out.
type Watched struct {
	journal.Journal
	now func() time.Time
	// Told hears how each write ended, where set.
	Told func(stream string, ok bool)

	mu     sync.Mutex
	failed map[string]failure // by stream
	gone   error              // what the last look did not find
}

type failure struct {
	at  time.Time
	why error // nil: not known
}

// Watch wraps a journal; now is the clock.
func Watch(j journal.Journal, now func() time.Time) *Watched {
	return &Watched{Journal: j, now: now, failed: map[string]failure{}}
}

// Healthy says which write of late was not stored.
func (s *Watched) Healthy() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone != nil {
		return s.gone
	}
	for _, stream := range slices.Sorted(maps.Keys(s.failed)) {
		f := s.failed[stream]
		switch {
		case s.now().Sub(f.at) >= sickFor:
		case f.why != nil:
			return fmt.Errorf("what was to be stored in %s a moment ago could not be: %w", stream, f.why)
		default:
			return fmt.Errorf("what was to be stored in %s a moment ago could not be", stream)
		}
	}
	return nil
}

// Look finds out whether the streams that a gateway cannot be without, and its
// consumers, are there. Only what the server says for certain counts.
func (s *Watched) Look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	_, _, err := s.Journal.Floors(ctx)
	if err == nil {
		_, err = s.Journal.Position(ctx, journal.Events)
	}
	var said *journal.APIError
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		s.gone = nil
	case errors.As(err, &said):
		s.gone = fmt.Errorf("a stream or its consumer is not there: %w", err)
	}
}

// note takes the end of a write.
func (s *Watched) note(ctx context.Context, stream string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		delete(s.failed, stream)
		s.tell(stream, true)
	case errors.Is(err, journal.ErrTooLarge): // the message's fault
	case errors.Is(ctx.Err(), context.Canceled): // somebody stopped waiting
	default:
		s.failed[stream] = failure{s.now(), api.Cause(err)}
		s.tell(stream, false)
	}
}

func (s *Watched) tell(stream string, ok bool) {
	if s.Told != nil {
		s.Told(stream, ok)
	}
}

// Decide implements journal.Journal.
func (s *Watched) Decide(ctx context.Context, ref subject.Ref, d *hitl.Decision) (*journal.StoredDecision, bool, error) {
	w, won, err := s.Journal.Decide(ctx, ref, d)
	s.note(ctx, journal.Decisions, err)
	return w, won, err
}

// DeleteRequest implements journal.Journal.
func (s *Watched) DeleteRequest(ctx context.Context, seq uint64) error {
	err := s.Journal.DeleteRequest(ctx, seq)
	s.note(ctx, journal.Requests, err)
	return err
}

// WriteEvent implements journal.Journal.
func (s *Watched) WriteEvent(ctx context.Context, subj string, data []byte) (uint64, error) {
	seq, err := s.Journal.WriteEvent(ctx, subj, data)
	s.note(ctx, journal.Events, err)
	return seq, err
}

// WriteGatewayState implements journal.Journal.
func (s *Watched) WriteGatewayState(ctx context.Context, key subject.Session, data []byte) error {
	err := s.Journal.WriteGatewayState(ctx, key, data)
	s.note(ctx, journal.Events, err)
	return err
}

// Enqueue implements journal.Journal.
func (s *Watched) Enqueue(ctx context.Context, st *hitl.Start) error {
	err := s.Journal.Enqueue(ctx, st)
	s.note(ctx, journal.Work, err)
	return err
}
