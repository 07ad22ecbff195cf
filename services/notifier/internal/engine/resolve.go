package engine

import (
	"context"
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
	d, err := e.Ledger.Digested(ctx, ref.Tenant, address)
	if err != nil || !d.Over || d.Requests == 0 {
		return err
	}
	// Several may be the last ones at one moment: they plan it once, for the latest digest.
	a := message.Resolved(d.Last.String(), l.Recipient.Name, d.Requests, at, e.Link(""))
	k := ledger.Key{Ref: d.Last, Step: ledger.StepResolved, Channel: address}
	entry := planned(ctx, k, e.Clock.Now(), a, []channel.Receipt{c.Digest(l.Recipient.Name)})
	r, won, err := e.Ledger.Create(ctx, k, entry)
	for err == nil && !won && r != nil && (r.State == ledger.Planned || r.State == ledger.Retracted) {
		// It was taken back while something waited, or is being: that write fails then.
		next := r.Entry
		if r.State == ledger.Retracted {
			next = entry
		}
		r, won, err = e.Ledger.Update(ctx, r, next)
	}
	if err == nil && r != nil {
		e.observe(r, false)
	}
	return err
}

// inOrder returns what becomes of the end of digests that is due, in place of sending
// it: it follows a message that is on its way, and ends nothing that waits.
func (l *lane) inOrder(ctx context.Context, r *ledger.Record, now time.Time) (*ledger.Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, recordLimit)
	defer cancel()
	p, err := l.e.Ledger.PaceOf(ctx, l.Name)
	if err != nil {
		return nil, err
	}
	d, err := l.e.Ledger.Digested(ctx, r.Key.Ref.Tenant, l.Name)
	if err != nil {
		return nil, err
	}
	next, b := r.Entry, p.Batch
	switch {
	case b != nil && b.By != "" && b.Until.After(now), b != nil && !d.Over:
		next.State, next.DueAt = ledger.Planned, now.Add(again).UTC()
	case d.Over:
		return nil, nil
	default: // whoever ends that plans it anew
		next.State, next.Problem = ledger.Retracted, "something waits again"
	}
	return &next, nil
}
