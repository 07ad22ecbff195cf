// Package sooner makes due what need not wait any more for something that will not come.
package sooner

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/notifier/internal/ledger"
	"github.com/banksman/banksman/services/notifier/internal/plan"
)

// Sooner changes deliveries of a ledger.
type Sooner struct {
	Ledger *ledger.Ledger
	// Observe is shown what was changed.
	Observe func(*ledger.Record)
	// Can reports whether a delivery is to be made, and its address can be told.
	Can func(plan.Delivery) bool
}

// Next makes due what follows a step of which nobody was told, as every delivery of it
// has ended without; r is one that has. step says that it is so, that r was the last one,
// and that one has failed and not only found nobody there; all, that nobody was told
// of the request at all, and nothing more is planned.
func (s *Sooner) Next(ctx context.Context, r *ledger.Record, now time.Time) (step, all bool, err error) {
	ref := r.Key.Ref
	if over, err := s.Ledger.IsOver(ctx, ref); over || err != nil {
		return false, false, err
	}
	p, err := s.Ledger.PlanOf(ctx, ref)
	if errors.Is(err, ledger.ErrNotFound) {
		return false, false, nil
	}
	if err != nil {
		return false, false, err
	}
	i := slices.IndexFunc(p.Deliveries, func(d plan.Delivery) bool {
		return ledger.Step(d.Step) == r.Key.Step && d.Address == r.Key.Channel && d.Tells()
	})
	if i < 0 {
		return false, false, nil
	}
	due := p.Deliveries[i].Due
	all = true
	for _, d := range p.Deliveries {
		if !d.Tells() {
			continue
		}
		x, err := s.Ledger.Get(ctx, ledger.Key{Ref: ref, Step: ledger.Step(d.Step), Channel: d.Address})
		open := false
		switch {
		case errors.Is(err, ledger.ErrNotFound):
			open = s.Can(d) // it is just being planned
		case err != nil:
			return false, false, err
		default:
			// Of several that end at once the one that is written last speaks for all.
			open = !x.State.Final() || x.Told() || x.Revision > r.Revision
			step = step || x.Lost() && d.Due.Equal(due)
		}
		if open && d.Due.Equal(due) {
			return false, false, nil
		}
		all = all && !open
	}
	for _, d := range plan.Next(p.Deliveries, due, s.Can) {
		if err := s.hasten(ctx, ledger.Key{Ref: ref, Step: ledger.Step(d.Step), Channel: d.Address}, now); err != nil {
			return step, all, err
		}
	}
	return step, all, nil
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
