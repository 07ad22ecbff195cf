package ledger

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/notifier/internal/channel"
	"github.com/banksman/banksman/services/notifier/internal/plan"
)

const (
	plans  = "plan"
	claims = "claim"
	paces  = "pace"
)

func planKey(ref subject.Ref) string  { return plans + "." + ref.String() }
func claimKey(ref subject.Ref) string { return claims + "." + ref.String() }
func paceKey(address string) string   { return paces + "." + address }

// Plan is what was planned when an interaction opened.
type Plan struct {
	Write string    `json:"w"`
	At    time.Time `json:"at"`
	// Attention is when an answer becomes urgent, for who is added to the plan.
	Attention *time.Time `json:"attention,omitempty"`
	// Route is empty where there are no routes.
	Route      string          `json:"route,omitempty"`
	Deliveries []plan.Delivery `json:"deliveries"`

	Revision uint64 `json:"-"` // 0: nothing is stored
}

// CreatePlan stores p unless there is a plan already. It returns what is stored.
func (l *Ledger) CreatePlan(ctx context.Context, ref subject.Ref, p Plan) (*Plan, error) {
	p.Write = rand.Text()
	data, err := hitl.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("ledger: encode: %w", err)
	}
	value, _, _, err := l.swap(ctx, planKey(ref), 0, data, p.Write)
	if err != nil {
		return nil, err
	}
	return decodeAs[Plan](planKey(ref), value)
}

// PlanOf reads the plan of an interaction; ErrNotFound if there is none.
func (l *Ledger) PlanOf(ctx context.Context, ref subject.Ref) (*Plan, error) {
	value, rev, err := l.get(ctx, planKey(ref))
	if err != nil {
		return nil, err
	}
	p, err := decodeAs[Plan](planKey(ref), value)
	if err == nil {
		p.Revision = rev
	}
	return p, err
}

// UpdatePlan replaces what is stored, unless it is not of p.Revision any more;
// won says so.
func (l *Ledger) UpdatePlan(ctx context.Context, ref subject.Ref, p *Plan) (won bool, err error) {
	p.Write = rand.Text()
	data, err := hitl.Marshal(p)
	if err != nil {
		return false, fmt.Errorf("ledger: encode: %w", err)
	}
	_, _, won, err = l.swap(ctx, planKey(ref), p.Revision, data, p.Write)
	return won, err
}

type claim struct {
	Write string `json:"w"`
	plan.Claim
}

// ClaimOf reads who looks after an interaction; nil: nobody said so.
func (l *Ledger) ClaimOf(ctx context.Context, ref subject.Ref) (*plan.Claim, error) {
	c, _, err := l.claim(ctx, ref)
	if c == nil || err != nil {
		return nil, err
	}
	return &c.Claim, nil
}

func (l *Ledger) claim(ctx context.Context, ref subject.Ref) (*claim, uint64, error) {
	value, rev, err := l.get(ctx, claimKey(ref))
	if errors.Is(err, ErrNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	c, err := decodeAs[claim](claimKey(ref), value)
	return c, rev, err
}

// Claim records who looks after an interaction, unless somebody else does at
// now. It returns the claim that is good.
func (l *Ledger) Claim(ctx context.Context, ref subject.Ref, c plan.Claim, now time.Time) (plan.Claim, error) {
	for {
		have, rev, err := l.claim(ctx, ref)
		if err != nil {
			return plan.Claim{}, err
		}
		if have != nil && have.By != c.By && have.Until.After(now) {
			return have.Claim, nil
		}
		next := claim{rand.Text(), c}
		data, err := hitl.Marshal(next)
		if err != nil {
			return plan.Claim{}, fmt.Errorf("ledger: encode: %w", err)
		}
		_, _, won, err := l.swap(ctx, claimKey(ref), rev, data, next.Write)
		if err != nil || won {
			return c, err
		}
	}
}

// Pace is what replicas share about the messages to one address.
type Pace struct {
	Write string `json:"w"`
	// Sent are the times of the last messages, oldest first.
	Sent []time.Time `json:"sent,omitempty"`
	// Batch is the message that is being sent.
	Batch *Batch `json:"batch,omitempty"`
	// Done are the last messages that were sent, by Batch.ID.
	Done []string `json:"done,omitempty"`

	Revision uint64 `json:"-"` // 0: nothing is stored
}

// Batch is one message for one or many deliveries.
type Batch struct {
	// ID is unique; of two to one address the later one's is the greater one.
	ID string `json:"id"`
	// By is the replica that sends it; the claim is void after Until.
	By    string    `json:"by,omitempty"`
	Until time.Time `json:"until"`
	Tries int       `json:"tries"`
	DueAt time.Time `json:"due_at"`
	Size  int       `json:"size"`
	// Alert is absent until its deliveries are claimed. It does not change any
	// more then, and is sent by nobody before it is stored.
	Alert *channel.Alert `json:"alert,omitempty"`
	// SentAt is set once the provider has taken it.
	SentAt  *time.Time       `json:"sent_at,omitempty"`
	Receipt *channel.Receipt `json:"receipt,omitempty"`
}

// BatchID makes the ID of the next message: each is written down under its address, so
// the revision there grows. The letter puts it after the ids of builds that had no order.
func (p *Pace) BatchID() string { return fmt.Sprintf("d%016x%s", p.Revision, rand.Text()) }

// PaceOf reads what is shared about an address.
func (l *Ledger) PaceOf(ctx context.Context, address string) (*Pace, error) {
	value, rev, err := l.get(ctx, paceKey(address))
	if errors.Is(err, ErrNotFound) {
		return &Pace{}, nil
	}
	if err != nil {
		return nil, err
	}
	p, err := decodeAs[Pace](paceKey(address), value)
	if err == nil {
		p.Revision = rev
	}
	return p, err
}

// UpdatePace replaces what is stored, unless it is not of p.Revision any more;
// won says so. After a success p.Revision is the new one.
func (l *Ledger) UpdatePace(ctx context.Context, address string, p *Pace) (won bool, err error) {
	p.Write = rand.Text()
	data, err := hitl.Marshal(p)
	if err != nil {
		return false, fmt.Errorf("ledger: encode: %w", err)
	}
	_, rev, won, err := l.swap(ctx, paceKey(address), p.Revision, data, p.Write)
	if won {
		p.Revision = rev
	}
	return won, err
}

// Find returns the interactions of a tenant that have the id and of which the
// ledger knows.
func (l *Ledger) Find(ctx context.Context, tenant, id string) ([]subject.Ref, error) {
	kl, err := l.kv.ListKeysFiltered(ctx, plans+"."+tenant+".*."+id, overs+"."+tenant+".*."+id)
	if err != nil {
		return nil, fmt.Errorf("ledger: list: %w", err)
	}
	defer func() { _ = kl.Stop() }() // fails on a closed connection only
	var refs []subject.Ref
	seen := map[string]bool{}
	for k := range kl.Keys() {
		_, rest, _ := strings.Cut(k, ".")
		if ref, ok := subject.ParseRef(rest); ok && !seen[rest] {
			seen[rest] = true
			refs = append(refs, ref)
		}
	}
	return refs, ctx.Err()
}

// Deliveries reads all deliveries of an interaction.
func (l *Ledger) Deliveries(ctx context.Context, ref subject.Ref) (out []*Record, err error) {
	err = l.each(ctx, deliveries+"."+ref.String()+".>", func(r *Record) { out = append(out, r) })
	return out, err
}

// Digests are the messages that told an address of many requests of a tenant at once, or
// are telling it.
type Digests struct {
	// Requests is how many they told of; Over says that none of those waits any more.
	Requests int
	Over     bool
	// Last names the latest of the messages, as the least of its requests: that is the
	// same one for whoever looks, whatever became of each since.
	Last subject.Ref
}

// Digested reads the digests to an address.
func (l *Ledger) Digested(ctx context.Context, tenant, address string) (*Digests, error) {
	var d Digests
	var told []subject.Ref
	var last string // Into of the latest
	err := l.each(ctx, deliveries+"."+tenant+".*.*.*."+address, func(r *Record) {
		if !r.Many {
			return
		}
		if ref := r.Key.Ref; r.Into > last || r.Into == last && ref.String() < d.Last.String() {
			last, d.Last = r.Into, ref
		}
		if r.Told() || r.State == Claimed {
			told = append(told, r.Key.Ref)
		}
	})
	if err != nil {
		return nil, err
	}
	d.Requests = len(told)
	for _, ref := range slices.Backward(told) { // the latest is the likeliest to wait
		if over, err := l.IsOver(ctx, ref); err != nil || !over {
			return &d, err
		}
	}
	d.Over = true
	return &d, nil
}

// Lost reads the dead letters of a tenant.
func (l *Ledger) Lost(ctx context.Context, tenant string) (out []*Record, err error) {
	err = l.each(ctx, deliveries+"."+tenant+".>", func(r *Record) {
		if r.Lost() {
			out = append(out, r)
		}
	})
	return out, err
}

// Again plans a dead letter anew, for now. won is false where it is none any more,
// or cannot be sent: its text is not kept.
func (l *Ledger) Again(ctx context.Context, r *Record, now time.Time) (won bool, err error) {
	if !r.Lost() || r.Alert == nil {
		return false, nil
	}
	next := r.Entry
	next.State, next.DueAt, next.Tries, next.Until = Planned, now.UTC(), 0, nil
	next.Into, next.Many = "", false
	next.Held, next.Prompt = "sent again by hand", true
	_, won, err = l.Update(ctx, r, next)
	return won, err
}

// each reads the deliveries under a filter.
func (l *Ledger) each(ctx context.Context, filter string, fn func(*Record)) error {
	w, err := l.kv.Watch(ctx, filter, jetstream.IgnoreDeletes())
	if err != nil {
		return fmt.Errorf("ledger: read: %w", err)
	}
	defer func() { _ = w.Stop() }() // fails on a closed connection only
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e, ok := <-w.Updates():
			if !ok {
				return ErrWatchEnded
			}
			if e == nil {
				return nil
			}
			r, err := decode(e.Key(), e.Value(), e.Revision())
			if err != nil {
				return err
			}
			fn(r)
		}
	}
}

func decodeAs[T any](key string, value []byte) (*T, error) {
	if value == nil {
		return nil, ErrNotFound // it has gone meanwhile
	}
	v := new(T)
	if err := json.Unmarshal(value, v); err != nil {
		return nil, fmt.Errorf("ledger: decode %s: %w", key, err)
	}
	return v, nil
}
