package engine

import (
	"context"
	"errors"

	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/journal/relay"
)

// collect passes on what owners have left while no gateway was there.
func (e *Engine) collect(owners *relay.Relay) func(context.Context, journal.Delivery) {
	return func(ctx context.Context, d journal.Delivery) {
		err := owners.Forward(ctx, d.Subject, d.Header, d.Data, d.Time)
		if errors.Is(err, relay.ErrNotMeant) {
			e.log.Warn("removed something that was left outside the grammar", "seq", d.Seq, "error", err)
			err = nil
		}
		e.finish(d, err)
	}
}
