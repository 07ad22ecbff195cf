package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/banksman/banksman/pkg/bus/internal/told"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
)

const (
	// followEvery is how often a follower lists: often enough for the gateways to go on
	// telling it, and for whatever a word was lost of.
	followEvery = 30 * time.Second
	// followRetry is the pause after a list that failed.
	followRetry = time.Second
	followMost  = 2 * time.Minute // the pause where much is listed; the gateways tell for three
	followRoom  = 4096            // words that wait to be handled
)

// Follow calls fn, one call at a time, with every interaction of the caller's tenant
// that waits, and once more when it has ended, until ctx ends; the error is ctx's then.
// What happened while there was no connection, or no gateway, is told afterwards; an
// end that nobody can be asked about any more is not. What fn gets has no body: Get
// reads it.
func (c *Client) Follow(ctx context.Context, fn func(wire.Interaction)) error {
	if !c.link.Begin() {
		return ErrClosed
	}
	defer c.link.End()
	ctx, cancel := c.link.Bound(ctx)
	defer cancel(nil)
	words := make(chan *nats.Msg, followRoom) // a full one loses words, which the next list tells
	sub, err := c.link.Conn().ChanSubscribe(subject.Feed(c.cred.Name, c.cred.Tenant), words)
	if err != nil {
		return fmt.Errorf("bus: follow: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }() // fails on a closed connection only
	f := told.New(fn)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		connected := c.link.Connected()
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case m := <-words:
			var ix wire.Interaction
			if json.Unmarshal(m.Data, &ix) == nil && ix.Key != "" {
				f.Take(ix)
			}
			continue
		case <-connected:
		case <-timer.C:
		}
		pages, err := c.catchUp(ctx, f)
		next := min(followEvery*time.Duration(1+pages/8), followMost)
		if err != nil {
			if errors.Is(err, ErrForbidden) {
				return err
			}
			c.log.Debug("what waits is not listed, trying again", "error", err)
			next = followRetry
		}
		timer.Reset(next)
	}
}

// catchUp lists what waits and asks after what has gone from there.
func (c *Client) catchUp(ctx context.Context, f *told.Told) (pages int, err error) {
	f.Old()
	waits := map[string]bool{}
	for call := (wire.ListCall{Follow: true}); ; pages++ {
		var page wire.ListReply
		if err := c.Call(ctx, wire.VerbList, call, &page); err != nil {
			return pages, err
		}
		for _, ix := range page.Interactions {
			waits[ix.Key] = true
			f.Take(ix)
		}
		if page.Next == "" || page.Next == call.After {
			break
		}
		call.After = page.Next
	}
	for _, key := range f.Without(waits) {
		// It has ended, or is too large for a list.
		ix, err := c.Get(ctx, key)
		var refused *ServiceError
		switch {
		case errors.As(err, &refused) && refused.Body.Code == string(hitl.NotFound):
			f.Drop(key)
		case err != nil:
			return pages, err
		case ix.State != wire.StatePending:
			ix.Body = nil
			f.Take(*ix)
		}
	}
	return pages, nil
}
