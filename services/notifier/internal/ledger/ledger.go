// Package ledger is the notifier's memory: what has to be sent, who is about to
// send it, and what became of it. It lives in a key-value bucket of the
// notifier's own account.
//
// Every entry changes by compare-and-swap only, and is read through the stream's
// leader, so all replicas see one order of events. An outcome that is unknown
// is read back before anything follows from it.
package ledger

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
)

// Bucket is the name of the bucket.
const Bucket = "hitl_alerts"

const (
	// keep is how long entries last: as long as the events they come from.
	keep = 30 * 24 * time.Hour
	// maxBytes bounds the bucket. A full one forgets its oldest entries; it
	// never keeps an alert from being sent.
	maxBytes = 768 << 20
	// callTimeout bounds one call to the server; calls are repeated.
	callTimeout = 3 * time.Second
	maxPause    = time.Second // between repeated calls
)

// ErrNotFound: there is no such entry.
var ErrNotFound = errors.New("ledger: not found")

// ErrDrift: the bucket exists and is not as the guarantees need it.
var ErrDrift = errors.New("ledger: bucket configuration has drifted")

// Ledger is safe for concurrent use.
type Ledger struct {
	nc *nats.Conn // the caller's
	kv jetstream.KeyValue
}

// inCluster is how many servers of a cluster keep the ledger where nobody says how many:
// all that one lost server may not take with it.
const inCluster = 3

// Open makes the bucket where it is missing, and raises its copies to replicas; 0 is three
// in a cluster, as far as it has the servers, and else one.
func Open(ctx context.Context, nc *nats.Conn, replicas int) (*Ledger, error) {
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(callTimeout))
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	want := jetstream.StreamConfig{
		Name: "KV_" + Bucket, Subjects: []string{"$KV." + Bucket + ".>"}, Storage: jetstream.FileStorage,
		MaxMsgsPerSubject: 1, MaxAge: keep, MaxBytes: maxBytes, MaxMsgSize: 64 << 10, Discard: jetstream.DiscardOld,
		Replicas: max(replicas, 1), DenyDelete: true,
		// Reads go through the leader: a follower may be behind, and a decided
		// interaction would pass for a pending one.
		AllowDirect: false,
	}
	var b pause
	for {
		err := open(ctx, js, want, replicas)
		if err == nil {
			break
		}
		if errors.Is(err, ErrDrift) || hopeless(ctx, err) || !b.wait(ctx) {
			return nil, fmt.Errorf("ledger: open the bucket %s: %w", Bucket, err)
		}
	}
	kv, err := js.KeyValue(ctx, Bucket)
	if err != nil {
		return nil, fmt.Errorf("ledger: open the bucket %s: %w", Bucket, err)
	}
	return &Ledger{nc, kv}, nil
}

func open(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig, replicas int) error {
	s, err := js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		// Another replica may be making it; the next attempt finds it.
		if s, err = js.CreateStream(ctx, want); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	have := s.CachedInfo().Config
	switch {
	case have.AllowDirect:
		return fmt.Errorf("%w: allow_direct is on", ErrDrift)
	case have.MaxMsgsPerSubject != 1:
		return fmt.Errorf("%w: max_msgs_per_subject is %d, not 1", ErrDrift, have.MaxMsgsPerSubject)
	case have.Storage != jetstream.FileStorage:
		return fmt.Errorf("%w: storage is not file", ErrDrift)
	}
	copies := replicas
	if c := s.CachedInfo().Cluster; copies == 0 && c != nil && c.Name != "" {
		copies = inCluster
	}
	if have.Replicas >= copies {
		return nil
	}
	have.Replicas = copies
	_, err = js.UpdateStream(ctx, have)
	if err == nil || replicas != 0 {
		return err
	}
	return nil // as many as there are; WarnOfOne says it
}

// Copies is how many servers keep the ledger, and whether they form a cluster.
func (l *Ledger) Copies(ctx context.Context) (n int, cluster bool, err error) {
	js, err := jetstream.New(l.nc, jetstream.WithDefaultTimeout(callTimeout))
	if err != nil {
		return 0, false, fmt.Errorf("ledger: %w", err)
	}
	s, err := js.Stream(ctx, "KV_"+Bucket)
	if err != nil {
		return 0, false, fmt.Errorf("ledger: %w", err)
	}
	info := s.CachedInfo()
	return info.Config.Replicas, info.Cluster != nil && info.Cluster.Name != "", nil
}

// WarnOfOne says where a cluster keeps the ledger on one of its servers only.
func (l *Ledger) WarnOfOne(ctx context.Context, log *slog.Logger) {
	if copies, cluster, err := l.Copies(ctx); err == nil && cluster && copies < 2 {
		log.Warn("the ledger is kept by one server of the cluster: while that is away nobody is told", "setting", "ledger_replicas")
	}
}

// Create stores e under k if there is nothing yet. It returns what is stored
// and whether it is e.
func (l *Ledger) Create(ctx context.Context, k Key, e Entry) (*Record, bool, error) {
	return l.write(ctx, k, 0, e)
}

// Update replaces r by e, unless r has been replaced already. It returns what
// is stored, nil for nothing any more, and whether it is e.
func (l *Ledger) Update(ctx context.Context, r *Record, e Entry) (*Record, bool, error) {
	return l.write(ctx, r.Key, r.Revision, e)
}

func (l *Ledger) write(ctx context.Context, k Key, revision uint64, e Entry) (*Record, bool, error) {
	e.V = 1
	e.Write = rand.Text()
	data, err := hitl.Marshal(e)
	if err != nil {
		return nil, false, fmt.Errorf("ledger: encode %s: %w", k, err)
	}
	value, rev, won, err := l.swap(ctx, k.String(), revision, data, e.Write)
	if err != nil || value == nil {
		return nil, false, err
	}
	r, err := decode(k.String(), value, rev)
	return r, won, err
}

// Get reads the entry of k; ErrNotFound if there is none.
func (l *Ledger) Get(ctx context.Context, k Key) (*Record, error) {
	value, rev, err := l.get(ctx, k.String())
	if err != nil {
		return nil, err
	}
	return decode(k.String(), value, rev)
}

// MarkOver records that the interaction has its outcome. first says that
// nobody had done so before.
func (l *Ledger) MarkOver(ctx context.Context, ref subject.Ref, o Over) (first bool, err error) {
	o.Write = rand.Text()
	data, err := hitl.Marshal(o)
	if err != nil {
		return false, fmt.Errorf("ledger: encode: %w", err)
	}
	_, _, first, err = l.swap(ctx, overKey(ref), 0, data, o.Write)
	return first, err
}

// Over reads how an interaction ended; ErrNotFound while it is not known to
// have ended.
func (l *Ledger) Over(ctx context.Context, ref subject.Ref) (*Over, error) {
	value, _, err := l.get(ctx, overKey(ref))
	if err != nil {
		return nil, err
	}
	return decodeOver(overKey(ref), value)
}

// IsOver reports whether an interaction is known to have ended.
func (l *Ledger) IsOver(ctx context.Context, ref subject.Ref) (bool, error) {
	_, err := l.Over(ctx, ref)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// MarkGone records that a channel's target wants nothing any more, or (g.Back) that
// it is tried again; was says that it was recorded otherwise before.
func (l *Ledger) MarkGone(ctx context.Context, g Gone) (was bool, err error) {
	key := goneKey(g.Channel, g.Target)
	for {
		value, rev, err := l.get(ctx, key)
		have := Gone{Back: true} // nothing is recorded
		if err == nil {
			have, err = decodeGone(key, value)
		}
		switch {
		case err != nil && !errors.Is(err, ErrNotFound):
			return false, err
		case have.Back == g.Back:
			return false, nil
		}
		g.Write = rand.Text()
		data, err := hitl.Marshal(g)
		if err != nil {
			return false, fmt.Errorf("ledger: encode: %w", err)
		}
		_, _, won, err := l.swap(ctx, key, rev, data, g.Write)
		if err != nil || won {
			return won, err
		}
	}
}

// swap stores data under key if the key's revision is the given one; 0 is
// absent. It goes on until that is decided or ctx ends. nonce is the write's
// own, by which it is recognized when it is read back. value is nil where the
// key is gone.
func (l *Ledger) swap(ctx context.Context, key string, revision uint64, data []byte, nonce string) (value []byte, rev uint64, won bool, err error) {
	var b pause
	for {
		attempt, cancel := context.WithTimeout(ctx, callTimeout)
		rev, err := l.kv.Update(attempt, key, data, revision)
		cancel()
		if err == nil {
			return data, rev, true, nil
		}
		// Neither a timeout nor a refusal says what is stored now: even "wrong
		// last sequence" can mean that another write is under way.
		value, rev, gerr := l.get(ctx, key)
		switch {
		case errors.Is(gerr, ErrNotFound) && revision != 0:
			return nil, 0, false, nil
		case errors.Is(gerr, ErrNotFound):
		case gerr != nil:
			err = errors.Join(err, gerr)
		case writeOf(value) == nonce:
			return value, rev, true, nil
		case rev != revision:
			return value, rev, false, nil
		}
		if hopeless(ctx, err) || !b.wait(ctx) {
			return nil, 0, false, fmt.Errorf("ledger: write %s: %w", key, err)
		}
	}
}

// get goes on until the server has answered or ctx ends.
func (l *Ledger) get(ctx context.Context, key string) ([]byte, uint64, error) {
	var b pause
	for {
		attempt, cancel := context.WithTimeout(ctx, callTimeout)
		e, err := l.kv.Get(attempt, key)
		cancel()
		if err == nil {
			return e.Value(), e.Revision(), nil
		}
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			return nil, 0, ErrNotFound
		}
		if hopeless(ctx, err) || !b.wait(ctx) {
			return nil, 0, fmt.Errorf("ledger: read %s: %w", key, err)
		}
	}
}

// hopeless reports whether another call cannot do better.
func hopeless(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, nats.ErrConnectionClosed)
}

func writeOf(value []byte) string {
	var h struct {
		Write string `json:"w"`
	}
	if json.Unmarshal(value, &h) != nil {
		return ""
	}
	return h.Write
}

// pause waits between repeated calls, longer each time.
type pause struct{ d time.Duration }

func (p *pause) wait(ctx context.Context) bool {
	p.d = min(max(2*p.d, 5*time.Millisecond), maxPause)
	t := time.NewTimer(p.d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
