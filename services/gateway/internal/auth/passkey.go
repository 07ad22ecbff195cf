package auth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
)

// InviteTTL is how long an invitation waits.
const InviteTTL = 24 * time.Hour

const (
	inviteKey  = "invite."  // in the sessions' bucket
	passkeyKey = "passkey." // in the users' bucket: whose a credential is
	// maxPasskeys is how many one person has.
	maxPasskeys = 10
)

// Errors of passkeys.
var (
	ErrNoPasskeys = errors.New("passkeys need a base URL with https and a name, or localhost")
	ErrCredential = errors.New("the passkey does not fit")
)

// The kinds of what is sealed.
const (
	sealRegister = "register"
	sealLogin    = "login"
	sealProof    = "proof"
	sealOIDC     = "oidc"
)

// passkey is a credential of a person.
type passkey struct {
	webauthn.Credential
	Created time.Time `json:"created"`
}

type invite struct {
	V       int       `json:"v"`
	User    string    `json:"user"`
	Expires time.Time `json:"expires"`
}

// passkeyOf is the part of the bucket that leads from a credential to a person.
type passkeyOf struct {
	V    int    `json:"v"`
	User string `json:"user"`
}

// holder is a user as the checker of passkeys knows one.
type holder struct{ *user }

// WebAuthnID is a handle that tells nobody who it is.
func (h holder) WebAuthnID() []byte {
	sum := sha256.Sum256([]byte("banksman user\n" + h.ID))
	return sum[:]
}
func (h holder) WebAuthnName() string        { return h.ID }
func (h holder) WebAuthnDisplayName() string { return displayName(h.Name, h.ID) }
func (h holder) WebAuthnCredentials() []webauthn.Credential {
	list := make([]webauthn.Credential, 0, len(h.Passkeys))
	for _, p := range h.Passkeys {
		list = append(list, p.Credential)
	}
	return list
}

// HasPasskeys reports whether people can sign in with passkeys here.
func (s *Store) HasPasskeys() bool { return s.passkeys != nil }

// Invite makes a link token by which a user registers a passkey, once.
func (s *Store) Invite(ctx context.Context, id string, by hitl.Principal) (token string, expires time.Time, u wire.User, err error) {
	if s.passkeys == nil {
		return "", expires, u, hitl.Invalid("base_url", "%v", ErrNoPasskeys)
	}
	who, _, err := s.user(ctx, id)
	switch {
	case err != nil:
		return "", expires, u, err
	case who.Disabled:
		return "", expires, u, hitl.Invalid("id", "is disabled")
	case who.Source == SourceOIDC:
		return "", expires, u, hitl.Invalid("id", "signs in through the issuer")
	}
	token, expires = newToken(), s.now().Add(InviteTTL).UTC()
	if err := s.create(ctx, inviteKey+hash(token), invite{V: 1, User: id, Expires: expires}); err != nil {
		return "", expires, u, err
	}
	s.log.Info("invitation made", "user", id, "by", by.ID)
	return token, expires, who.wire(), nil
}

// invited is the user of an unused invitation, and what uses it up.
func (s *Store) invited(ctx context.Context, token string) (*user, func() error, error) {
	if !wellFormed(token) {
		return nil, nil, ErrUnknown
	}
	key := inviteKey + hash(token)
	var in invite
	rev, err := s.read(ctx, key, &in)
	if err != nil {
		return nil, nil, err
	}
	u, _, err := s.user(ctx, in.User)
	if errors.Is(err, ErrNoUser) || err == nil && (u.Disabled || !s.now().Before(in.Expires)) {
		return nil, nil, ErrUnknown
	}
	return u, func() error { return s.take(ctx, key, rev) }, err
}

type registration struct {
	User    string               `json:"user"`
	Session webauthn.SessionData `json:"session"`
}

// self is the record of a person who is signed in. The owner gets one with the
// first passkey.
func (s *Store) self(ctx context.Context, sess *Session) (*user, error) {
	u, _, err := s.user(ctx, sess.Person.ID)
	if errors.Is(err, ErrNoUser) && sess.Person.ID == OwnerID {
		return &user{V: 1, ID: OwnerID, Name: sess.Person.Name, Source: SourceInvite, Created: s.now().UTC()}, nil
	}
	return u, err
}

// BeginPasskey begins to register a passkey: of whoever holds an invitation, or
// of whoever is signed in. A terminal or a program has none.
func (s *Store) BeginPasskey(ctx context.Context, token string, sess *Session) (ceremony string, options any, err error) {
	u, _, err := s.registrant(ctx, token, sess)
	if err != nil {
		return "", nil, err
	}
	if len(u.Passkeys) >= maxPasskeys {
		return "", nil, hitl.Invalid("passkey", "is one too many: %d are the limit", maxPasskeys)
	}
	creation, data, err := s.passkeys.BeginRegistration(holder{u},
		webauthn.WithExclusions(webauthn.Credentials(holder{u}.WebAuthnCredentials()).CredentialDescriptors()))
	if err != nil {
		return "", nil, fmt.Errorf("auth: passkey: %w", err)
	}
	ceremony, err = s.seal(ctx, sealRegister, registration{User: u.ID, Session: *data})
	return ceremony, creation, err
}

// registrant is who registers a passkey, and what that uses up.
func (s *Store) registrant(ctx context.Context, token string, sess *Session) (*user, func() error, error) {
	switch {
	case s.passkeys == nil:
		return nil, nil, hitl.Invalid("base_url", "%v", ErrNoPasskeys)
	case token != "":
		return s.invited(ctx, token)
	case sess == nil || sess.Person.Kind != "person" || sess.Via == ViaCLI:
		return nil, nil, ErrUnknown
	}
	// Whoever only has the session must not be able to prove a presence from
	// then on: who has a passkey uses it to get another one.
	if sess.HasPasskey && s.now().Sub(sess.ProvedAt) >= ceremonyTTL {
		return nil, nil, hitl.Invalid("passkey", "is there already: use it first, then add another one")
	}
	u, err := s.self(ctx, sess)
	return u, func() error { return nil }, err
}

// FinishPasskey stores a passkey. With an invitation, which is used up, it signs
// its holder in.
func (s *Store) FinishPasskey(ctx context.Context, ceremony, token string, sess *Session, credential []byte) (string, *Session, error) {
	u, use, err := s.registrant(ctx, token, sess)
	if err != nil {
		return "", nil, err
	}
	var reg registration
	spend, err := s.open(ctx, sealRegister, ceremony, &reg)
	if err != nil {
		return "", nil, err
	}
	if reg.User != u.ID {
		return "", nil, ErrUnknown
	}
	parsed, err := protocol.ParseCredentialCreationResponseBytes(credential)
	if err != nil {
		return "", nil, fmt.Errorf("%w: %w", ErrCredential, err)
	}
	made, err := s.passkeys.CreateCredential(holder{u}, reg.Session, parsed)
	if err != nil {
		return "", nil, fmt.Errorf("%w: %w", ErrCredential, err)
	}
	made.Attestation = webauthn.CredentialAttestation{} // none was asked for
	if err := spend(); err != nil {
		return "", nil, err
	}
	if err := use(); err != nil {
		return "", nil, err
	}
	if err := s.keepPasskey(ctx, u, passkey{Credential: *made, Created: s.now().UTC()}); err != nil {
		return "", nil, err
	}
	s.log.Info("passkey registered", "user", u.ID, "invited", token != "")
	if token == "" {
		return "", nil, s.proved(ctx, sess.Hash)
	}
	return s.grant(ctx, Session{
		Person: hitl.Principal{Kind: "person", ID: u.ID, Name: u.Name}, Channel: "web", Via: ViaPasskey, ProvedAt: s.now().UTC(),
	}, SessionTTL)
}

func credentialKey(id []byte) string {
	sum := sha256.Sum256(id)
	return passkeyKey + hex.EncodeToString(sum[:])
}

func (s *Store) keepPasskey(ctx context.Context, u *user, p passkey) error {
	raw, err := json.Marshal(passkeyOf{V: 1, User: u.ID})
	if err != nil {
		return fmt.Errorf("auth: %w", err)
	}
	if _, err := s.users.Create(ctx, credentialKey(p.ID), raw); exists(err) {
		return fmt.Errorf("%w: it is somebody's already", ErrCredential)
	} else if err != nil {
		return unavailable(err)
	}
	if u.ID == OwnerID {
		// The owner's record begins with the first passkey.
		raw, err := json.Marshal(user{V: 1, ID: u.ID, Name: u.Name, Source: u.Source, Created: u.Created})
		if err != nil {
			return fmt.Errorf("auth: %w", err)
		}
		if _, err := s.users.Create(ctx, userKey+u.ID, raw); err != nil && !exists(err) {
			return unavailable(err)
		}
	}
	_, err = s.changeUser(ctx, u.ID, func(u *user) error {
		if u.Disabled || len(u.Passkeys) >= maxPasskeys {
			return ErrUnknown
		}
		u.Passkeys = append(u.Passkeys, p)
		return nil
	})
	return err
}

// BeginLogin begins a sign-in with a passkey, by whoever has one.
func (s *Store) BeginLogin(ctx context.Context) (ceremony string, options any, err error) {
	if s.passkeys == nil {
		return "", nil, hitl.Invalid("base_url", "%v", ErrNoPasskeys)
	}
	assertion, data, err := s.passkeys.BeginDiscoverableLogin(webauthn.WithUserVerification(protocol.VerificationRequired))
	if err != nil {
		return "", nil, fmt.Errorf("auth: passkey: %w", err)
	}
	ceremony, err = s.seal(ctx, sealLogin, data)
	return ceremony, assertion, err
}

// FinishLogin signs in whoever used the passkey.
func (s *Store) FinishLogin(ctx context.Context, ceremony string, credential []byte) (string, *Session, error) {
	var data webauthn.SessionData
	spend, err := s.open(ctx, sealLogin, ceremony, &data)
	if err != nil {
		return "", nil, err
	}
	u, err := s.asserted(ctx, data, credential, "")
	if err != nil {
		return "", nil, err
	}
	if err := spend(); err != nil {
		return "", nil, err
	}
	return s.grant(ctx, Session{
		Person: hitl.Principal{Kind: "person", ID: u.ID, Name: u.Name}, Channel: "web", Via: ViaPasskey, ProvedAt: s.now().UTC(),
	}, SessionTTL)
}

type proof struct {
	Hash    string               `json:"hash"`
	Session webauthn.SessionData `json:"session"`
}

// BeginProof begins to prove that the person of a session is there.
func (s *Store) BeginProof(ctx context.Context, sess *Session) (ceremony string, options any, err error) {
	if s.passkeys == nil || !sess.HasPasskey {
		return "", nil, hitl.Invalid("passkey", "is none registered here for you")
	}
	u, _, err := s.user(ctx, sess.Person.ID)
	if err != nil {
		return "", nil, err
	}
	assertion, data, err := s.passkeys.BeginLogin(holder{u}, webauthn.WithUserVerification(protocol.VerificationRequired))
	if err != nil {
		return "", nil, fmt.Errorf("auth: passkey: %w", err)
	}
	ceremony, err = s.seal(ctx, sealProof, proof{Hash: sess.Hash, Session: *data})
	return ceremony, assertion, err
}

// FinishProof notes in the session that its person was there now.
func (s *Store) FinishProof(ctx context.Context, sess *Session, ceremony string, credential []byte) error {
	if s.passkeys == nil {
		return hitl.Invalid("base_url", "%v", ErrNoPasskeys)
	}
	var in proof
	spend, err := s.open(ctx, sealProof, ceremony, &in)
	if err != nil {
		return err
	}
	if in.Hash != sess.Hash {
		return ErrUnknown
	}
	if _, err := s.asserted(ctx, in.Session, credential, sess.Person.ID); err != nil {
		return err
	}
	if err := spend(); err != nil {
		return err
	}
	return s.proved(ctx, sess.Hash)
}

// asserted checks the use of a passkey and says whose it is; who, where given,
// is the only one it may be.
func (s *Store) asserted(ctx context.Context, data webauthn.SessionData, credential []byte, who string) (*user, error) {
	parsed, err := protocol.ParseCredentialRequestResponseBytes(credential)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCredential, err)
	}
	var of passkeyOf
	if _, err := s.readFrom(ctx, s.users, credentialKey(parsed.RawID), &of); errors.Is(err, ErrUnknown) {
		return nil, fmt.Errorf("%w: it is not known here", ErrCredential)
	} else if err != nil {
		return nil, err
	}
	u, _, err := s.user(ctx, of.User)
	switch {
	case errors.Is(err, ErrNoUser) || err == nil && (u.Disabled || who != "" && u.ID != who):
		return nil, fmt.Errorf("%w: it is not known here", ErrCredential)
	case err != nil:
		return nil, err
	}
	var used *webauthn.Credential
	if who != "" {
		used, err = s.passkeys.ValidateLogin(holder{u}, data, parsed)
	} else {
		used, err = s.passkeys.ValidateDiscoverableLogin(func(_, _ []byte) (webauthn.User, error) { return holder{u}, nil }, data, parsed)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCredential, err)
	}
	if used.Authenticator.CloneWarning {
		s.log.Warn("a passkey counts backwards: it may have been copied", "user", u.ID)
		return nil, fmt.Errorf("%w: it may have been copied", ErrCredential)
	}
	_, err = s.changeUser(ctx, u.ID, func(u *user) error {
		for i := range u.Passkeys {
			if string(u.Passkeys[i].ID) == string(used.ID) {
				u.Passkeys[i].Authenticator, u.Passkeys[i].Flags = used.Authenticator, used.Flags
				return nil
			}
		}
		return fmt.Errorf("%w: it was taken away", ErrCredential)
	})
	return u, err
}

// proved notes the use of a passkey in a session.
func (s *Store) proved(ctx context.Context, h string) error {
	for range casTries {
		var sess Session
		rev, err := s.read(ctx, sessionKey+h, &sess)
		if err != nil {
			return err
		}
		sess.ProvedAt, sess.Again = s.now().UTC(), true
		raw, err := json.Marshal(sess)
		if err != nil {
			return fmt.Errorf("auth: %w", err)
		}
		if _, err = s.kv.Update(ctx, sessionKey+h, raw, rev); err == nil {
			return nil
		} else if !lost(err) {
			return unavailable(err)
		}
	}
	return fmt.Errorf("%w: the session is being changed by others", ErrUnavailable)
}
