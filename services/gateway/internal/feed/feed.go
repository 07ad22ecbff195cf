// Package feed tells callers of the service API what opens and what ends in their
// tenant, as it happens.
//
// A caller that lists with follow is told for Lease. Every gateway hears every such
// call, whoever answers it, and one that starts reads in the bucket of the sessions who
// follows; the gateway that wrote an event tells of it. It is a word that nobody stores:
// who did not hear it finds what it missed in the next list.
package feed

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
)

// Lease is how long a caller is told after it has listed.
const Lease = 3 * time.Minute

const (
	lists       = "hitl.svc.*.*." + wire.VerbList
	replyPrefix = "_R_." // what the server puts in place of a reply across accounts
	key         = "feed."
	// noteEvery is how exactly it is noted in the bucket who follows.
	noteEvery = time.Minute
	noteLimit = 2 * time.Second
	// maxCall is the largest call that is looked into, in bytes.
	maxCall = 64 << 10
)

// Desk knows who follows. Run makes it hear.
type Desk struct {
	conn *nats.Conn // not closed here
	log  *slog.Logger
	now  func() time.Time

	mu        sync.Mutex
	followers map[follower]time.Time // until when
	noted     map[follower]time.Time // when, in the bucket; Run's own
}

// stored is what the bucket has of a follower.
type stored struct {
	V     int       `json:"v"`
	Until time.Time `json:"until"`
}

type follower struct{ tenant, name string }

// New makes a Desk on a gateway's connection.
func New(conn *nats.Conn, logger *slog.Logger) *Desk {
	return &Desk{conn: conn, log: logger.With("component", "feed"), now: time.Now, followers: map[follower]time.Time{}, noted: map[follower]time.Time{}}
}

// Run hears who follows until ctx ends, which is no error.
func (d *Desk) Run(ctx context.Context) error {
	js, err := jetstream.New(d.conn)
	if err != nil {
		return fmt.Errorf("feed: %w", err)
	}
	kv, err := js.KeyValue(ctx, journal.SessionsBucket)
	if err != nil {
		return fmt.Errorf("feed: bucket %s: %w", journal.SessionsBucket, err)
	}
	calls := make(chan *nats.Msg, 1024) // one that is lost is repeated by its caller
	sub, err := d.conn.ChanSubscribe(lists, calls)
	if err != nil {
		return fmt.Errorf("feed: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }() // fails on a closed connection only
	d.load(ctx, kv)
	for {
		select {
		case <-ctx.Done():
			return nil
		case m := <-calls:
			d.hear(ctx, kv, m)
		}
	}
}

// load reads who followed before this gateway was there.
func (d *Desk) load(ctx context.Context, kv jetstream.KeyValue) {
	keys, err := kv.ListKeysFiltered(ctx, key+"*.*")
	if err != nil {
		d.log.Warn("who follows is not known yet", "error", err)
		return
	}
	for k := range keys.Keys() {
		e, err := kv.Get(ctx, k)
		t := strings.Split(k, ".")
		if err != nil || len(t) != 3 {
			continue // it is noted anew at the next call
		}
		until, ok := d.until(e.Value())
		d.mu.Lock()
		if f := (follower{t[1], t[2]}); ok && until.After(d.followers[f]) {
			d.followers[f] = until
		}
		d.mu.Unlock()
	}
}

// until is until when somebody follows, as it was noted: no longer than from now.
func (d *Desk) until(raw []byte) (time.Time, bool) {
	var s stored
	if hitl.Decode(raw, "follower", &s) != nil || s.V != 1 {
		return time.Time{}, false
	}
	if most := d.now().Add(Lease); s.Until.After(most) {
		return most, true
	}
	return s.Until, true
}

// note writes down who follows, for gateways that start later.
func (d *Desk) note(ctx context.Context, kv jetstream.KeyValue, f follower, until time.Time) {
	if now := d.now(); now.Sub(d.noted[f]) >= noteEvery {
		d.noted[f] = now
		raw, err := json.Marshal(stored{1, until.UTC()})
		if err == nil {
			ctx, cancel := context.WithTimeout(ctx, noteLimit)
			_, err = kv.Put(ctx, key+f.tenant+"."+f.name, raw)
			cancel()
		}
		if err != nil {
			d.log.Debug("who follows is not noted", "caller", f.name, "error", err)
		}
	}
}

// hear notes who follows. Only a call that came across accounts has such a reply, and
// its subject is what the server lets that caller use.
func (d *Desk) hear(ctx context.Context, kv jetstream.KeyValue, m *nats.Msg) {
	f, ok := follows(m)
	if !ok {
		return
	}
	until := d.now().Add(Lease)
	d.mu.Lock()
	d.followers[f] = until
	d.mu.Unlock()
	d.note(ctx, kv, f, until)
}

// follows is who asks to be told; not ok: nobody does.
func follows(m *nats.Msg) (f follower, ok bool) {
	t := strings.Split(m.Subject, ".")
	if !strings.HasPrefix(m.Reply, replyPrefix) || len(t) != 5 || len(m.Data) == 0 || len(m.Data) > maxCall {
		return f, false
	}
	var in wire.ListCall
	if hitl.Decode(m.Data, "call", &in) != nil || !in.Follow {
		return f, false
	}
	return follower{t[2], t[3]}, true
}

// Over is a journal whose events are told to those who follow.
func (d *Desk) Over(j journal.Journal) journal.Journal { return &telling{j, d} }

type telling struct {
	journal.Journal
	desk *Desk
}

// WriteEvent implements journal.Journal.
func (t *telling) WriteEvent(ctx context.Context, subj string, data []byte) (uint64, error) {
	seq, err := t.Journal.WriteEvent(ctx, subj, data)
	if err == nil {
		t.desk.tell(subj, data)
	}
	return seq, err
}

// tell hands an event to those of its tenant who follow.
func (d *Desk) tell(subj string, data []byte) {
	p, err := subject.Parse(subj)
	if err != nil {
		return // none of an interaction
	}
	to := d.following(p.Tenant)
	if len(to) == 0 {
		return
	}
	ix, ok := read(p, data)
	if !ok {
		return
	}
	raw, err := hitl.Marshal(ix)
	if err != nil || int64(len(raw)) > d.conn.MaxPayload() {
		d.log.Warn("an event is not told to those who follow", "subject", subj, "size", len(raw), "error", err)
		return
	}
	for _, name := range to {
		if err := d.conn.Publish(subject.Feed(name, p.Tenant), raw); err != nil {
			d.log.Debug("an event was not told", "caller", name, "error", err)
		}
	}
}

func (d *Desk) following(tenant string) (names []string) {
	now := d.now()
	d.mu.Lock()
	defer d.mu.Unlock()
	for f, until := range d.followers {
		switch {
		case !now.Before(until):
			delete(d.followers, f)
		case f.tenant == tenant:
			names = append(names, f.name)
		}
	}
	return names
}

// read is an event as list would give it, without its body. What never waited for
// anybody is told once it has ended.
func read(p subject.Parsed, data []byte) (*wire.Interaction, bool) {
	if p.Tail == subject.Closed {
		var e wire.Ended
		if json.Unmarshal(data, &e) != nil {
			return nil, false
		}
		ix := &wire.Interaction{ID: p.ID, Summary: e.Summary, State: wire.StateClosed, Outcome: e.Outcome, Decision: e.Decision}
		ix.Body = nil
		return ix, true
	}
	var e wire.Opened
	if json.Unmarshal(data, &e) != nil || e.Decided {
		return nil, false
	}
	ix := &wire.Interaction{ID: p.ID, Summary: e.Summary, State: wire.StatePending}
	ix.Body = nil
	return ix, true
}
