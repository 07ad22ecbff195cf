package wire

import (
	"encoding/json"
	"time"
)

// Roles. Each is held for projects; an admin of a project may do there what the
// others may.
const (
	RoleViewer    = "viewer"    // sees that something waits, and no more
	RoleResponder = "responder" // answers questions and forms
	RoleApprover  = "approver"  // decides approvals
	RoleAdmin     = "admin"     // all of it; of all projects: people and tokens too
)

// AllProjects stands for every project in a Grant, and for what has none.
const AllProjects = "*"

// Grant is a role and the projects it is held for.
type Grant struct {
	Role     string   `json:"role"`
	Projects []string `json:"projects"` // ids, or AllProjects
	// Tenants are those that it holds in; absent: in all of them.
	Tenants []string `json:"tenants,omitempty"`
}

// User is somebody who may sign in.
type User struct {
	ID       string    `json:"id"`
	Name     string    `json:"name"`
	Roles    []Grant   `json:"roles"`
	Disabled bool      `json:"disabled,omitempty"`
	Source   string    `json:"source"` // invite, or oidc: roles come from the issuer
	Passkeys int       `json:"passkeys"`
	Created  time.Time `json:"created"`
	// CreatedBy is the id of the admin who made the invitation.
	CreatedBy string `json:"created_by,omitempty"`
}

// UserList are all users, by id.
type UserList struct {
	Users []User `json:"users"`
}

// NewUser invites somebody.
type NewUser struct {
	ID    string  `json:"id"`
	Name  string  `json:"name,omitempty"` // default the id
	Roles []Grant `json:"roles"`
}

// ChangeUser changes what it names. Whoever is changed has to sign in again.
type ChangeUser struct {
	Name     *string  `json:"name,omitempty"`
	Roles    *[]Grant `json:"roles,omitempty"`
	Disabled *bool    `json:"disabled,omitempty"`
	// ForgetPasskeys takes all passkeys away, of a device that was lost.
	ForgetPasskeys bool `json:"forget_passkeys,omitempty"`
}

// Invitation is a link by which a user registers a passkey, once.
type Invitation struct {
	User      User      `json:"user"`
	URL       string    `json:"url"`
	ExpiresAt time.Time `json:"expires_at"`
}

// APIToken is a token for a program, without its secret.
type APIToken struct {
	ID        string     `json:"id"`
	Name      string     `json:"name"`
	Roles     []Grant    `json:"roles"`
	Owner     string     `json:"owner,omitempty"` // whose requests it does not decide
	Created   time.Time  `json:"created"`
	CreatedBy string     `json:"created_by"`
	ExpiresAt time.Time  `json:"expires_at"`
	RevokedAt *time.Time `json:"revoked_at,omitempty"`
	LastUsed  *time.Time `json:"last_used,omitempty"` // exact to some minutes
}

// APITokenList are all tokens, newest first.
type APITokenList struct {
	Tokens []APIToken `json:"tokens"`
}

// NewAPIToken asks for a token.
type NewAPIToken struct {
	Name  string  `json:"name"`
	Roles []Grant `json:"roles"`
	// Owner names the asker that will use the token, if one will.
	Owner string `json:"owner,omitempty"`
	// ExpiresIn is in seconds.
	ExpiresIn int64 `json:"expires_in"`
}

// CreatedAPIToken is the reply to NewAPIToken. Token is told this once.
type CreatedAPIToken struct {
	APIToken
	Token string `json:"token"`
}

// SignInWays are how people can sign in here, beside the link of a terminal.
type SignInWays struct {
	Passkeys bool `json:"passkeys"`
	// OIDC is what the issuer is called; empty: there is none.
	OIDC string `json:"oidc,omitempty"`
}

// Ceremony is a sign-in, or the like, that has begun. Options are for the
// browser's credentials interface.
type Ceremony struct {
	Ceremony string `json:"ceremony"`
	Options  any    `json:"options,omitempty"`
	// URL is where the issuer's sign-in goes on.
	URL string `json:"url,omitempty"`
}

// CeremonyEnd is what the browser's credentials interface, or the issuer, gave.
type CeremonyEnd struct {
	Ceremony   string          `json:"ceremony,omitempty"`
	Credential json.RawMessage `json:"credential,omitempty"`
	// Invite is the token of an invitation link.
	Invite string `json:"invite,omitempty"`
	// State and Code came back from the issuer.
	State string `json:"state,omitempty"`
	Code  string `json:"code,omitempty"`
}

// SignIn is one way by which a person is signed in: a browser, a terminal.
type SignIn struct {
	ID        string     `json:"id"`
	Via       string     `json:"via"`            // link, cli, passkey, oidc or test
	Name      string     `json:"name,omitempty"` // of a terminal
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt time.Time  `json:"expires_at"`
	LastSeen  *time.Time `json:"last_seen,omitempty"`  // exact to some minutes
	From      string     `json:"from,omitempty"`       // address it was last used from, as the gateway saw it
	FirstFrom string     `json:"first_from,omitempty"` // and first
	Agent     string     `json:"agent,omitempty"`      // what the browser calls itself
	This      bool       `json:"this,omitempty"`       // it is the one that asks
}

// SignInList are the sign-ins of one person, the one used last first.
type SignInList struct {
	SignIns []SignIn `json:"sign_ins"`
}

// Audience is who may decide an interaction and who sees that it waits, by the
// roles that people have now. Whom alerts reach is not in it: the gateway does not
// know.
type Audience struct {
	Deciders []Person `json:"deciders"`
	More     int      `json:"more,omitempty"`     // deciders that are not named
	Viewers  int      `json:"viewers,omitempty"`  // see that something waits, not what
	Programs int      `json:"programs,omitempty"` // tokens that may decide
}

// Person is somebody in an Audience.
type Person struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	You  bool   `json:"you,omitempty"`
}
