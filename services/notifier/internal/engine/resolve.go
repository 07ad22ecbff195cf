package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/notifier/internal/channel"
	"github.com/banksman/banksman/services/notifier/internal/ledger"
	"github.com/banksman/banksman/services/notifier/internal/message"
)

// resolve ends what stands for the digests to an address, where such stands until
// somebody ends it and nothing that was in them waits any more. ref is over, and was
// in one of them. Whoever is the last one to be over finds all others so, whatever
// replica handles it.
func (e *Engine) resolve(ctx context.Context, ref subject.Ref, address string, at time.Time) error {
	l := e.lane(address)
	if l == nil || l.Recipient == nil || l.dropped.Load() {
		return nil
	}
	c, ok := l.Channel.(channel.Resolver)
	if !ok {
		return nil
	}
	refs, err := e.Ledger.Digested(ctx, ref.Tenant, address)
	if err != nil {
		return err
	}
	for _, r := range slices.Backward(refs) { // the latest is the likeliest to wait
		switch _, err := e.Ledger.Over(ctx, r); {
		case errors.Is(err, ledger.ErrNotFound):
			return nil
		case err != nil:
			return err
		}
	}
	// Several may be the last ones at one moment: they plan it once, under what was told last.
	last := append(refs, ref)[max(len(refs)-1, 0)]
	a := message.Resolved(last.String(), l.Recipient.Name, len(refs), at, e.Link(""))
	k := ledger.Key{Ref: last, Step: ledger.StepResolved, Channel: address}
	return e.plan(ctx, k, e.Clock.Now(), a, []channel.Receipt{c.Digest(l.Recipient.Name)})
}
