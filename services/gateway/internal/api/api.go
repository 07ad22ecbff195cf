// Package api is what a gateway's doors (HTTP, WebSocket, the service API) need
// of its core. The core is package engine.
package api

import (
	"context"
	"errors"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/cursor"
	"github.com/banksman/banksman/services/gateway/internal/role"
)

// Engine is the core. All methods are safe for concurrent use.
type Engine interface {
	// Ready is closed once the open set is loaded.
	Ready() <-chan struct{}
	// Healthy reports why the engine cannot be trusted to take decisions now.
	Healthy() error
	// Watch calls fn for every update from a consistent point on, in order; fn
	// must not block and must not call the engine. If cursor is still good,
	// recovered is true and missed holds the frames since then; otherwise
	// snapshot holds the whole state at that point.
	Watch(cursor string, fn func(Update)) Watch
	// Reach waits until this gateway has come to a cursor that a client brings
	// from another one, which may have been ahead, or until ctx ends. It does
	// not wait for a cursor that is of no streams here.
	Reach(ctx context.Context, cursor string)
	// Sessions is the state of all sessions now, Session that of one by its
	// key; false where nothing is known of it any more.
	Sessions() []wire.ProcessState
	Session(key string) (wire.ProcessState, bool)
	// Transcript reads the stored events of a session that are after from and
	// not after upto (both cursors; from may be empty for the beginning). reset
	// is true where from could not be honoured, also because it is ahead of this
	// gateway, and the whole is returned.
	Transcript(ctx context.Context, session string, from, upto string) (events []wire.Event, reset bool, err error)
	// Cursor is the position of the newest update.
	Cursor() string
	// Interaction finds one by its id or key, open or decided.
	Interaction(ctx context.Context, id string) (*wire.Interaction, error)
	// List lists what is pending (oldest first) or closed (newest first), as it
	// was when it was called, whatever gateway decided. more: there are others behind
	// the last.
	List(ctx context.Context, q List) (list []wire.Interaction, more bool, err error)
	// Waiting finds one that waits by its id or key, in memory.
	Waiting(id string) (wire.Summary, bool)
	// Decide is the one way to decide.
	Decide(ctx context.Context, a Attempt) wire.Receipt
	// Asked reads a request as it was asked, by its id or key, open or decided.
	Asked(ctx context.Context, id string) (*Asked, error)
	// Start asks a worker to run a new session and returns its key.
	Start(ctx context.Context, s *hitl.Start) (sessionKey string, err error)
	// Command sends a command to a session's worker, named by id or key.
	Command(ctx context.Context, session string, c hitl.Command) (hitl.CommandReply, error)
	// Runtimes are what the workers that beat can run, sorted.
	Runtimes() []string
	// ResolveSession turns a session id or key into the key.
	ResolveSession(idOrKey string) (string, error)
}

// List is what is asked of Engine's List. It is cut after it was filtered: what one
// asker has waiting hides nothing of another's.
type List struct {
	State string // pending or closed
	Limit int
	// After is the last row that the asker has, zero for the first page.
	After cursor.Row
	// Tenant, a token, is the only one that is listed; empty: all.
	Tenant string
	// Sees says which of these; nil: all. It must not change what it gets.
	Sees func(*wire.Summary) bool
}

// Asker asks in the name of a principal; see package ask.
type Asker interface {
	Ask(ctx context.Context, tenant string, by hitl.Principal, raw []byte, wait time.Duration) (*wire.AskReply, *wire.Error)
}

// Owner is the owner of what a principal asks through a gateway. It is no token
// of the grammar, so its subjects have a hash of it, and no credential of an
// owner can be made for that.
func Owner(p hitl.Principal) string { return p.Kind + ":" + p.ID }

// Errors of the engine.
var (
	ErrNotFound  = errors.New("not found")
	ErrAmbiguous = errors.New("more than one has this id: use its key")
	ErrNoWorker  = errors.New("no agent worker is connected")
)

// Attempt is one attempt to decide, by whoever.
type Attempt struct {
	hitl.Response
	Principal hitl.Principal
	// Rights are what the principal may decide; none: nothing.
	Rights    role.Set
	Channel   string // web, cli, http, service ...
	Assurance string // session, link ...
	// From is the network address it came from, as the gateway sees it.
	From string
	// AskedFor is the owner as whom the principal asks, if it asks at all.
	AskedFor string
	// Presence is asked where a person must be there: whether that person has
	// a passkey, and when it was last used. Without it nobody is.
	Presence func(context.Context) (hasPasskey bool, at time.Time, err error)
	// WaiveDigest is for doors whose protocol has no digest; what is decided is
	// then what is stored.
	WaiveDigest bool
	// Rule is the id of the rule that makes the attempt, or ids joined by commas.
	Rule string
	// Kind, where set, must be the interaction's kind, else it is not found:
	// for doors that serve one kind.
	Kind string
}

// Asked is a stored request.
type Asked struct {
	Ref         subject.Ref
	Request     *hitl.Request
	Digest      string
	Policy      hitl.Policy
	RequestedAt time.Time
	Size        int  // in bytes
	Decided     bool // it has its decision
}

// Rules are what decides in advance, see package rulebook.
type Rules interface {
	// Claim takes the rule that is about a request; nil where people decide. An error
	// means that the rules cannot be known now.
	Claim(ctx context.Context, a *Asked) (*Claim, error)
}

// Claim is the use of a rule. Whoever does not use it gives it back.
type Claim struct {
	Attempt
	Return func(context.Context)
}

// Update is one step of the projection. The frames are encoded once for all.
type Update struct {
	Cursor     string
	SessionKey string
	// All is a frame for every client: process_state or delivery. May be nil.
	All []byte
	// Whole says that All is the whole state of the session and ends nothing: a
	// newer one of the same session stands for it too.
	Whole bool
	// Events are for clients that subscribed to the session. Stored says that
	// they are in its transcript, at Cursor; otherwise they are live deltas.
	Events []wire.Event
	Stored bool
}

// Watch is a registered watcher.
type Watch struct {
	Cursor    string
	Recovered bool
	Missed    [][]byte
	Snapshot  []wire.ProcessState
	// Stop ends the calls; after it returns fn is not running.
	Stop func()
}

// After reports whether the stored update u is not yet covered by the cursor at.
func (u Update) After(at string) bool { return cursor.After(u.Cursor, at) }
