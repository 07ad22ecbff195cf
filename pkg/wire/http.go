package wire

import (
	"time"

	"github.com/banksman/banksman/pkg/hitl"
)

// LinkToken is what a sign-in sends: the token of a one-use link.
type LinkToken struct {
	Token string `json:"token"`
}

// SessionToken is the reply to a good sign-in. The token stands for the person
// until it expires or is signed out.
type SessionToken struct {
	Token     string    `json:"token"`
	ExpiresAt time.Time `json:"expires_at"`
}

// Me is who a token stands for.
type Me struct {
	Principal hitl.Principal `json:"principal"`
	Channel   string         `json:"channel"` // of what is decided with it
	Assurance string         `json:"assurance"`
	Via       string         `json:"via"` // how the person signed in: link, cli, passkey, oidc, token or test
	ExpiresAt time.Time      `json:"expires_at"`
	Roles     []Grant        `json:"roles"`
	Passkey   bool           `json:"passkey"` // the person has one
	Manages   bool           `json:"manages"` // this session may manage people and tokens
}

// OK says that it was done.
type OK struct {
	OK bool `json:"ok"`
}

// CLIRequest is a terminal that wants to act for a person, and waits for a
// person who sees the same code there to say so.
type CLIRequest struct {
	Code        string    `json:"code"`
	Name        string    `json:"name"` // what the terminal calls itself
	RequestedAt time.Time `json:"requested_at"`
	ExpiresAt   time.Time `json:"expires_at"`
}

// CLIRequests are the terminals that wait, oldest first.
type CLIRequests struct {
	Requests []CLIRequest `json:"requests"`
}

// CLIAnswer is a person's word on a terminal.
type CLIAnswer struct {
	Allow *bool `json:"allow"` // absent is no answer
}

// SessionList is the state of all sessions at Cursor.
type SessionList struct {
	Cursor   string         `json:"cursor"`
	Sessions []ProcessState `json:"sessions"`
}

// Services tells who stands ready beside the gateway.
type Services struct {
	// Runtimes are what the reachable workers can start; empty: no worker.
	Runtimes []string `json:"runtimes"`
	// Notifier is listening where a notifier would hear of a request, silent
	// where none does, and unknown where that could not be found out.
	Notifier string `json:"notifier"`
	// Channels are those by which a notifier that listens tells people; absent where
	// it did not say.
	Channels []AlertChannel `json:"channels,omitempty"`
}

// SessionStarted names a session that was asked for, by its key.
type SessionStarted struct {
	SessionID string `json:"session_id"`
}

// MaxSeen is how many interactions one Seen names at most.
const MaxSeen = 50

// Seen says which interactions a person has before their eyes now, by ids or keys, at
// most MaxSeen: on a page that is visible and has the focus.
type Seen struct {
	Requests []string `json:"requests"`
}
