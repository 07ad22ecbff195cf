package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/issuer"
	"github.com/banksman/banksman/services/gateway/internal/role"
)

// OwnerID is the person who signs in by a link of this installation. Nobody can
// change or disable it: it has every right.
const OwnerID = "owner"

// SourceInvite and SourceOIDC say who answers for a user.
const (
	SourceInvite = "invite"
	SourceOIDC   = "oidc"
)

// maxUsers bounds what one list reads.
const maxUsers = 10_000

// Errors of the users.
var (
	ErrTaken  = errors.New("is taken already")
	ErrNoUser = errors.New("no such user")
)

// userID keeps ids short and away from the ids of users that an issuer names.
var userID = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

const userKey = "user."

// user is a person as stored. That of the owner has passkeys only.
type user struct {
	V        int      `json:"v"`
	ID       string   `json:"id"`
	Name     string   `json:"name"`
	Roles    role.Set `json:"roles,omitempty"`
	Disabled bool     `json:"disabled,omitempty"`
	Source   string   `json:"source"`
	Subject  string   `json:"subject,omitempty"` // at the issuer
	// VouchedAt is when the issuer last said who this is and what roles that means.
	VouchedAt time.Time `json:"vouched_at,omitzero"`
	Passkeys  []passkey `json:"passkeys,omitempty"`
	Created   time.Time `json:"created"`
	CreatedBy string    `json:"created_by,omitempty"`
}

func (u *user) wire() wire.User {
	return wire.User{
		ID: u.ID, Name: u.Name, Roles: u.Roles, Disabled: u.Disabled, Source: u.Source, Passkeys: len(u.Passkeys),
		Created: u.Created, CreatedBy: u.CreatedBy,
	}
}

// Users lists everybody who was invited or signed in through an issuer, by id.
func (s *Store) Users(ctx context.Context) ([]wire.User, error) {
	list := []wire.User{}
	err := each(ctx, s.users, userKey, func(key string) error {
		var u user
		_, err := s.readFrom(ctx, s.users, key, &u)
		if err == nil && u.ID != OwnerID && len(list) < maxUsers {
			list = append(list, u.wire())
		}
		return err
	})
	slices.SortFunc(list, func(a, b wire.User) int { return strings.Compare(a.ID, b.ID) })
	return list, err
}

// AddUser makes a user who cannot sign in yet: Invite gives the link. The error
// is an *hitl.InvalidError where the input is wrong.
func (s *Store) AddUser(ctx context.Context, in wire.NewUser, by hitl.Principal) (wire.User, error) {
	name := displayName(in.Name, in.ID)
	if inv := role.Set(in.Roles).Check("roles"); inv != nil {
		return wire.User{}, inv
	}
	if !userID.MatchString(in.ID) || in.ID == OwnerID || strings.HasPrefix(in.ID, issuer.IDPrefix) {
		return wire.User{}, hitl.Invalid("id", "must be 1 to 64 of a-z 0-9 _ -, and neither %s nor begin with %s", OwnerID, issuer.IDPrefix)
	}
	u := user{
		V: 1, ID: in.ID, Name: name, Roles: in.Roles, Source: SourceInvite, Created: s.now().UTC(), CreatedBy: by.ID,
	}
	raw, err := json.Marshal(u)
	if err != nil {
		return wire.User{}, fmt.Errorf("auth: %w", err)
	}
	if _, err := s.users.Create(ctx, userKey+u.ID, raw); lost(err) || exists(err) {
		return wire.User{}, ErrTaken
	} else if err != nil {
		return wire.User{}, unavailable(err)
	}
	s.log.Info("user added", "user", u.ID, "roles", u.Roles, "by", by.ID)
	return u.wire(), nil
}

// ChangeUser changes a user and ends the user's sessions.
func (s *Store) ChangeUser(ctx context.Context, id string, in wire.ChangeUser, by hitl.Principal) (wire.User, error) {
	if in.Roles != nil {
		if inv := role.Set(*in.Roles).Check("roles"); inv != nil {
			return wire.User{}, inv
		}
	}
	if id == OwnerID {
		return wire.User{}, hitl.Invalid("id", "%s cannot be changed", OwnerID)
	}
	u, err := s.changeUser(ctx, id, func(u *user) error {
		if in.Roles != nil && u.Source == SourceOIDC {
			return hitl.Invalid("roles", "of this user come from the issuer")
		}
		if in.Name != nil {
			u.Name = displayName(*in.Name, u.ID)
		}
		if in.Roles != nil {
			u.Roles = *in.Roles
		}
		if in.Disabled != nil {
			u.Disabled = *in.Disabled
		}
		if in.ForgetPasskeys {
			u.Passkeys = nil
		}
		return nil
	})
	if err != nil {
		return wire.User{}, err
	}
	s.log.Info("user changed", "user", id, "roles", u.Roles, "disabled", u.Disabled, "by", by.ID)
	return u.wire(), s.RevokeAll(ctx, id, "")
}

// user reads a user; ErrNoUser if there is none.
func (s *Store) user(ctx context.Context, id string) (*user, uint64, error) {
	if !userID.MatchString(id) {
		return nil, 0, ErrNoUser
	}
	var u user
	rev, err := s.readFrom(ctx, s.users, userKey+id, &u)
	if errors.Is(err, ErrUnknown) {
		return nil, 0, ErrNoUser
	}
	return &u, rev, err
}

// casTries bounds how often a change is made anew because somebody else was
// faster.
const casTries = 10

// changeUser changes a stored user by compare-and-swap.
func (s *Store) changeUser(ctx context.Context, id string, change func(*user) error) (*user, error) {
	for range casTries {
		u, rev, err := s.user(ctx, id)
		if err != nil {
			return nil, err
		}
		if err := change(u); err != nil {
			return nil, err
		}
		raw, err := json.Marshal(u)
		if err != nil {
			return nil, fmt.Errorf("auth: %w", err)
		}
		_, err = s.users.Update(ctx, userKey+id, raw, rev)
		if err == nil {
			return u, nil
		}
		if !lost(err) {
			return nil, unavailable(err)
		}
	}
	return nil, fmt.Errorf("%w: the user is being changed by others", ErrUnavailable)
}

// RevokeAll ends every session of a person, but that of a hash if one is given, and
// what would still become one.
func (s *Store) RevokeAll(ctx context.Context, person, except string) error {
	err := s.endWaiting(ctx, person)
	var list []Session
	if err == nil {
		list, err = s.Sessions(ctx, person)
	}
	for _, sess := range list {
		if err == nil && sess.Hash != except {
			err = s.end(ctx, sess.Hash)
		}
	}
	if s.onRevoke != nil && err == nil {
		s.onRevoke(ctx, person, func(h string) bool { return h != except })
	}
	return err
}

// endWaiting ends what a person may yet be signed in by without another word: links,
// and terminals that were confirmed and did not come back.
func (s *Store) endWaiting(ctx context.Context, person string) error {
	end := func(key string) error {
		var rec struct {
			Person hitl.Principal `json:"person"` // of a link
			By     hitl.Principal `json:"by"`     // of a terminal
		}
		_, err := s.read(ctx, key, &rec)
		if err == nil && (rec.Person.ID == person || rec.By.ID == person) {
			// At any revision: redeem may have marked it meanwhile.
			err = unavailable(s.kv.Delete(ctx, key))
		}
		return err
	}
	if err := each(ctx, s.kv, linkKey, end); err != nil {
		return err
	}
	return each(ctx, s.kv, cliKey, end)
}

// Sessions are those of a person, in no order.
func (s *Store) Sessions(ctx context.Context, person string) (list []Session, err error) {
	err = each(ctx, s.kv, sessionKey, func(key string) error {
		sess := Session{Hash: strings.TrimPrefix(key, sessionKey)}
		_, err := s.read(ctx, key, &sess)
		if err == nil && sess.Person.ID == person && sess.good(s.now()) {
			list = append(list, sess)
		}
		return err
	})
	return list, err
}

// admit gives a session what its person may do now. ErrUnknown: the person may
// not sign in any more.
func (s *Store) admit(ctx context.Context, sess *Session) error {
	if sess.Person.ID == OwnerID {
		sess.Rights = role.Everything()
		if s.passkeys == nil {
			return nil
		}
	}
	u, _, err := s.user(ctx, sess.Person.ID)
	switch {
	case errors.Is(err, ErrNoUser) && sess.Person.ID == OwnerID:
		return nil
	case errors.Is(err, ErrNoUser):
		return ErrUnknown
	case err != nil:
		return err
	case u.Disabled:
		return ErrUnknown
	case u.Source == SourceOIDC:
		// What the issuer said holds for a time, whatever one signed in by since.
		until := u.VouchedAt.Add(OIDCSession)
		if !s.now().Before(until) {
			return ErrUnknown
		}
		if until.Before(sess.ExpiresAt) {
			sess.ExpiresAt = until
		}
		sess.Vouched = true
	}
	if u.ID != OwnerID {
		sess.Rights, sess.Person.Name = u.Roles, u.Name
	}
	sess.HasPasskey = len(u.Passkeys) > 0
	return nil
}

// Standing are the rights of a person for what was made with them and works on while
// nobody is signed in, which is rules: with them an issuer's word holds until its next.
func (s *Store) Standing(ctx context.Context, id string) (role.Set, error) {
	u, _, err := s.user(ctx, id)
	switch {
	case id == OwnerID:
		return role.Everything(), nil
	case errors.Is(err, ErrNoUser):
		return nil, nil
	case err != nil || u.Disabled:
		return nil, err
	}
	return u.Roles, nil
}

// Who is a person, with what that person may do now: nothing where the person may
// not sign in, or the issuer has not vouched for the person of late.
func (s *Store) Who(ctx context.Context, id string) (who hitl.Principal, may role.Set, err error) {
	sess := Session{Person: hitl.Principal{Kind: "person", ID: id}}
	if id == OwnerID {
		sess.Person = s.person
	}
	if err = s.admit(ctx, &sess); errors.Is(err, ErrUnknown) {
		return sess.Person, nil, nil
	}
	return sess.Person, sess.Rights, err
}

// maxName is the longest name of somebody, or of a terminal, in runes.
const maxName = 80

// displayName is a name fit for people, or id.
func displayName(name, id string) string {
	name, _ = hitl.Visible(strings.Join(strings.Fields(name), " "))
	if r := []rune(name); len(r) > maxName {
		name = string(r[:maxName-1]) + "…"
	}
	if name == "" {
		return id
	}
	return name
}
