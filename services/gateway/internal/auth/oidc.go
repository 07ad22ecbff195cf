package auth

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/services/gateway/internal/issuer"
)

// OIDCSession is how long a sign-in through an issuer lasts, and how long its word for
// somebody holds for all else that is done in that person's name: what changes there is
// known here after that at the latest.
const OIDCSession = 12 * time.Hour

// SignInPage is where an issuer sends people back to, below the base URL.
const SignInPage = "/signin.html"

// ErrNoIssuer says that nobody signs in through an issuer here.
var ErrNoIssuer = errors.New("no issuer is configured")

// IssuerName is what the issuer is called; empty: there is none.
func (s *Store) IssuerName() string {
	if s.issuer == nil {
		return ""
	}
	return s.issuer.Name
}

// BeginOIDC begins a sign-in through the issuer. The browser keeps the ceremony
// and goes to the address: whoever comes back with another browser is not let in.
func (s *Store) BeginOIDC(ctx context.Context) (ceremony, address string, err error) {
	if s.issuer == nil {
		return "", "", ErrNoIssuer
	}
	a, address, err := s.issuer.Ask(ctx, newToken(), newToken())
	if err != nil {
		return "", "", err
	}
	if ceremony, err = s.seal(ctx, sealOIDC, a); err != nil {
		return "", "", err
	}
	return ceremony, address, nil
}

// FinishOIDC signs in whom the issuer vouches for.
func (s *Store) FinishOIDC(ctx context.Context, ceremony, state, code string) (string, *Session, error) {
	if s.issuer == nil {
		return "", nil, ErrNoIssuer
	}
	var a issuer.Question
	spend, err := s.open(ctx, sealOIDC, ceremony, &a)
	if err != nil {
		return "", nil, err
	}
	if code == "" || subtle.ConstantTimeCompare([]byte(state), []byte(a.State)) != 1 {
		return "", nil, ErrUnknown
	}
	if err := spend(); err != nil {
		return "", nil, err
	}
	who, err := s.issuer.Redeem(ctx, code, a)
	if err != nil {
		return "", nil, err
	}
	name := displayName(who.Name, who.ID)
	u := &user{V: 1, ID: who.ID, Name: name, Source: SourceOIDC, Subject: who.Subject, Roles: who.Roles}
	if err := s.keepClaimed(ctx, u); err != nil {
		return "", nil, err
	}
	return s.grant(ctx, Session{
		Person: hitl.Principal{Kind: "person", ID: u.ID, Name: u.Name}, Channel: "web", Via: ViaOIDC,
	}, OIDCSession)
}

// keepClaimed stores what the issuer says of a user now. Where the roles are
// others than before, whoever is signed in with the old ones is signed out.
func (s *Store) keepClaimed(ctx context.Context, who *user) error {
	who.Created = s.now().UTC()
	who.VouchedAt = who.Created
	raw, err := json.Marshal(who)
	if err != nil {
		return fmt.Errorf("auth: %w", err)
	}
	if _, err = s.users.Create(ctx, userKey+who.ID, raw); err == nil || !exists(err) {
		return unavailable(err)
	}
	changed := false
	_, err = s.changeUser(ctx, who.ID, func(u *user) error {
		if u.Disabled {
			return ErrUnknown
		}
		changed = !u.Roles.Same(who.Roles)
		u.Name, u.Roles, u.VouchedAt = who.Name, who.Roles, who.VouchedAt
		return nil
	})
	if err == nil && changed {
		err = s.RevokeAll(ctx, who.ID, "")
	}
	return err
}
