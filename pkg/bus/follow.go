package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

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
	// followKept is how long an end is remembered, so that its beginning, should it
	// come later, begins nothing.
	followKept = 10 * time.Minute
	followRoom = 4096 // words that wait to be handled
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
	f := &following{c: c, fn: fn, open: map[string]bool{}, over: map[string]time.Time{}}
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
				f.take(ix)
			}
			continue
		case <-connected:
		case <-timer.C:
		}
		next := followEvery
		if err := f.catchUp(ctx); err != nil {
			if errors.Is(err, ErrForbidden) {
				return err
			}
			c.log.Debug("what waits is not listed, trying again", "error", err)
			next = followRetry
		}
		timer.Reset(next)
	}
}

// following is what a follower has been told.
type following struct {
	c    *Client
	fn   func(wire.Interaction)
	open map[string]bool
	over map[string]time.Time
}

func (f *following) take(ix wire.Interaction) {
	_, over := f.over[ix.Key]
	switch {
	case over, ix.State == wire.StatePending && f.open[ix.Key]:
		return
	case ix.State == wire.StatePending:
		f.open[ix.Key] = true
	default:
		told := f.open[ix.Key]
		delete(f.open, ix.Key)
		f.over[ix.Key] = time.Now()
		if !told { // it ended before this follower was told that it waits
			return
		}
	}
	f.fn(ix)
}

// catchUp lists what waits and asks after what has gone from there.
func (f *following) catchUp(ctx context.Context) error {
	for key, at := range f.over {
		if time.Since(at) > followKept {
			delete(f.over, key)
		}
	}
	list, err := f.c.List(ctx, wire.ListCall{Follow: true})
	if err != nil {
		return err
	}
	waits := map[string]bool{}
	for _, ix := range list {
		waits[ix.Key] = true
		f.take(ix)
	}
	for key := range f.open {
		if waits[key] {
			continue
		}
		// It has ended, or the list was not long enough for it.
		ix, err := f.c.Get(ctx, key)
		var refused *ServiceError
		switch {
		case errors.As(err, &refused) && refused.Body.Code == string(hitl.NotFound):
			delete(f.open, key)
		case err != nil:
			return err
		case ix.State != wire.StatePending:
			ix.Body = nil
			f.take(*ix)
		}
	}
	return nil
}
