package channel

import (
	"context"
	"errors"
	"slices"
)

// Changeable are the receipts of messages that can be changed.
func Changeable(earlier []Receipt) []Receipt {
	return slices.DeleteFunc(slices.Clone(earlier), func(r Receipt) bool { return r.Ref == "" })
}

// Tell makes one attempt: an ending changes the earlier messages where c can, anything
// else is sent.
func Tell(ctx context.Context, c Channel, a Alert, earlier []Receipt) (Receipt, error) {
	u, ok := c.(Updater)
	earlier = Changeable(earlier)
	if !ok || a.Type != Closed || len(earlier) == 0 {
		return c.Send(ctx, a)
	}
	var last Receipt
	var refused error
	for _, r := range earlier {
		receipt, err := u.Update(ctx, r, a)
		var p *Problem
		switch {
		case err == nil:
			last = receipt
		case errors.As(err, &p) && p.Class == Refused:
			refused = err // somebody has deleted it; the others say how it ended
		default:
			return receipt, err
		}
	}
	if last == (Receipt{}) {
		return last, refused
	}
	return last, nil
}
