// Package presence passes on what people have before their eyes, so that nobody is
// alerted at once of what somebody looks at already. It is a hint, and nobody's word
// for more than that person: what somebody may not answer, their looking does not
// hold back.
package presence

import (
	"log/slog"
	"sync"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/auth"
	"github.com/banksman/banksman/services/gateway/internal/permit"
)

const (
	// every is how often the same interaction is told of at most, whoever looks.
	every = 5 * time.Second
	// maxHeld bounds the memory of what was told.
	maxHeld = 10_000
)

// Options wire a Desk; all but Clock are required.
type Options struct {
	// Waiting finds an interaction that waits.
	Waiting func(id string) (wire.Summary, bool)
	// Tell passes on that somebody sees one. It must not block.
	Tell   func(subject.Ref) error
	Logger *slog.Logger
	Clock  func() time.Time // default time.Now
}

// Desk is safe for concurrent use.
type Desk struct {
	o Options

	mu   sync.Mutex
	told map[subject.Ref]time.Time
}

// New makes a Desk.
func New(o Options) *Desk {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	return &Desk{o: o, told: map[subject.Ref]time.Time{}}
}

// See takes a person's word for what is on a screen, by ids or keys. What that person
// may not answer, and what does not wait, is passed over: the receipt does not tell
// which.
func (d *Desk) See(sess *auth.Session, ids []string) hitl.Receipt {
	if sess.Person.Kind != "person" {
		return hitl.Receipt{Status: hitl.Forbidden, Error: "only people look at a screen"}
	}
	if len(ids) == 0 || len(ids) > wire.MaxSeen {
		inv := hitl.Invalid("requests", "must name 1 to %d", wire.MaxSeen)
		return hitl.Receipt{Status: hitl.BadInput, Error: inv.Error(), Fields: inv.Fields}
	}
	who := &api.Attempt{Principal: sess.Person, Rights: sess.Rights, AskedFor: sess.AskedFor}
	for _, id := range ids {
		sum, ok := d.o.Waiting(id)
		if !ok {
			continue
		}
		about := &hitl.Request{Kind: sum.Kind, Owner: sum.Owner, Tenant: sum.Tenant, ProjectID: sum.ProjectID}
		if _, refused := permit.Role(who, about); refused != nil {
			continue
		}
		ref := subject.NewRef(sum.Tenant, sum.Owner, sum.RequestID)
		if !d.due(ref) {
			continue
		}
		if err := d.o.Tell(ref); err != nil {
			d.o.Logger.Debug("a look is not passed on", "interaction", ref.String(), "error", err)
		}
	}
	return hitl.Receipt{Status: hitl.Accepted}
}

func (d *Desk) due(ref subject.Ref) bool {
	now := d.o.Clock()
	d.mu.Lock()
	defer d.mu.Unlock()
	if at, ok := d.told[ref]; ok && now.Sub(at) < every {
		return false
	}
	if len(d.told) >= maxHeld {
		clear(d.told)
	}
	d.told[ref] = now
	return true
}
