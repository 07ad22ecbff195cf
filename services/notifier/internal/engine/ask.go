package engine

import (
	"context"
	"errors"
	"time"

	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/notifier/internal/ledger"
)

// recordAsked is record, and lets people be told where a service leaves it to them.
func (l *lane) recordAsked(ctx context.Context, r *ledger.Record, next ledger.Entry) (*ledger.Record, *result, error) {
	asked := r.Alert != nil && !r.Alert.Until.IsZero()
	stored, owed, err := l.record(ctx, r, next)
	if err == nil && asked && next.LeftToPeople() {
		call, cancel := context.WithTimeout(ctx, recordLimit)
		defer cancel()
		if err := l.e.letGo(call, r.Key.Ref); err != nil {
			// They are told when the time of the service is over.
			l.e.Logger.WarnContext(ctx, "people wait for a service that leaves a request to them", "channel", l.Name, "interaction", r.Key.Ref.String(), "error", err)
		}
	}
	return stored, owed, err
}

// letGo makes due what waits for services of which none can decide any more, or waits
// for fewer of them.
func (e *Engine) letGo(ctx context.Context, ref subject.Ref) error {
	p, err := e.Ledger.PlanOf(ctx, ref)
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
		r, err := e.Ledger.Get(ctx, ledger.Key{Ref: ref, Step: ledger.Step(d.Step), Channel: d.Address})
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
		if err := e.hasten(ctx, ledger.Key{Ref: ref, Step: ledger.Step(d.Step), Channel: d.Address}, due); err != nil {
			return err
		}
	}
	return nil
}

// hasten makes a delivery due earlier that nobody has begun or put off.
func (e *Engine) hasten(ctx context.Context, k ledger.Key, due time.Time) error {
	for {
		r, err := e.Ledger.Get(ctx, k)
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
		r, won, err := e.Ledger.Update(ctx, r, next)
		if err != nil || r == nil {
			return err
		}
		if won {
			e.observe(r, false)
			return nil
		}
	}
}
