package wire

import (
	"time"

	"github.com/banksman/banksman/pkg/hitl"
)

// Opened is the body of an open event on the bus: what gateways and the
// notifier need to know of an interaction that waits.
type Opened struct {
	V int `json:"v"`
	Summary
	RequestSeq uint64      `json:"request_seq"`
	Worker     string      `json:"worker,omitempty"`
	Policy     hitl.Policy `json:"policy"`
	// RequestB64 is the exact request where it is at most MaxInline bytes.
	RequestB64 string `json:"request_b64,omitempty"`
	// RequestBytes is the size of the request.
	RequestBytes int `json:"request_bytes,omitempty"`
	// Decided says that it never waited for anybody: its decision is stored, and its
	// closed event follows.
	Decided bool `json:"decided,omitempty"`
}

// MaxInline is the largest request that travels inside Opened, in bytes.
const MaxInline = 16 << 10

// HeaderTurnedAway, on a message without a body in an asker's inbox, says why
// its request was removed without a decision.
const HeaderTurnedAway = "Hitl-Turned-Away"

// HeaderHold tells the writes of one hold on a session from those of another
// process with a copy of its data.
const HeaderHold = "Hitl-Hold"

// HeaderLeftAt says since when a request or a withdrawal was waiting for a gateway
// when one stored it, RFC 3339. Only gateways write it.
const HeaderLeftAt = "Hitl-Left-At"

// HeaderTraceParent and HeaderTraceState are the W3C trace context, on requests,
// withdrawals, decisions, events and receipts. Package trace reads and writes them.
const (
	HeaderTraceParent = "traceparent"
	HeaderTraceState  = "tracestate"
)

// Codes of what gateways say no to among what owners tell of their sessions, as
// err_code beside the server's own, which are smaller. To try again at once is of
// no use.
const (
	CodeQuota   = 42901 // the owner's quota is used up
	CodeRefused = 40001 // the subject or a header is none that may be used there
)

// Ended is the body of a closed event on the bus.
type Ended struct {
	V int `json:"v"`
	Closed
}

// SessionVerdict is what gateways say of a session whose worker is gone.
type SessionVerdict struct {
	V          int       `json:"v"`
	State      string    `json:"state"` // dead
	Reason     string    `json:"reason"`
	Worker     string    `json:"worker"`
	Generation int       `json:"generation"`
	At         time.Time `json:"at"`
}
