package hitl

import (
	"encoding/base64"
	"encoding/json"
	"time"
)

// Outcome is how an interaction ended. The nine are never merged.
type Outcome string

// The outcomes.
const (
	Allowed   Outcome = "allowed"
	Denied    Outcome = "denied"
	Answered  Outcome = "answered"
	Clarify   Outcome = "clarify"   // text instead of an answer
	Dismissed Outcome = "dismissed" // a person closed it without answering
	Expired   Outcome = "expired"
	Cancelled Outcome = "cancelled" // the asker withdrew
	Orphaned  Outcome = "orphaned"  // the asker is gone
	InvalidIX Outcome = "invalid"
)

// Known reports whether o is one of the nine.
func (o Outcome) Known() bool {
	switch o {
	case Allowed, Denied, Answered, Clarify, Dismissed, Expired, Cancelled, Orphaned, InvalidIX:
		return true
	}
	return false
}

// ByPerson reports whether o is somebody's answer, rather than its absence.
func (o Outcome) ByPerson() bool {
	switch o {
	case Allowed, Denied, Answered, Clarify, Dismissed:
		return true
	}
	return false
}

// Principal is who decided.
type Principal struct {
	Kind string `json:"kind"` // person, service, rule, system or asker
	ID   string `json:"id"`
	Name string `json:"name,omitempty"`
}

// Answer is the answer to one question: chosen option values, free text, or both.
type Answer struct {
	QuestionID string   `json:"question_id"`
	Values     []string `json:"values"`
	Other      string   `json:"other,omitempty"`
	Notes      string   `json:"notes,omitempty"`
}

// Content is what a decision says, apart from who said it and when.
type Content struct {
	Outcome      Outcome         `json:"outcome"`
	OptionID     string          `json:"option_id,omitempty"`
	UpdatedInput json.RawMessage `json:"updated_input,omitempty"`
	Answers      []Answer        `json:"answers,omitempty"`
	Content      json.RawMessage `json:"content,omitempty"`
	Scope        string          `json:"scope,omitempty"` // once (default) or session
	Rule         string          `json:"rule,omitempty"`
	Message      string          `json:"message,omitempty"` // for the agent
	Comment      string          `json:"comment,omitempty"` // for the record only
	Interrupt    bool            `json:"interrupt,omitempty"`
	Fields       []Field         `json:"fields,omitempty"` // of an invalid request
}

// Decision is the one accepted answer, with the exact bytes of its request.
type Decision struct {
	V             int    `json:"v"`
	DecisionID    string `json:"decision_id"`
	InteractionID string `json:"interaction_id"`
	Digest        string `json:"digest"`
	Content
	Principal   Principal `json:"principal"`
	Channel     string    `json:"channel"`
	Assurance   string    `json:"assurance,omitempty"` // link, chat_account, session or step_up
	From        string    `json:"from,omitempty"`      // address it came from, as the gateway saw it
	Shown       string    `json:"shown,omitempty"`     // digest of what was shown of the request, see package shown
	Card        *Card     `json:"card,omitempty"`      // what the gateway said of it; absent: an older one made no record of that
	Policy      Policy    `json:"policy"`
	DecidedAt   time.Time `json:"decided_at"`
	RequestSeq  uint64    `json:"request_seq"`
	RequestedAt time.Time `json:"requested_at"`
	RequestB64  string    `json:"request_b64,omitempty"`
}

// Request returns the exact bytes of the request that was decided, nil where
// only the digest was kept.
func (d *Decision) Request() ([]byte, error) {
	if d.RequestB64 == "" {
		return nil, nil
	}
	return base64.StdEncoding.DecodeString(d.RequestB64)
}

// WithoutRequest is the decision as receipts and events carry it, beside a card.
func (d *Decision) WithoutRequest() *Decision {
	c := *d
	c.RequestB64, c.Card = "", nil
	return &c
}

// ShutdownComment is the comment of a cancelled decision whose withdrawal had
// Shutdown set: the key is not used up.
const ShutdownComment = "shutdown"

// AsksAgain reports whether asking with the same key goes on with a new attempt
// after this decision: nobody decided, because the asker was gone.
func (d *Decision) AsksAgain() bool {
	return d.Outcome == Orphaned || d.Outcome == Cancelled && d.Comment == ShutdownComment
}

// SameAnswer reports whether both decisions say the same by the same principal.
func (d *Decision) SameAnswer(o *Decision) bool {
	if d.Principal.Kind != o.Principal.Kind || d.Principal.ID != o.Principal.ID || d.Digest != o.Digest {
		return false
	}
	a, errA := Marshal(d.Content)
	b, errB := Marshal(o.Content)
	if errA != nil || errB != nil {
		return false
	}
	ca, errA := Canonical(a)
	cb, errB := Canonical(b)
	return errA == nil && errB == nil && string(ca) == string(cb)
}

// ParseDecision decodes the exact bytes of a stored decision.
func ParseDecision(raw []byte) (*Decision, error) {
	if err := CheckJSON(raw); err != nil {
		return nil, Invalid("decision", "%v", err)
	}
	var d Decision
	if err := json.Unmarshal(raw, &d); err != nil {
		return nil, decodeErr("decision", err)
	}
	var c checker
	if d.V != 1 {
		c.Add("v", "must be 1")
	}
	c.Need("decision_id", d.DecisionID)
	c.Need("interaction_id", d.InteractionID)
	c.Need("digest", d.Digest)
	if !d.Outcome.Known() {
		c.Add("outcome", "is unknown")
	}
	return &d, c.err()
}

// Status is the word of a receipt.
type Status string

// The receipts.
const (
	Accepted       Status = "accepted"
	Duplicate      Status = "duplicate" // same principal, same content
	AlreadyDecided Status = "already_decided"
	TooLate        Status = "expired"
	NotFound       Status = "not_found"
	BadInput       Status = "invalid"
	Forbidden      Status = "forbidden"
	DigestMismatch Status = "digest_mismatch"
	Unavailable    Status = "unavailable" // nothing is known to be stored; a retry is safe
)

// Receipt answers every attempt to decide.
type Receipt struct {
	Status   Status    `json:"status"`
	Error    string    `json:"error,omitempty"`
	Fields   []Field   `json:"fields,omitempty"`
	Decision *Decision `json:"decision,omitempty"` // the winner's, without the request
}

// Ack stages: what became of a decision at the asker.
const (
	Delivered = "delivered"
	Applied   = "applied"
	Refused   = "refused"
)

// Ack is the asker's receipt for a decision.
type Ack struct {
	V          int       `json:"v"`
	Stage      string    `json:"stage"`
	DecisionID string    `json:"decision_id"`
	At         time.Time `json:"at"`
	Detail     string    `json:"detail,omitempty"`
}

// Withdrawal is what an asker publishes to take a request back.
type Withdrawal struct {
	V      int    `json:"v"`
	Reason string `json:"reason,omitempty"`
	// Shutdown marks a withdrawal that does not poison the key: a successor
	// may ask again with the next attempt.
	Shutdown bool `json:"shutdown,omitempty"`
}
