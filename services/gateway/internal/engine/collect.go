package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/journal/relay"
)

const (
	// maxBehind is how many requests may be stored that no gateway has taken in,
	// before owners wait for their turn: whoever has it waits behind no more.
	maxBehind = 512
	// backlogAge is how long what was seen of that counts. Nothing comes any more
	// when all is taken in.
	backlogAge = 200 * time.Millisecond
)

// backlog is how far the gateways were behind when this one looked last.
type backlog struct {
	messages atomic.Uint64
	at       atomic.Int64 // Unix time, ns
}

func (b *backlog) saw(behind uint64) {
	b.messages.Store(behind)
	b.at.Store(time.Now().UnixNano())
}

func (b *backlog) behind() bool {
	return b.messages.Load() > maxBehind && time.Now().UnixNano()-b.at.Load() < int64(backlogAge)
}

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
