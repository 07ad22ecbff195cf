// Package visit notes when, and from where, people use their sign-ins, and lists
// those to the person whose they are.
package visit

import (
	"context"
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
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/auth"
)

const (
	key = "visit."
	// every is how exactly the last use is noted.
	every = 5 * time.Minute
	// noteLimit bounds the writing: whoever uses a session does not wait longer.
	noteLimit = 2 * time.Second
	maxAgent  = 200 // bytes of what a browser calls itself
	idLength  = 12  // of a hash; names a sign-in to its person
	maxHeld   = 10_000
)

// ErrUnknown says that a person has no such sign-in.
var ErrUnknown = errors.New("no such sign-in")

// Options wire a Log; all but Clock are required.
type Options struct {
	Conn   *nats.Conn // not closed here
	Auth   *auth.Store
	Logger *slog.Logger
	Clock  func() time.Time // default time.Now
}

// Log is safe for concurrent use. It keeps no record of the past: of each session
// the first address and the last.
type Log struct {
	o   Options
	kv  jetstream.KeyValue
	now func() time.Time

	mu   sync.Mutex
	held map[string]stored // as noted by this gateway
}

type stored struct {
	V     int       `json:"v"`
	At    time.Time `json:"at"`
	First string    `json:"first"` // address
	From  string    `json:"from"`
	Agent string    `json:"agent,omitempty"`
}

// Open binds the bucket of the sessions.
func Open(ctx context.Context, o Options) (*Log, error) {
	js, err := jetstream.New(o.Conn)
	if err != nil {
		return nil, fmt.Errorf("visit: %w", err)
	}
	kv, err := js.KeyValue(ctx, auth.Bucket)
	if err != nil {
		return nil, fmt.Errorf("visit: bucket %s: %w", auth.Bucket, err)
	}
	l := &Log{o: o, kv: kv, now: o.Clock, held: map[string]stored{}}
	if l.now == nil {
		l.now = time.Now
	}
	return l, nil
}

// Note says that a person's session is used now, from an address, by a program
// that calls itself agent. Whatever goes wrong, the session can be used.
func (l *Log) Note(ctx context.Context, sess *auth.Session, from, agent string) {
	if sess.Person.Kind != "person" {
		return // tokens have a list of their own
	}
	agent, _ = hitl.Visible(strings.ToValidUTF8(agent[:min(len(agent), maxAgent)], ""))
	now := l.now().UTC()
	l.mu.Lock()
	old, known := l.held[sess.Hash]
	if known && old.From == from && now.Sub(old.At) < every {
		l.mu.Unlock()
		return
	}
	if len(l.held) >= maxHeld {
		clear(l.held)
	}
	next := stored{V: 1, At: now, First: old.First, From: from, Agent: agent}
	l.held[sess.Hash] = next
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteLimit)
	defer cancel()
	if !known {
		if was, err := l.read(ctx, sess.Hash); err == nil {
			next.First = was.First
		}
		if next.First == "" {
			next.First = from
		}
		l.mu.Lock()
		l.held[sess.Hash] = next
		l.mu.Unlock()
	}
	raw, err := json.Marshal(next)
	if err == nil {
		_, err = l.kv.Put(ctx, key+sess.Hash, raw)
	}
	if err != nil {
		l.o.Logger.Debug("the use of a sign-in is not noted", "person", sess.Person.ID, "error", err)
	}
}

func (l *Log) read(ctx context.Context, hash string) (stored, error) {
	e, err := l.kv.Get(ctx, key+hash)
	if err != nil {
		return stored{}, err
	}
	v, err := decode(e.Value())
	if err != nil { // as if it had never been noted
		return stored{}, errors.Join(err, jetstream.ErrKeyNotFound)
	}
	return v, nil
}

func decode(raw []byte) (v stored, err error) {
	if err := hitl.Decode(raw, "visit", &v); err != nil {
		return stored{}, err
	}
	switch {
	case v.V != 1:
		return stored{}, hitl.Invalid("v", "is %d, this build reads 1", v.V)
	case v.At.IsZero():
		return stored{}, hitl.Invalid("at", "is missing")
	}
	return v, nil
}

// List lists the sign-ins of the person of a session, the one that was used last
// first.
func (l *Log) List(ctx context.Context, sess *auth.Session) ([]wire.SignIn, error) {
	own, err := l.o.Auth.Sessions(ctx, sess.Person.ID)
	if err != nil {
		return nil, err
	}
	list := []wire.SignIn{}
	for _, s := range own {
		out := wire.SignIn{
			ID: s.Hash[:idLength], Via: s.Via, Name: s.Name, CreatedAt: s.CreatedAt, ExpiresAt: s.ExpiresAt, This: s.Hash == sess.Hash,
		}
		v, err := l.read(ctx, s.Hash)
		if err == nil {
			out.LastSeen, out.From, out.FirstFrom, out.Agent = &v.At, v.From, v.First, v.Agent
		} else if !errors.Is(err, jetstream.ErrKeyNotFound) {
			return nil, fmt.Errorf("%w: %w", auth.ErrUnavailable, err)
		}
		list = append(list, out)
	}
	slices.SortFunc(list, func(a, b wire.SignIn) int { return lastly(&b).Compare(lastly(&a)) })
	return list, nil
}

func lastly(s *wire.SignIn) time.Time {
	if s.LastSeen != nil {
		return *s.LastSeen
	}
	return s.CreatedAt
}

// End ends one of the sign-ins of the person of a session, on every gateway.
func (l *Log) End(ctx context.Context, sess *auth.Session, id string) error {
	own, err := l.o.Auth.Sessions(ctx, sess.Person.ID)
	if err != nil {
		return err
	}
	for _, s := range own {
		if len(id) == idLength && strings.HasPrefix(s.Hash, id) {
			return l.o.Auth.Revoke(ctx, s.Hash)
		}
	}
	return ErrUnknown
}
