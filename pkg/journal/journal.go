package journal

import (
	"context"
	"errors"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/trace"
)

// Stream names.
const (
	Requests    = "HITL_REQUESTS"
	Mailbox     = "HITL_MAILBOX" // what owners leave while no gateway is there
	Decisions   = "HITL_DECISIONS"
	Events      = "HITL_EVENTS"
	Transcripts = "HITL_TRANSCRIPTS"
	Work        = "HITL_WORK"
)

// Durable consumer names.
const (
	IntakeConsumer   = "intake"   // on Requests, shared by the gateways
	MailboxConsumer  = "mailbox"  // on Mailbox, shared by the gateways
	SweeperConsumer  = "sweeper"  // on Decisions, shared by the gateways
	NotifierConsumer = "notifier" // on Events, made by the provisioner
)

// Errors of the journal.
var (
	ErrNotFound = errors.New("journal: not found")
	// ErrLeft means that a request was left for the gateways, and none has passed it
	// on yet.
	ErrLeft = errors.New("journal: asked while no gateway was there, and not taken in yet: try again")
	// ErrUnknown means that a write may have landed and could not be read back.
	ErrUnknown = errors.New("journal: outcome unknown")
	// ErrDrift means that a stream's configuration is not the one that makes
	// the guarantees; a service refuses to start on it.
	ErrDrift = errors.New("journal: stream configuration has drifted")
	// ErrTooLarge means that a decision is larger than the server takes; nothing
	// was stored.
	ErrTooLarge = errors.New("journal: too large")
	// ErrUnsigned means that a decision without a valid signature is stored.
	ErrUnsigned = errors.New("journal: unsigned decision in the record")
)

// Message is a stored message as the server vouches for it: subject, sequence
// and time come from the server's own metadata, never from stored headers; but for
// the time of what an owner left for the gateways, which is when it did.
type Message struct {
	Subject string
	Seq     uint64
	Time    time.Time
	Header  map[string][]string // as stored by whoever wrote it
	Data    []byte
}

// StoredDecision is a decision that is in the record, with a checked signature.
type StoredDecision struct {
	*hitl.Decision
	Seq   uint64
	Time  time.Time
	Trace trace.Point // where it was decided; not signed
}

// Delivery is a message of a durable consumer. Ack, Nak and Term may be called
// once; a message that gets none comes again.
type Delivery struct {
	Message
	Redelivered bool
	Behind      uint64 // how many come after it
	Ack         func() error
	Nak         func(delay time.Duration) error
	Term        func() error
}

// Position is where a stream stands. Created changes when a stream is made
// anew, and with it every sequence loses its meaning.
type Position struct {
	First, Last uint64
	Created     time.Time
	Now         time.Time // on the server's clock
}

// Journal is what gateways do with the streams. All methods are safe for
// concurrent use. Decisions and events carry the trace that ctx is in.
type Journal interface {
	// Decide stores d, signed, as the decision of ref if there is none yet. It
	// returns the stored decision that counts and whether it is d. It retries
	// until something is stored, or ctx ends: then the error is ErrUnknown or
	// ctx's, and a later call with the same d finds out.
	Decide(ctx context.Context, ref subject.Ref, d *hitl.Decision) (winner *StoredDecision, won bool, err error)
	// Decision reads the decision of ref through the stream's leader;
	// ErrNotFound if there is none.
	Decision(ctx context.Context, ref subject.Ref) (*StoredDecision, error)
	// Request reads the open request of ref through the leader; ErrLeft if it is in
	// the mailbox only.
	Request(ctx context.Context, ref subject.Ref) (*Message, error)
	// Left reads what was left for a gateway and is meant for the subject at, a
	// request's or a withdrawal's, through the leader.
	Left(ctx context.Context, at string) (*Message, error)
	// DeleteRequest removes the message seq of Requests; absent is no error.
	DeleteRequest(ctx context.Context, seq uint64) error
	// WriteEvent stores data under an open or closed subject of Events, once:
	// an existing one is no error. It returns the sequence it has.
	WriteEvent(ctx context.Context, subj string, data []byte) (seq uint64, err error)
	// WriteGatewayState stores what gateways know of a session, latest wins.
	WriteGatewayState(ctx context.Context, s subject.Session, data []byte) error
	// Enqueue stores a start in Work.
	Enqueue(ctx context.Context, st *hitl.Start) error

	// Intake calls fn for each request and withdrawal, Sweep for each
	// decision, from the shared durables, until ctx ends. fn may be called
	// concurrently, at most workers at a time.
	//
	// Collect is the same for what owners have left while no gateway was there.
	Intake(ctx context.Context, workers int, fn func(context.Context, Delivery)) error
	Sweep(ctx context.Context, workers int, fn func(context.Context, Delivery)) error
	Collect(ctx context.Context, workers int, fn func(context.Context, Delivery)) error
	// Floors returns the highest sequence up to which intake (of Requests) and
	// sweeper (of Decisions) have acknowledged everything.
	Floors(ctx context.Context) (intake, sweeper uint64, err error)

	// Position tells where a stream stands.
	Position(ctx context.Context, stream string) (Position, error)
	// Read calls fn, one at a time and in order, for the stored messages of a
	// stream from sequence from on whose subjects match one of filters (none:
	// all), and returns at the last one stored when it was called. fn's error
	// ends it. Last reads only the newest message of each subject.
	Read(ctx context.Context, stream string, from uint64, filters []string, fn func(Message) error) error
	Last(ctx context.Context, stream string, filters []string, fn func(Message) error) error
	// Follow is Read that goes on with what is stored from then on, until ctx
	// ends. It survives reconnects and leader changes without gap or double.
	Follow(ctx context.Context, stream string, from uint64, filters []string, fn func(Message) error) error
}
