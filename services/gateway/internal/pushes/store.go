// Package pushes knows the browsers in which people want notifications, and takes what
// they decide by the buttons of one.
//
// A browser belongs to the sign-in in which its person asked for it. Once that is ended
// by signing out, here or elsewhere, the browser is forgotten; a sign-in that came to its
// end by itself leaves it, so that whoever is on call is woken all the same, as long as
// the person has rights here.
// What is told is the notifier's affair, which asks for the browsers of one person.
package pushes

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/auth"
	"github.com/banksman/banksman/services/gateway/internal/role"
)

const (
	// MaxBrowsers bounds those of one person.
	MaxBrowsers = 10
	maxEndpoint = 1024
	// maxTargets bounds the browsers that are told at a time, so that a reply has room.
	maxTargets = 1000
	maxAgent   = 200 // bytes of what a browser calls itself
	callLimit  = 3 * time.Second
	casTries   = 5
	idLength   = 24 // of a hash
)

// Errors of the store.
var (
	ErrUnknown     = errors.New("no such browser")
	errUnavailable = errors.New("the browsers of people cannot be reached")
	errLost        = errors.New("another change was faster")
)

// Options wire a Store. All but Clock are required.
type Options struct {
	Conn   *nats.Conn // not closed here
	Auth   *auth.Store
	Logger *slog.Logger
	// PublicKey is what browsers subscribe with; empty: this installation has none.
	PublicKey string
	Clock     func() time.Time // default time.Now
}

// Store is safe for concurrent use.
type Store struct {
	o   Options
	kv  jetstream.KeyValue
	log *slog.Logger
	now func() time.Time
}

// browser is one as it is stored.
type browser struct {
	wire.PushSubscription
	Agent     string    `json:"agent,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	// Session is the hash of the sign-in, and Ends when that ends by itself.
	Session string    `json:"session"`
	Ends    time.Time `json:"ends"`
	// Renewal is the hash of the secret that only the browser has; without one it is
	// not renewed.
	Renewal string `json:"renewal,omitempty"`
}

// list are the browsers of one person, under the person's id.
type list struct {
	V        int       `json:"v"`
	Browsers []browser `json:"browsers"`
	// Dropped are those that a push service knows no more; see there.
	Dropped []dropped `json:"dropped,omitempty"`
	// Since is when a browser was last signed out or taken away: what was told before it
	// may lie there still, and its buttons count no more.
	Since time.Time `json:"since,omitzero"`
}

// Open binds the bucket, and forgets from now on the browsers of sign-ins that are ended.
// It comes before anybody signs out.
func Open(ctx context.Context, o Options) (*Store, error) {
	js, err := jetstream.New(o.Conn)
	if err != nil {
		return nil, fmt.Errorf("pushes: %w", err)
	}
	kv, err := js.KeyValue(ctx, journal.PushBucket)
	if err != nil {
		return nil, fmt.Errorf("pushes: bucket %s: %w", journal.PushBucket, err)
	}
	s := &Store{o: o, kv: kv, log: o.Logger.With("component", "pushes"), now: o.Clock}
	if s.now == nil {
		s.now = time.Now
	}
	o.Auth.OnRevoke(s.leave)
	return s, nil
}

// hash is what is stored of a secret.
func hash(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// id names a browser to its person, by the address of its pushes.
func id(endpoint string) string {
	return hash(endpoint)[:idLength]
}

// check names what is wrong with a subscription. An address inside is refused by the
// notifier, at the moment of dialling.
func check(at string, s *wire.PushSubscription) *hitl.InvalidError {
	u, err := url.Parse(s.Endpoint)
	inside := err == nil && u.Scheme == "http" && (u.Hostname() == "127.0.0.1" || u.Hostname() == "localhost")
	switch {
	case s.Endpoint == "":
		return hitl.Invalid(at+"endpoint", "is missing")
	case len(s.Endpoint) > maxEndpoint:
		return hitl.Invalid(at+"endpoint", "is longer than %d bytes", maxEndpoint)
	case err != nil || u.Hostname() == "" || u.User != nil || u.Fragment != "" || u.Scheme != "https" && !inside:
		return hitl.Invalid(at+"endpoint", "must be an address that begins with https://")
	}
	if _, err := ecdh.P256().NewPublicKey(bytesOf(s.Keys.P256dh)); err != nil {
		return hitl.Invalid(at+"keys.p256dh", "is no public key of P-256 in base64url")
	}
	if len(bytesOf(s.Keys.Auth)) != 16 {
		return hitl.Invalid(at+"keys.auth", "is not 16 bytes in base64url")
	}
	return nil
}

// bytesOf reads base64url as it is written, without the line ends that a decoder passes
// over; nil: it is none.
func bytesOf(text string) []byte {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || base64.RawURLEncoding.EncodeToString(raw) != text {
		return nil
	}
	return raw
}

// Add says that a browser of the person of a session wants pushes. Said again, it
// belongs to that session from now on. The browser renews itself by the secret that is
// returned.
func (s *Store) Add(ctx context.Context, sess *auth.Session, in wire.PushSubscription, agent string) (renewal string, err error) {
	if s.o.PublicKey == "" {
		return "", hitl.Invalid("endpoint", "cannot be told anything: this installation has no key for pushes yet (banksman creds makes one)")
	}
	if inv := check("", &in); inv != nil {
		return "", inv
	}
	renewal = rand.Text()
	agent, _ = hitl.Visible(strings.ToValidUTF8(agent[:min(len(agent), maxAgent)], ""))
	b := browser{PushSubscription: in, Agent: agent, CreatedAt: s.now().UTC(), Session: sess.Hash, Ends: sess.ExpiresAt, Renewal: hash(renewal)}
	return renewal, s.change(ctx, sess.Person.ID, func(l *list) error {
		for i := range l.Browsers {
			if l.Browsers[i].Endpoint == in.Endpoint {
				b.CreatedAt = l.Browsers[i].CreatedAt
				l.Browsers[i] = b
				return nil
			}
		}
		if len(l.Browsers) >= MaxBrowsers {
			return hitl.Invalid("endpoint", "would be the browser number %d: remove one first", MaxBrowsers+1)
		}
		l.Browsers = append(l.Browsers, b)
		return nil
	})
}

// List lists the browsers of the person of a session, oldest first.
func (s *Store) List(ctx context.Context, sess *auth.Session) (wire.PushBrowsers, error) {
	out := wire.PushBrowsers{PublicKey: s.o.PublicKey, Browsers: []wire.PushBrowser{}}
	l, _, err := s.read(ctx, sess.Person.ID)
	for _, b := range l.Browsers {
		out.Browsers = append(out.Browsers, wire.PushBrowser{ID: id(b.Endpoint), Agent: b.Agent, CreatedAt: b.CreatedAt, This: b.Session == sess.Hash})
	}
	return out, err
}

// Remove forgets a browser of the person of a session.
func (s *Store) Remove(ctx context.Context, sess *auth.Session, name string) error {
	return s.change(ctx, sess.Person.ID, func(l *list) error {
		n := len(l.Browsers)
		l.Browsers = slices.DeleteFunc(l.Browsers, func(b browser) bool { return id(b.Endpoint) == name })
		if len(l.Browsers) == n {
			return ErrUnknown
		}
		l.Since = s.now().UTC()
		return nil
	})
}

// Counts reports whether a button counts that a person was told at a time, in whichever
// browser: nobody knows in which it is pressed.
func (s *Store) Counts(ctx context.Context, person string, told time.Time) (bool, error) {
	l, _, err := s.read(ctx, person)
	return told.After(l.Since), err
}

// leave forgets the browsers of a person whose sign-ins have been ended. Where that fails
// they are told nothing all the same while the sign-ins would have lasted.
func (s *Store) leave(ctx context.Context, person string, ended func(session string) bool) {
	if !subject.ValidToken(person) {
		return // nobody who has a browser
	}
	err := s.change(context.WithoutCancel(ctx), person, func(l *list) error {
		n := len(l.Browsers) + len(l.Dropped)
		l.Browsers = slices.DeleteFunc(l.Browsers, func(b browser) bool { return ended(b.Session) })
		l.Dropped = slices.DeleteFunc(l.Dropped, func(d dropped) bool { return ended(d.Session) })
		if len(l.Browsers)+len(l.Dropped) == n {
			return ErrUnknown
		}
		l.Since = s.now().UTC()
		return nil
	})
	if errors.Is(err, ErrUnknown) {
		return
	}
	if err != nil {
		s.log.Warn("the browsers of a person could not be forgotten", "person", person, "error", err)
	}
}

// Renew puts a browser's new subscription in the place of its old one. Whoever knows
// the secret is that browser, or got it from there: notifiers know where a browser is
// told, and not its secret.
func (s *Store) Renew(ctx context.Context, in wire.PushRenewal) error {
	if inv := check("new.", &in.New); inv != nil {
		return inv
	}
	if !subject.ValidToken(in.User) {
		return ErrUnknown
	}
	known := []byte(hash(in.Renewal))
	return s.change(ctx, in.User, func(l *list) error {
		for i := range l.Browsers {
			b := &l.Browsers[i]
			if subtle.ConstantTimeCompare([]byte(b.Renewal), known) == 1 {
				b.PushSubscription = in.New
				return nil
			}
		}
		return ErrUnknown
	})
}

// Targets are the browsers that a person is to be told in, after those of gone were
// forgotten. Who may not sign in any more, or has no role in the tenant, has none.
func (s *Store) Targets(ctx context.Context, tenant, person string, gone []string) ([]wire.PushTarget, error) {
	if !subject.ValidToken(person) {
		return []wire.PushTarget{}, hitl.Invalid("user", "is not the id of a user")
	}
	return s.targets(ctx, person, gone, func(r role.Set) bool { return r.In(tenant) })
}

// Everybody are the browsers of all people whose roles will do, each once, after those of
// gone were forgotten.
func (s *Store) Everybody(ctx context.Context, gone []string, will func(role.Set) bool) ([]wire.PushTarget, error) {
	out := []wire.PushTarget{}
	keys, err := s.kv.ListKeys(ctx)
	if err != nil {
		return out, fmt.Errorf("%w: %w", errUnavailable, err)
	}
	seen := map[string]bool{}
	for person := range keys.Keys() {
		list, err := s.targets(ctx, person, gone, will)
		if err != nil {
			return out, errors.Join(err, keys.Stop())
		}
		for _, t := range list {
			if !seen[t.ID] && len(out) < maxTargets {
				out = append(out, t)
			}
			seen[t.ID] = true
		}
	}
	if len(seen) > len(out) {
		s.log.Warn("not all browsers that want to be told are", "browsers", len(seen), "told", len(out))
	}
	// An end of the context looks like the end of the list.
	return out, ctx.Err()
}

func (s *Store) targets(ctx context.Context, person string, gone []string, will func(role.Set) bool) ([]wire.PushTarget, error) {
	out := []wire.PushTarget{}
	if _, has, err := s.o.Auth.Who(ctx, person); err != nil || !will(has) {
		return out, err
	}
	l, _, err := s.read(ctx, person)
	if err != nil {
		return out, err
	}
	// left are sessions that were signed out before their time and are here all the same.
	left := map[string]bool{}
	signedOut := func(session string, ends time.Time) (bool, error) {
		if left[session] || !s.now().Before(ends) {
			return left[session], nil
		}
		_, err := s.o.Auth.CheckHash(ctx, session)
		if errors.Is(err, auth.ErrUnknown) {
			left[session], err = true, nil
		}
		return left[session], err
	}
	drop := map[string]bool{}
	for _, b := range l.Browsers {
		name := id(b.Endpoint)
		ended, err := signedOut(b.Session, b.Ends)
		switch {
		case err != nil:
			return out, err
		case ended || slices.Contains(gone, name):
			drop[b.Endpoint] = true
		default:
			out = append(out, wire.PushTarget{ID: name, Endpoint: b.Endpoint, P256dh: b.Keys.P256dh, Auth: b.Keys.Auth})
		}
	}
	for _, d := range l.Dropped {
		if !d.matters(s.now()) {
			continue
		}
		if _, err := signedOut(d.Session, d.Ends); err != nil {
			return out, err
		}
	}
	if len(drop)+len(left) > 0 {
		err = s.change(ctx, person, func(l *list) error {
			l.forget(drop, left, s.now().UTC())
			return nil
		})
		s.log.Info("browsers forgotten", "person", person, "browsers", len(drop), "error", err)
	}
	return out, nil
}

func (s *Store) read(ctx context.Context, person string) (l list, rev uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	e, err := s.kv.Get(ctx, person)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return list{V: 1}, 0, nil
	}
	if err != nil {
		return l, 0, fmt.Errorf("%w: %w", errUnavailable, err)
	}
	if l, err = decode(e.Value()); err != nil {
		// Nobody knows any more what was signed out, so that no button counts that was
		// told before now.
		s.log.Error("the browsers of a person cannot be read and count for nothing", "person", person, "error", err)
		l = list{V: 1, Since: s.now().UTC()}
	}
	return l, e.Revision(), nil
}

func decode(raw []byte) (l list, err error) {
	if err := hitl.Decode(raw, "browsers", &l); err != nil {
		return list{}, err
	}
	if l.V != 1 {
		return list{}, hitl.Invalid("v", "is %d, this build reads 1", l.V)
	}
	for i := range l.Browsers {
		b := &l.Browsers[i]
		at := fmt.Sprintf("browsers.%d.", i)
		if inv := check(at, &b.PushSubscription); inv != nil {
			return list{}, inv
		}
		if b.Session == "" {
			return list{}, hitl.Invalid(at+"session", "is missing")
		}
	}
	for i := range l.Dropped {
		if l.Dropped[i].Session == "" {
			return list{}, hitl.Invalid(fmt.Sprintf("dropped.%d.session", i), "is missing")
		}
	}
	return l, nil
}

// change changes the browsers of a person by compare-and-swap.
func (s *Store) change(ctx context.Context, person string, edit func(*list) error) error {
	err := errLost
	for range casTries {
		if err = s.try(ctx, person, edit); !errors.Is(err, errLost) {
			return err
		}
	}
	return fmt.Errorf("%w: %w", errUnavailable, err)
}

func (s *Store) try(ctx context.Context, person string, edit func(*list) error) error {
	l, rev, err := s.read(ctx, person)
	if err != nil {
		return err
	}
	if err := edit(&l); err != nil {
		return err
	}
	raw, err := json.Marshal(l)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	_, err = s.kv.Update(ctx, person, raw, rev)
	var refused *jetstream.APIError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused) && refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence:
		return errLost
	}
	return fmt.Errorf("%w: %w", errUnavailable, err)
}
