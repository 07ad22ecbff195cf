// Package ended asks a gateway whether an interaction has ended, where the ledger does
// not know of an end. An event may lie for some seconds with a replica that was killed,
// and meanwhile another one would tell people of what waits no more.
package ended

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/notifier/internal/timer"
)

const (
	// limit bounds one question: an alert that nobody vouches for is sent.
	limit = time.Second
	// rest is how long nobody is asked after a question without an answer, so that a
	// gateway that hangs does not hold every alert up.
	rest = 5 * time.Second
)

// Gateway is what is asked.
type Gateway interface {
	Get(ctx context.Context, id string) (*wire.Interaction, error)
}

// Desk asks. It is safe for concurrent use.
type Desk struct {
	Gateway Gateway
	Clock   timer.Clock
	Logger  *slog.Logger

	mu    sync.Mutex
	again time.Time // nobody is asked before
}

// Ended reports whether a gateway says that it is decided. False is also: it is not known.
func (d *Desk) Ended(ctx context.Context, ref subject.Ref) bool {
	d.mu.Lock()
	resting := d.Clock.Now().Before(d.again)
	d.mu.Unlock()
	if resting {
		return false
	}
	call, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ix, err := d.Gateway.Get(call, ref.String())
	var refused *bus.ServiceError
	switch {
	case err == nil:
		return ix.State == wire.StateClosed
	case errors.As(err, &refused) && refused.Body.Code == string(hitl.NotFound):
		return false // of another record, or not there yet
	}
	d.mu.Lock()
	d.again = d.Clock.Now().Add(rest)
	d.mu.Unlock()
	d.Logger.Info("no gateway says whether requests still wait; what is due is sent without that", "error", err)
	return false
}
