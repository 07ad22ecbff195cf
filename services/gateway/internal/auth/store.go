package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-webauthn/webauthn/webauthn"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/services/gateway/internal/issuer"
	"github.com/banksman/banksman/services/gateway/internal/party"
	"github.com/banksman/banksman/services/gateway/internal/role"
	"github.com/banksman/banksman/services/gateway/internal/seal"
)

// The buckets of the package, made by the provisioner.
const (
	Bucket      = journal.SessionsBucket
	UsersBucket = journal.UsersBucket
)

// How long things live.
const (
	LinkTTL    = 10 * time.Minute
	CLITTL     = 10 * time.Minute // a terminal's request
	SessionTTL = 30 * 24 * time.Hour
	CLISession = 12 * time.Hour
	// ManageSession is for a terminal that manages people and tokens.
	ManageSession = time.Hour
)

// maxWaiting bounds the requests of terminals that wait for a confirmation.
const maxWaiting = 20

// The ways to sign in, as Session.Via.
const (
	ViaLink    = "link"
	ViaCLI     = "cli"
	ViaTest    = "test"
	ViaToken   = "token"
	ViaPasskey = "passkey"
	ViaOIDC    = "oidc"
)

// Errors of the store. ErrUnknown covers a token that never was, was used, was
// revoked or has expired: whoever brings one learns no more.
var (
	ErrUnknown     = errors.New("unknown, used or expired")
	ErrDenied      = errors.New("refused by the person who was asked")
	ErrBusy        = errors.New("too many requests to sign in are waiting; try again in some minutes")
	ErrUnavailable = errors.New("the session store cannot be reached")
)

// Options wire a Store. Conn and Logger are required.
type Options struct {
	Conn   *nats.Conn // not closed here
	Logger *slog.Logger
	Clock  func() time.Time // default time.Now
	// Person is who signs in by a link.
	Person hitl.Principal
	// BaseURL is the address that people use; passkeys belong to its name.
	BaseURL *url.URL
	// OIDC is the issuer that vouches for people, if any.
	OIDC *issuer.Options
}

// Store is the people's tokens. Its methods are safe for concurrent use.
type Store struct {
	kv     jetstream.KeyValue // sessions and what else ends by itself
	users  jetstream.KeyValue
	log    *slog.Logger
	now    func() time.Time
	person hitl.Principal

	mu      sync.Mutex
	lastUse map[string]time.Time // of tokens, as noted by this gateway

	onRevoke func(ctx context.Context, person string, ended func(hash string) bool) // may be nil

	box      atomic.Pointer[seal.Box] // nil until it is needed
	passkeys *webauthn.WebAuthn       // nil: none can be used here
	issuer   *issuer.Issuer           // nil: none is trusted
}

// Open binds the bucket.
func Open(ctx context.Context, o Options) (*Store, error) {
	js, err := jetstream.New(o.Conn)
	if err != nil {
		return nil, fmt.Errorf("auth: %w", err)
	}
	kv, err := js.KeyValue(ctx, Bucket)
	if err != nil {
		return nil, fmt.Errorf("auth: bucket %s: %w", Bucket, err)
	}
	users, err := js.KeyValue(ctx, UsersBucket)
	if err != nil {
		return nil, fmt.Errorf("auth: bucket %s: %w", UsersBucket, err)
	}
	s := &Store{
		kv: kv, users: users, log: o.Logger.With("component", "auth"), now: o.Clock, person: o.Person,
		lastUse: map[string]time.Time{},
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.passkeys, err = party.New(o.BaseURL); err != nil {
		return nil, fmt.Errorf("auth: passkeys: %w", err)
	}
	if o.OIDC != nil {
		if s.issuer, err = issuer.New(o.OIDC, o.BaseURL, SignInPage); err != nil {
			return nil, fmt.Errorf("auth: %w", err)
		}
	}
	return s, nil
}

// Owner is who signs in by a link of this installation.
func (s *Store) Owner() hitl.Principal { return s.person }

// Session is somebody signed in.
type Session struct {
	V         int            `json:"v"`
	Person    hitl.Principal `json:"person"`
	Channel   string         `json:"channel"`   // of what is decided with it: web or cli
	Assurance string         `json:"assurance"` // session
	Via       string         `json:"via"`       // link, cli, passkey, oidc, token or test
	Name      string         `json:"name,omitempty"`
	// Manage says that a terminal was let in to manage people and tokens.
	Manage    bool      `json:"manage,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at"`
	// ProvedAt is when the person last used a passkey in this session.
	ProvedAt time.Time `json:"proved_at,omitzero"`
	// Again says that the record is not the first of the session.
	Again bool `json:"again,omitempty"`
	// Hash names the session without giving its token away.
	Hash string `json:"-"`
	// Rights, HasPasskey and AskedFor (the owner that a program asks as) are
	// those at the time of the check.
	Rights     role.Set `json:"-"`
	HasPasskey bool     `json:"-"`
	AskedFor   string   `json:"-"`
	// Vouched says that an issuer's word on the person, which lasts until ExpiresAt, is
	// all that the session stands on, whatever was signed in by.
	Vouched bool `json:"-"`
	// From is the address that brought the token, as the gateway sees it.
	From string `json:"-"`
}

// Manages reports whether the session may manage people and tokens. A program
// may not, and a terminal only where it was let in for that.
func (s *Session) Manages() bool {
	return s.Person.Kind == "person" && s.Rights.Manages() && (s.Via != ViaCLI || s.Manage)
}

// good reports whether somebody is signed in by it at a time.
func (s *Session) good(now time.Time) bool { return s.Person.ID != "" && now.Before(s.ExpiresAt) }

type link struct {
	V         int            `json:"v"`
	Person    hitl.Principal `json:"person"`
	ExpiresAt time.Time      `json:"expires_at"`
	Used      bool           `json:"used,omitempty"` // somebody is about to be signed in by it
}

const (
	linkKey    = "link."
	sessionKey = "session."
	cliKey     = "cli."
)

// maxLinks bounds the links that wait to be used and were asked for over the
// bus, where an agent may hold the credential of the terminal.
const maxLinks = 20

// RequestLink is Link for callers that may ask for any number: unused links
// would fill the bucket until nobody can sign in.
func (s *Store) RequestLink(ctx context.Context) (token string, expires time.Time, err error) {
	unused := 0
	err = each(ctx, s.kv, linkKey, func(key string) error {
		var l link
		rev, err := s.read(ctx, key, &l)
		if err == nil && !s.now().Before(l.ExpiresAt) {
			_ = s.take(ctx, key, rev) // tidying up; the next one tries again
		} else if err == nil {
			unused++
		}
		return err
	})
	if err != nil {
		return "", expires, err
	}
	if unused >= maxLinks {
		return "", expires, ErrBusy
	}
	return s.Link(ctx)
}

// Link returns a token that signs in once.
func (s *Store) Link(ctx context.Context) (token string, expires time.Time, err error) {
	token = newToken()
	expires = s.now().Add(LinkTTL).UTC()
	err = s.create(ctx, linkKey+hash(token), link{V: 1, Person: s.person, ExpiresAt: expires})
	return token, expires, err
}

// Exchange takes a link's token for a session's. The link is used up, whatever
// happens afterwards.
func (s *Store) Exchange(ctx context.Context, token string) (string, *Session, error) {
	var l link
	if !wellFormed(token) {
		return "", nil, ErrUnknown
	}
	rev, err := s.read(ctx, linkKey+hash(token), &l)
	if err != nil {
		return "", nil, err
	}
	if l.Used || !s.now().Before(l.ExpiresAt) {
		return "", nil, ErrUnknown
	}
	l.Used = true
	return s.redeem(ctx, linkKey+hash(token), rev, l, Session{Person: l.Person, Channel: "web", Via: ViaLink}, SessionTTL)
}

// redeem grants a session for a record that is used up by that; used is the record so
// marked. It is taken away last: RevokeAll ends what waits before it lists sessions, so that
// it finds the record or lists the session.
func (s *Store) redeem(ctx context.Context, key string, rev uint64, used any, sess Session, ttl time.Duration) (string, *Session, error) {
	raw, err := json.Marshal(used)
	if err != nil {
		return "", nil, fmt.Errorf("auth: %w", err)
	}
	if rev, err = s.kv.Update(ctx, key, raw, rev); lost(err) {
		return "", nil, ErrUnknown
	} else if err != nil {
		return "", nil, unavailable(err)
	}
	token, made, err := s.grant(ctx, sess, ttl)
	if err != nil {
		return "", nil, err
	}
	if err := s.take(ctx, key, rev); err != nil {
		return "", nil, errors.Join(err, s.end(ctx, made.Hash))
	}
	return token, made, nil
}

// Grant makes a session without a link, for tests of a whole installation.
func (s *Store) Grant(ctx context.Context) (string, *Session, error) {
	return s.GrantTo(ctx, s.person)
}

// GrantTo is Grant for another person.
func (s *Store) GrantTo(ctx context.Context, who hitl.Principal) (string, *Session, error) {
	return s.grant(ctx, Session{Person: who, Channel: "web", Via: ViaTest}, SessionTTL)
}

func (s *Store) grant(ctx context.Context, sess Session, ttl time.Duration) (string, *Session, error) {
	token := newToken()
	sess.V, sess.Assurance, sess.Hash = 1, "session", hash(token)
	sess.CreatedAt = s.now().UTC()
	sess.ExpiresAt = sess.CreatedAt.Add(ttl)
	if err := s.admit(ctx, &sess); err != nil {
		return "", nil, err
	}
	if err := s.create(ctx, sessionKey+sess.Hash, sess); err != nil {
		return "", nil, err
	}
	s.log.Info("signed in", "person", sess.Person.ID, "via", sess.Via, "until", sess.ExpiresAt)
	return token, &sess, nil
}

// HashOf names what a token is for without giving it away; empty if it is for nothing.
func HashOf(token string) string {
	secret, program := strings.CutPrefix(token, TokenPrefix)
	switch {
	case !wellFormed(secret):
		return ""
	case program:
		return tokenMark + hash(token)
	}
	return hash(token)
}

// Check returns the session of a token.
func (s *Store) Check(ctx context.Context, token string) (*Session, error) {
	if h := HashOf(token); h != "" {
		return s.CheckHash(ctx, h)
	}
	return nil, ErrUnknown
}

// CheckHash is Check for a session that was seen before.
func (s *Store) CheckHash(ctx context.Context, hash string) (*Session, error) {
	if h, ok := strings.CutPrefix(hash, tokenMark); ok {
		return s.checkToken(ctx, h)
	}
	var sess Session
	if _, err := s.read(ctx, sessionKey+hash, &sess); err != nil {
		return nil, err
	}
	if !sess.good(s.now()) {
		return nil, ErrUnknown
	}
	sess.Hash = hash
	if err := s.admit(ctx, &sess); err != nil {
		return nil, err
	}
	return &sess, nil
}

// OnRevoke has f called after sessions of a person were ended before their time; ended
// says which. It has to be set before the store serves anybody.
func (s *Store) OnRevoke(f func(ctx context.Context, person string, ended func(hash string) bool)) {
	s.onRevoke = f
}

// Revoke ends a session at once, on every gateway.
func (s *Store) Revoke(ctx context.Context, hash string) error {
	var sess Session
	if _, err := s.read(ctx, sessionKey+hash, &sess); err != nil && !errors.Is(err, ErrUnknown) {
		return err
	}
	if err := s.end(ctx, hash); err != nil {
		return err
	}
	if s.onRevoke != nil {
		s.onRevoke(ctx, sess.Person.ID, func(h string) bool { return h == hash })
	}
	return nil
}

func (s *Store) end(ctx context.Context, hash string) error {
	return unavailable(s.kv.Delete(ctx, sessionKey+hash))
}

// each calls fn with the keys of a kind until it fails, otherwise than by there being no
// such record.
func each(ctx context.Context, kv jetstream.KeyValue, kind string, fn func(key string) error) error {
	keys, err := kv.ListKeysFiltered(ctx, kind+"*")
	if err != nil {
		return unavailable(err)
	}
	for key := range keys.Keys() {
		if err := fn(key); err != nil && !errors.Is(err, ErrUnknown) {
			return errors.Join(err, keys.Stop())
		}
	}
	return nil
}

func (s *Store) create(ctx context.Context, key string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("auth: %w", err)
	}
	_, err = s.kv.Create(ctx, key, raw)
	return unavailable(err)
}

func (s *Store) read(ctx context.Context, key string, v any) (revision uint64, err error) {
	return s.readFrom(ctx, s.kv, key, v)
}

func (s *Store) readFrom(ctx context.Context, kv jetstream.KeyValue, key string, v any) (revision uint64, err error) {
	e, err := kv.Get(ctx, key)
	if err != nil {
		return 0, notFound(err)
	}
	if err := decode(e.Value(), v); err != nil {
		s.log.Error("a record cannot be used and counts for nothing", "bucket", kv.Bucket(), "key", key, "error", err)
		return 0, ErrUnknown
	}
	return e.Revision(), nil
}

// decode reads a record, which is one of this version or nothing.
func decode(raw []byte, v any) error {
	if err := hitl.CheckJSON(raw); err != nil {
		return err
	}
	var head struct {
		V int `json:"v"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return err
	}
	if head.V != 1 {
		return fmt.Errorf("v: unknown version %d, this build reads 1", head.V)
	}
	return json.Unmarshal(raw, v)
}

// notFound is ErrUnknown for the absence of a key, else ErrUnavailable.
func notFound(err error) error {
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return ErrUnknown
	}
	return unavailable(err)
}

// take deletes a key at its revision: one taker wins. Where the outcome stays
// unknown nobody gets what was behind it.
func (s *Store) take(ctx context.Context, key string, revision uint64) error {
	err := s.kv.Delete(ctx, key, jetstream.LastRevision(revision))
	if lost(err) {
		return ErrUnknown
	}
	return unavailable(err)
}

// lost reports whether a compare-and-swap found another revision.
func lost(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence
}

// exists reports whether a key that was to be new is there already.
func exists(err error) bool { return errors.Is(err, jetstream.ErrKeyExists) }

func unavailable(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

func newToken() string {
	var b [32]byte
	rand.Read(b[:]) // never fails since Go 1.24
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// wellFormed keeps what cannot be a token away from the bucket.
func wellFormed(token string) bool {
	raw, err := base64.RawURLEncoding.DecodeString(token)
	return err == nil && len(raw) == 32
}

func hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// LinkURL is the address that signs in with a link's token. The token stands in
// the fragment, which browsers send to no server.
func LinkURL(base *url.URL, token string) string {
	u := *base
	if u.Path == "" {
		u.Path = "/"
	}
	u.RawQuery, u.Fragment = "", "login="+token
	return u.String()
}
