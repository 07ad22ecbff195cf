package ledger

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
)

// lease says which replica does what only one may do at a time.
type lease struct {
	Write string    `json:"w"`
	By    string    `json:"by"`
	Until time.Time `json:"until"`
}

// Hold takes, or keeps, a lease for a replica and reports whether it is that one's now.
func (l *Ledger) Hold(ctx context.Context, name, by string, now, until time.Time) (bool, error) {
	key := "lease." + name
	value, rev, err := l.get(ctx, key)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return false, err
	}
	if err == nil {
		have, err := decodeAs[lease](key, value)
		if err != nil {
			return false, err
		}
		if have.By != by && have.Until.After(now) {
			return false, nil
		}
	}
	next := lease{rand.Text(), by, until.UTC()}
	data, err := hitl.Marshal(next)
	if err != nil {
		return false, fmt.Errorf("ledger: encode: %w", err)
	}
	_, _, won, err := l.swap(ctx, key, rev, data, next.Write)
	return won, err
}
