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
