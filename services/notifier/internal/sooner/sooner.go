// Package sooner makes due what need not wait any more for something that will not come.
package sooner

import (
	"context"
	"errors"
	"time"

	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/notifier/internal/ledger"
)

// Sooner changes deliveries of a ledger.
type Sooner struct {
	Ledger *ledger.Ledger
	// Observe is shown what was changed.
	Observe func(*ledger.Record)
}

// People makes due what waits for services of which none can decide any more, or waits
// for fewer of them.
func (s *Sooner) People(ctx context.Context, ref subject.Ref) error {
	p, err := s.Ledger.PlanOf(ctx, ref)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	var answered time.Time
	for _, d := range p.Deliveries {
		if d.Wait == 0 {
			continue
		}
		r, err := s.Ledger.Get(ctx, ledger.Key{Ref: ref, Step: ledger.Step(d.Step), Channel: d.Address})
		switch {
		case errors.Is(err, ledger.ErrNotFound): // it was not to be asked
		case err != nil:
			return err
		case !r.LeftToPeople() && d.Due.Add(d.Wait).After(answered):
			answered = d.Due.Add(d.Wait)
		}
	}
	for _, d := range p.Deliveries {
		due := d.Early
		if due.IsZero() {
			continue
		}
		if answered.After(due) {
			due = answered
		}
		if err := s.hasten(ctx, ledger.Key{Ref: ref, Step: ledger.Step(d.Step), Channel: d.Address}, due); err != nil {
			return err
		}
	}
	return nil
}

// hasten makes a delivery due earlier that nobody has begun or put off.
func (s *Sooner) hasten(ctx context.Context, k ledger.Key, due time.Time) error {
	for {
		r, err := s.Ledger.Get(ctx, k)
		if errors.Is(err, ledger.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if r.State != ledger.Planned || r.Tries > 0 || r.Held != "" || !due.Before(r.DueAt) {
			return nil
		}
		next := r.Entry
		next.DueAt = due.UTC()
		r, won, err := s.Ledger.Update(ctx, r, next)
		if err != nil || r == nil {
			return err
		}
		if won {
			s.Observe(r)
			return nil
		}
	}
}
