package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/role"
)

// TokenPrefix begins every token of a program, so that whoever finds one knows
// what it is.
const TokenPrefix = "banksman_"

// MaxTokenTTL is how long a token of a program may last.
const MaxTokenTTL = 366 * 24 * time.Hour

const (
	tokenKey = "token." // in the users' bucket
	usedKey  = "used."
	// tokenIDLength is how much of its hash names a token.
	tokenIDLength = 12
	// usedEvery is how exactly the last use of a token is noted.
	usedEvery = 5 * time.Minute
	maxTokens = 1000
	// tokenMark distinguishes the hash of a token from that of a session.
	tokenMark = "token:"
)

// ErrNoToken says that no token has an id.
var ErrNoToken = errors.New("no such token")

// apiToken is a program's token as stored, under its SHA-256.
type apiToken struct {
	V         int        `json:"v"`
	Name      string     `json:"name"`
	Roles     role.Set   `json:"roles"`
	Owner     string     `json:"owner,omitempty"`
	Created   time.Time  `json:"created"`
	CreatedBy string     `json:"created_by"`
	ExpiresAt time.Time  `json:"expires_at"`
	RevokedAt *time.Time `json:"revoked_at,omitempty"`
}

type tokenUse struct {
	V  int       `json:"v"`
	At time.Time `json:"at"`
}

func (t *apiToken) wire(hash string) wire.APIToken {
	return wire.APIToken{
		ID: hash[:tokenIDLength], Name: t.Name, Roles: t.Roles, Owner: t.Owner, Created: t.Created, CreatedBy: t.CreatedBy,
		ExpiresAt: t.ExpiresAt, RevokedAt: t.RevokedAt,
	}
}

// NewToken makes a token for a program. The secret is told this once.
func (s *Store) NewToken(ctx context.Context, in wire.NewAPIToken, by hitl.Principal) (*wire.CreatedAPIToken, error) {
	name := displayName(in.Name, "")
	if name == "" {
		return nil, hitl.Invalid("name", "is missing")
	}
	if inv := role.Set(in.Roles).Check("roles"); inv != nil {
		return nil, inv
	}
	if len(in.Owner) > hitl.MaxIdentifier {
		return nil, hitl.Invalid("owner", "is longer than %d", hitl.MaxIdentifier)
	}
	ttl := time.Duration(in.ExpiresIn) * time.Second
	if in.ExpiresIn <= 0 || in.ExpiresIn > int64(MaxTokenTTL/time.Second) {
		return nil, hitl.Invalid("expires_in", "must be 1 to %d seconds", int64(MaxTokenTTL/time.Second))
	}
	if list, err := s.Tokens(ctx); err != nil {
		return nil, err
	} else if len(list) >= maxTokens {
		return nil, hitl.Invalid("name", "is one token too many: %d are the limit", maxTokens)
	}
	secret := newToken()
	now := s.now().UTC()
	t := apiToken{
		V: 1, Name: name, Roles: in.Roles, Owner: in.Owner, Created: now, CreatedBy: by.ID, ExpiresAt: now.Add(ttl),
	}
	raw, err := json.Marshal(t)
	if err != nil {
		return nil, fmt.Errorf("auth: %w", err)
	}
	h := hash(TokenPrefix + secret)
	if _, err := s.users.Create(ctx, tokenKey+h, raw); err != nil {
		return nil, unavailable(err)
	}
	s.log.Info("token made", "token", h[:tokenIDLength], "name", name, "roles", t.Roles, "until", t.ExpiresAt, "by", by.ID)
	return &wire.CreatedAPIToken{APIToken: t.wire(h), Token: TokenPrefix + secret}, nil
}

// Tokens lists the tokens of programs, newest first.
func (s *Store) Tokens(ctx context.Context) ([]wire.APIToken, error) {
	list := []wire.APIToken{}
	err := s.eachToken(ctx, func(h string, t *apiToken, _ uint64) (bool, error) {
		out := t.wire(h)
		var use tokenUse
		if _, err := s.readFrom(ctx, s.users, usedKey+h, &use); err == nil {
			out.LastUsed = &use.At
		} else if !errors.Is(err, ErrUnknown) {
			return false, err
		}
		list = append(list, out)
		return true, nil
	})
	slices.SortFunc(list, func(a, b wire.APIToken) int { return b.Created.Compare(a.Created) })
	return list, err
}

// RevokeToken ends a token on every gateway. It stays listed.
func (s *Store) RevokeToken(ctx context.Context, id string, by hitl.Principal) error {
	err := ErrNoToken
	listErr := s.eachToken(ctx, func(h string, t *apiToken, rev uint64) (bool, error) {
		if len(id) != tokenIDLength || !strings.HasPrefix(h, id) {
			return true, nil
		}
		err = nil
		if t.RevokedAt != nil {
			return false, nil
		}
		now := s.now().UTC()
		t.RevokedAt = &now
		raw, e := json.Marshal(t)
		if e != nil {
			return false, fmt.Errorf("auth: %w", e)
		}
		// Nothing but a revocation changes a token.
		if _, e := s.users.Update(ctx, tokenKey+h, raw, rev); e != nil && !lost(e) {
			return false, unavailable(e)
		}
		s.log.Info("token revoked", "token", id, "name", t.Name, "by", by.ID)
		return false, nil
	})
	return errors.Join(listErr, err)
}

func (s *Store) eachToken(ctx context.Context, fn func(hash string, t *apiToken, rev uint64) (more bool, err error)) error {
	more := true
	return each(ctx, s.users, tokenKey, func(key string) error {
		if !more {
			return nil
		}
		var t apiToken
		rev, err := s.readFrom(ctx, s.users, key, &t)
		if err == nil {
			more, err = fn(strings.TrimPrefix(key, tokenKey), &t, rev)
		}
		return err
	})
}

// checkToken is the session of a program's token by its hash.
func (s *Store) checkToken(ctx context.Context, h string) (*Session, error) {
	var t apiToken
	if _, err := s.readFrom(ctx, s.users, tokenKey+h, &t); err != nil {
		return nil, err
	}
	if t.RevokedAt != nil || !s.now().Before(t.ExpiresAt) {
		return nil, ErrUnknown
	}
	s.used(ctx, h)
	return &Session{
		V: 1, Person: hitl.Principal{Kind: "service", ID: "token-" + h[:tokenIDLength], Name: t.Name},
		Channel: "http", Assurance: "session", Via: ViaToken, CreatedAt: t.Created, ExpiresAt: t.ExpiresAt,
		Rights: t.Roles, AskedFor: t.Owner, Hash: tokenMark + h,
	}, nil
}

// used notes that a token is in use, now and then. That it cannot be noted does
// not matter to whoever uses it.
func (s *Store) used(ctx context.Context, h string) {
	now := s.now().UTC()
	s.mu.Lock()
	due := now.Sub(s.lastUse[h]) >= usedEvery
	if due {
		s.lastUse[h] = now
	}
	s.mu.Unlock()
	if !due {
		return
	}
	raw, err := json.Marshal(tokenUse{V: 1, At: now})
	if err == nil {
		_, err = s.users.Put(ctx, usedKey+h, raw)
	}
	if err != nil {
		s.log.Warn("the use of a token was not noted", "token", h[:tokenIDLength], "error", err)
	}
}
