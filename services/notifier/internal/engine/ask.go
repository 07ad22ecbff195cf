package engine

import (
	"context"

	"github.com/banksman/banksman/services/notifier/internal/ledger"
)

// recordAsked is record, and lets people be told where a service leaves it to them.
func (l *lane) recordAsked(ctx context.Context, r *ledger.Record, next ledger.Entry) (*ledger.Record, *result, error) {
	asked := r.Alert != nil && !r.Alert.Until.IsZero()
	stored, owed, err := l.record(ctx, r, next)
	if err == nil && asked && next.LeftToPeople() {
		call, cancel := context.WithTimeout(ctx, recordLimit)
		defer cancel()
		if err := l.e.sooner.People(call, r.Key.Ref); err != nil {
			// They are told when the time of the service is over.
			l.e.Logger.WarnContext(ctx, "people wait for a service that leaves a request to them", "channel", l.Name, "interaction", r.Key.Ref.String(), "error", err)
		}
	}
	return stored, owed, err
}

// untold brings the next step forward where r, which ended, leaves a step of which nobody
// was told.
func (e *Engine) untold(ctx context.Context, r *ledger.Record) {
	call, cancel := context.WithTimeout(ctx, recordLimit)
	defer cancel()
	step, all, err := e.sooner.Next(call, r, e.Clock.Now())
	log := e.Logger.With("interaction", r.Key.Ref.String(), "step", r.Key.Step)
	if err != nil {
		// They are told at their time.
		log.WarnContext(ctx, "people wait though nobody was told before them", "error", err)
	}
	if step {
		e.Metrics.UntoldSteps(1)
		log.WarnContext(ctx, "nobody was told at this step; the next one is due at once")
	}
	if all {
		e.Metrics.Untold()
		log.WarnContext(ctx, "nobody is told of it, and nothing more is planned")
	}
}
