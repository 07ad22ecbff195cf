// Package ask asks in the name of those who have no credential of an owner:
// people who are signed in, and callers of the service API. It is an asker like
// any other, with the same client: it waits for a decision that a gateway
// signed, and what it asked survives it.
//
// Each asker is an owner of its own, named after its principal, and the engine
// lets nobody decide what the own principal asked.
package ask

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/door/act"
)

// MaxWait is how long one call may wait; then the caller asks again.
const MaxWait = 25 * time.Second

const (
	// storeWait is how long a request may take to be stored.
	storeWait = 10 * time.Second
	// perAsker bounds the calls of one principal that wait.
	perAsker = 64
)

// Desk asks. Client has the credential of a gateway and stays the caller's.
type Desk struct {
	Client *bus.Client
	Logger *slog.Logger

	mu      sync.Mutex
	waiting map[string]int // calls by asker
}

// Ask asks as a principal of a tenant and waits for the decision, at most for
// wait once the request is stored, and for MaxWait in all. raw is a request without what the gateway
// fills in; its key is what a repeated call is recognised by.
func (d *Desk) Ask(ctx context.Context, tenant string, by hitl.Principal, raw []byte, wait time.Duration) (*wire.AskReply, *wire.Error) {
	r, inv := read(raw, by)
	if inv != nil {
		return nil, &wire.Error{Code: string(hitl.BadInput), Error: inv.Error(), Fields: inv.Fields}
	}
	owner := api.Owner(by)
	if !d.enter(tenant + " " + owner) {
		return nil, &wire.Error{Code: "too_many", Error: fmt.Sprintf("%d calls of one asker wait already", perAsker)}
	}
	defer d.leave(tenant + " " + owner)
	begin := time.Now()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	limit := time.AfterFunc(storeWait, cancel)
	defer limit.Stop()
	a, err := d.Client.As(tenant, owner).Ask(ctx, r, bus.Keep(), bus.OnOpen(func(bus.Opened) {
		if limit.Stop() {
			limit.Reset(min(wait, MaxWait-time.Since(begin)))
		}
	}))
	if err != nil {
		return d.unanswered(err)
	}
	return &wire.AskReply{Status: wire.AskDecided, ID: a.Ref.ID, Decision: a.Decision.WithoutRequest()}, nil
}

// read takes a body. What says who asks is not the asker's to say.
func read(raw []byte, by hitl.Principal) (*hitl.Request, *hitl.InvalidError) {
	var r hitl.Request
	if inv := act.Decode(raw, "body", &r); inv != nil {
		return nil, inv
	}
	inv := &hitl.InvalidError{}
	if r.Key == "" {
		inv.Fields = append(inv.Fields, hitl.Field{Field: "key", Problem: "is missing: by it a call that is repeated is the same request"})
	}
	for _, f := range []struct {
		name string
		set  bool
	}{{"v", r.V != 0}, {"id", r.ID != ""}, {"tenant", r.Tenant != ""}, {"owner", r.Owner != ""}} {
		if f.set {
			inv.Fields = append(inv.Fields, hitl.Field{Field: f.name, Problem: "is the gateway's to say"})
		}
	}
	if len(inv.Fields) > 0 {
		return nil, inv
	}
	r.SessionID = cmp.Or(r.SessionID, "asks")
	r.AgentName = cmp.Or(r.AgentName, by.Name, by.ID)
	return &r, nil
}

// unanswered words an asking that brought no decision.
func (d *Desk) unanswered(err error) (*wire.AskReply, *wire.Error) {
	var inv *hitl.InvalidError
	var large *bus.TooLargeError
	var w *bus.WaitError
	switch {
	case errors.As(err, &inv):
		return nil, &wire.Error{Code: string(hitl.BadInput), Error: inv.Error(), Fields: inv.Fields}
	case errors.As(err, &large):
		return nil, &wire.Error{Code: "too_large", Error: large.Error()}
	case errors.Is(err, bus.ErrKeyConflict):
		return nil, &wire.Error{Code: "conflict", Error: "the key stands for a request that says something else"}
	case errors.Is(err, bus.ErrTurnedAway):
		return nil, &wire.Error{Code: "too_many", Error: err.Error()}
	case errors.As(err, &w) && w.Stored && w.Open:
		return &wire.AskReply{Status: wire.AskPending, ID: w.Ref.ID}, nil
	}
	d.Logger.Warn("asking failed", "error", err)
	return nil, &wire.Error{Code: string(hitl.Unavailable), Error: "the request could not be asked now; asking again with the same key is safe"}
}

func (d *Desk) enter(asker string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waiting[asker] >= perAsker {
		return false
	}
	if d.waiting == nil {
		d.waiting = map[string]int{}
	}
	d.waiting[asker]++
	return true
}

func (d *Desk) leave(asker string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waiting[asker]--; d.waiting[asker] <= 0 {
		delete(d.waiting, asker)
	}
}
