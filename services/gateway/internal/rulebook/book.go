// Package rulebook keeps the rules by which people decide in advance. They lie in a
// bucket that only gateways write. Each gateway holds all of them in memory; each
// use is counted in the bucket first, by compare-and-swap, so that several gateways
// never use a rule more often than it may be, and none after it was revoked.
package rulebook

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/role"
)

// MaxTTL is how long a rule may last.
const MaxTTL = 30 * 24 * time.Hour

const (
	ruleKey = "rule."
	// maxActive bounds what every request is held against.
	maxActive = 1000
	casTries  = 20
	casPause  = 2 * time.Millisecond
	// useLimit bounds the counting of a use: after it people are asked.
	useLimit = 3 * time.Second
	// loadWait is how long a request waits for the rules to be read at the start.
	loadWait = 2 * time.Second
	// quiet is how long changes are gathered before they are told.
	quiet = 200 * time.Millisecond
)

// Errors of the book.
var (
	ErrUnknown     = errors.New("no such rule")
	ErrForbidden   = errors.New("not yours to decide")
	ErrChanged     = errors.New("the rule was changed in the meantime, or is not in force any more: look at it again")
	ErrUnavailable = errors.New("the rules cannot be reached")
	errUnread      = errors.New("a stored rule cannot be read: until it is revoked people decide everything")
	errOver        = errors.New("the rule is not in force any more")
	errMoved       = errors.New("the rule was changed in the meantime")
)

// Options wire a Book. Conn, Logger and Rights are required.
type Options struct {
	Conn   *nats.Conn // not closed here
	Logger *slog.Logger
	Clock  func() time.Time // default time.Now
	// Rights are what a person may do now.
	Rights func(ctx context.Context, person string) (role.Set, error)
}

// Book is the rules. Follow keeps it up to date.
type Book struct {
	o      Options
	kv     jetstream.KeyValue
	log    *slog.Logger
	now    func() time.Time
	loaded chan struct{} // closed when all rules were read once
	heard  uint64        // the newest revision that Follow was told of; its own

	mu       sync.Mutex
	rules    map[string]*entry
	unread   map[string]uint64 // revisions of keys that cannot be read
	followed bool              // what others change becomes known
}

// entry is a rule with its place in the bucket.
type entry struct {
	turn sync.Mutex // of who changes it from here
	rule wire.Rule  // guarded by Book.mu
	rev  uint64     // guarded by Book.mu
}

// stored is a rule as it lies in the bucket.
type stored struct {
	V int `json:"v"`
	wire.Rule
}

// Open binds the bucket.
func Open(ctx context.Context, o Options) (*Book, error) {
	js, err := jetstream.New(o.Conn)
	if err != nil {
		return nil, fmt.Errorf("rulebook: %w", err)
	}
	kv, err := js.KeyValue(ctx, journal.RulesBucket)
	if err != nil {
		return nil, fmt.Errorf("rulebook: bucket %s: %w", journal.RulesBucket, err)
	}
	b := &Book{
		o: o, kv: kv, log: o.Logger.With("component", "rulebook"), now: o.Clock, loaded: make(chan struct{}),
		rules: map[string]*entry{}, unread: map[string]uint64{},
	}
	if b.now == nil {
		b.now = time.Now
	}
	return b, nil
}

// Follow reads all rules and what becomes of them, until ctx ends, which is no
// error. changed is called after changes, not for each.
func (b *Book) Follow(ctx context.Context, changed func()) error {
	w, err := b.kv.WatchFiltered(ctx, []string{ruleKey + "*"})
	if err != nil {
		return fmt.Errorf("rulebook: follow: %w", err)
	}
	defer func() {
		b.mu.Lock()
		b.followed = false
		b.mu.Unlock()
		// Where Stop fails the connection is gone, and nothing closes Updates.
		if w.Stop() == nil {
			for range w.Updates() {
			}
		}
	}()
	var tell <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tell:
			tell = nil
			changed()
		case e, ok := <-w.Updates():
			switch {
			case !ok && ctx.Err() != nil:
				return nil
			case !ok:
				return fmt.Errorf("rulebook: follow: %w", ErrUnavailable)
			case e == nil:
				b.mu.Lock()
				b.followed = true
				b.mu.Unlock()
				select {
				case <-b.loaded:
				default:
					close(b.loaded)
				}
			default:
				b.take(e)
				if e.Revision() > b.heard && tell == nil {
					tell = time.After(quiet)
				}
				b.heard = max(b.heard, e.Revision())
			}
		}
	}
}

// take notes what the bucket has.
func (b *Book) take(e jetstream.KeyValueEntry) {
	id := strings.TrimPrefix(e.Key(), ruleKey)
	b.mu.Lock()
	defer b.mu.Unlock()
	if rev, ok := b.unread[id]; ok && rev < e.Revision() {
		delete(b.unread, id)
	}
	en := b.rules[id]
	if en != nil && en.rev >= e.Revision() {
		return
	}
	if e.Operation() != jetstream.KeyValuePut {
		delete(b.rules, id)
		return
	}
	rule, err := decode(id, e.Value())
	if err != nil {
		b.log.Error("a rule cannot be read: people decide everything", "rule", id, "error", err)
		delete(b.rules, id)
		b.unread[id] = e.Revision()
		return
	}
	if en == nil {
		en = &entry{}
		b.rules[id] = en
	}
	en.rule, en.rev = *rule, e.Revision()
}

func decode(id string, raw []byte) (*wire.Rule, error) {
	if err := hitl.CheckJSON(raw); err != nil {
		return nil, err
	}
	var s stored
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, err
	}
	switch {
	case s.V != 1:
		return nil, fmt.Errorf("v: unknown version %d, this build reads 1", s.V)
	case s.ID != id:
		return nil, errors.New("id: is not the one of its key")
	case s.Effect != wire.RuleAllow && s.Effect != wire.RuleDeny:
		return nil, errors.New("effect: is unknown")
	case s.Maker.ID == "":
		return nil, errors.New("maker: is missing")
	case s.Uses < 0 || s.MaxUses < 0:
		return nil, errors.New("uses, max_uses: are fewer than none")
	case s.ExpiresAt.IsZero() || s.ExpiresAt.Sub(lastMade(&s.Rule)) > MaxTTL:
		return nil, errors.New("expires_at: is missing or too late")
	}
	return &s.Rule, nil
}

// lastMade is when somebody last said how long a rule lasts.
func lastMade(r *wire.Rule) time.Time {
	if n := len(r.Changes); n > 0 {
		return r.Changes[n-1].At
	}
	return r.CreatedAt
}

// state is a rule's at a time.
func state(r *wire.Rule, now time.Time) string {
	switch {
	case r.RevokedAt != nil:
		return wire.RuleRevoked
	case !now.Before(r.ExpiresAt):
		return wire.RuleExpired
	case r.MaxUses > 0 && r.Uses >= r.MaxUses:
		return wire.RuleUsedUp
	}
	return wire.RuleActive
}

// all returns copies of the rules, those in force first and then the newest.
func (b *Book) all() []wire.Rule {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	list := make([]wire.Rule, 0, len(b.rules))
	for _, en := range b.rules {
		r := en.rule
		r.State = state(&r, now)
		list = append(list, r)
	}
	slices.SortFunc(list, func(x, y wire.Rule) int {
		if a, z := x.State == wire.RuleActive, y.State == wire.RuleActive; a != z {
			if a {
				return -1
			}
			return 1
		}
		return cmp.Or(y.CreatedAt.Compare(x.CreatedAt), cmp.Compare(x.ID, y.ID))
	})
	return list
}

// usable returns the rules in force about an asker, or why they cannot be known.
func (b *Book) usable(ctx context.Context, tenant, owner string) ([]*wire.Rule, error) {
	ctx, cancel := context.WithTimeout(ctx, loadWait)
	defer cancel()
	select {
	case <-b.loaded:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.followed {
		return nil, ErrUnavailable
	}
	if len(b.unread) > 0 {
		return nil, errUnread
	}
	now := b.now()
	var list []*wire.Rule
	for _, en := range b.rules {
		if en.rule.Match.Tenant != tenant || en.rule.Match.Owner != owner || state(&en.rule, now) != wire.RuleActive {
			continue
		}
		r := en.rule
		list = append(list, &r)
	}
	// The same one on every gateway, and the one that lasts longest first.
	slices.SortFunc(list, func(x, y *wire.Rule) int { return cmp.Or(y.ExpiresAt.Compare(x.ExpiresAt), cmp.Compare(x.ID, y.ID)) })
	return list, nil
}

// add stores a new rule.
func (b *Book) add(ctx context.Context, r wire.Rule) (wire.Rule, error) {
	b.mu.Lock()
	n, now := 0, b.now()
	for _, en := range b.rules {
		if state(&en.rule, now) == wire.RuleActive {
			n++
		}
	}
	b.mu.Unlock()
	if n >= maxActive {
		return r, hitl.Invalid("request_id", "is for one rule too many: %d are in force, and that is the limit", maxActive)
	}
	var id [8]byte
	rand.Read(id[:]) // never fails
	r.ID = hex.EncodeToString(id[:])
	raw, err := hitl.Marshal(stored{V: 1, Rule: r})
	if err != nil {
		return r, fmt.Errorf("rulebook: %w", err)
	}
	rev, err := b.kv.Create(ctx, ruleKey+r.ID, raw)
	if err != nil {
		return r, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rules[r.ID] == nil {
		b.rules[r.ID] = &entry{rule: r, rev: rev}
	}
	return r, nil
}

// change changes a rule by compare-and-swap. fn gets a copy and says what is wrong
// with it as it is now.
func (b *Book) change(ctx context.Context, id string, fn func(*wire.Rule) error) (wire.Rule, error) {
	var none wire.Rule
	b.mu.Lock()
	en := b.rules[id]
	b.mu.Unlock()
	if en == nil {
		return none, ErrUnknown
	}
	en.turn.Lock()
	defer en.turn.Unlock()
	for try := range casTries {
		b.mu.Lock()
		r, rev := en.rule, en.rev
		b.mu.Unlock()
		if err := fn(&r); err != nil {
			return none, err
		}
		raw, err := hitl.Marshal(stored{V: 1, Rule: r})
		if err != nil {
			return none, fmt.Errorf("rulebook: %w", err)
		}
		now, err := b.kv.Update(ctx, ruleKey+id, raw, rev)
		if err == nil {
			b.mu.Lock()
			if en.rev < now {
				en.rule, en.rev = r, now
			}
			b.mu.Unlock()
			return r, nil
		}
		var api *jetstream.APIError
		if !errors.As(err, &api) || api.ErrorCode != jetstream.JSErrCodeStreamWrongLastSequence {
			return none, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		// Somebody was faster. A replica may not know yet.
		select {
		case <-time.After(casPause << min(try, 5)):
		case <-ctx.Done():
			return none, fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
		}
		e, err := b.kv.Get(ctx, ruleKey+id)
		if err != nil {
			return none, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		b.take(e)
	}
	return none, fmt.Errorf("%w: the rule is being changed by others", ErrUnavailable)
}

// use counts a use of a rule that is in force as it was picked: what another version
// matches may be something else. What was asked at or after its end
// by the server's clock is not its business either.
func (b *Book) use(ctx context.Context, picked *wire.Rule, asked time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, useLimit)
	defer cancel()
	_, err := b.change(ctx, picked.ID, func(r *wire.Rule) error {
		now := b.now()
		if max(r.Version, 1) != max(picked.Version, 1) {
			return errMoved
		}
		if state(r, now) != wire.RuleActive || !asked.Before(r.ExpiresAt) {
			return errOver
		}
		r.Uses++
		at := now.UTC()
		r.LastUsed = &at
		return nil
	})
	return err
}

// unuse takes back a use that decided nothing.
func (b *Book) unuse(ctx context.Context, id string) {
	_, err := b.change(ctx, id, func(r *wire.Rule) error {
		r.Uses = max(0, r.Uses-1)
		return nil
	})
	if err != nil {
		b.log.Warn("a use that decided nothing stays counted", "rule", id, "error", err)
	}
}

// revoke ends a rule on every gateway: nothing is claimed by it after this has
// returned.
func (b *Book) revoke(ctx context.Context, id string, by hitl.Principal) error {
	r, err := b.change(ctx, id, func(r *wire.Rule) error {
		if r.RevokedAt == nil {
			at := b.now().UTC()
			r.RevokedAt, r.RevokedBy = &at, &by
		}
		return nil
	})
	if err == nil {
		b.log.Info("rule revoked", "rule", id, "maker", r.Maker.ID, "by", by.ID)
	}
	return err
}

// drop deletes a rule that cannot be read.
func (b *Book) drop(ctx context.Context, id string, by hitl.Principal) error {
	b.mu.Lock()
	_, ok := b.unread[id]
	b.mu.Unlock()
	if !ok {
		return ErrUnknown
	}
	if err := b.kv.Delete(ctx, ruleKey+id); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	b.log.Info("a rule that could not be read was deleted", "rule", id, "by", by.ID)
	return nil
}
