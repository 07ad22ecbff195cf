package proof

import (
	"sync"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
)

// Kinds of operations.
const (
	OpAsk    = "ask"    // from the call to the acknowledgement of the request
	OpAwait  = "await"  // from there to the decision in the asker's hand
	OpDecide = "decide" // one attempt, from the call to its receipt
	OpGet    = "get"    // one interaction read at a gateway
	OpSettle = "settle" // what the system did by itself: expired, cancelled
	OpRecord = "record" // what the streams held in the end
)

// What operations found, beside the words of a receipt.
const (
	SawStored  = "stored"
	SawPending = "pending"
	SawClosed  = "closed"
	SawNothing = "not_found"
	// SawNoDecision: the asker's time was up and it was told of no decision.
	SawNoDecision = "no_decision"
	// SawSilence: the answer was lost, or said that the outcome is unknown. The
	// operation may take effect at any later time, or never.
	SawSilence = "unknown"
)

// never is the return time of an operation that may still take effect.
const never = int64(1) << 62

// Verdict is a decision as far as clients can compare it.
type Verdict struct {
	ID        string `json:"id,omitempty"`
	Outcome   string `json:"outcome,omitempty"`
	Principal string `json:"principal,omitempty"`
	Content   string `json:"content,omitempty"` // canonical, with the outcome
}

// VerdictOf is the verdict of a decision, the zero one of nil.
func VerdictOf(d *hitl.Decision) Verdict {
	if d == nil {
		return Verdict{}
	}
	return Verdict{
		ID: d.DecisionID, Outcome: string(d.Outcome), Principal: PrincipalKey(d.Principal), Content: ContentKey(d.Content),
	}
}

// PrincipalKey is the same for the same principal.
func PrincipalKey(p hitl.Principal) string { return p.Kind + ":" + p.ID }

// ContentKey is the same for contents that say the same.
func ContentKey(c hitl.Content) string {
	raw, err := hitl.Marshal(c)
	if err == nil {
		raw, err = hitl.Canonical(raw)
	}
	if err != nil {
		return "not encodable: " + err.Error()
	}
	return string(raw)
}

// Operation is one step of one client. Times are the machine's clock in ns.
type Operation struct {
	Kind   string `json:"kind"`
	Client string `json:"client"`
	Call   int64  `json:"call"`
	Return int64  `json:"return"`
	// Principal and Content are what an attempt to decide wants.
	Principal string  `json:"principal,omitempty"`
	Content   string  `json:"content,omitempty"`
	Saw       string  `json:"saw"`
	Verdict   Verdict `json:"verdict,omitzero"`
	Detail    string  `json:"detail,omitempty"` // for who reads the history
}

// mine reports whether v is what an attempt wanted.
func (o *Operation) mine(v Verdict) bool {
	return v.ID != "" && v.Principal == o.Principal && v.Content == o.Content
}

// Interaction is what happened to one request, by everybody who took part.
type Interaction struct {
	Ref  string      `json:"ref"`
	Plan string      `json:"plan"`
	Ops  []Operation `json:"ops"`

	acked   bool  // a server acknowledged the request
	stopped int64 // when an asker first stopped waiting, 0: none did
	decided int64 // when a client first knew that there is a decision, 0: none
	works   bool  // a worker asks, which beats
	beats   []int64
	gone    int64 // when the worker was killed for good, 0: it was not
	expiry  time.Duration
}

// History is what all clients saw.
type History struct {
	mu  sync.Mutex
	all map[string]*Interaction
}

// NewHistory is an empty one.
func NewHistory() *History { return &History{all: map[string]*Interaction{}} }

// Begin adds an interaction before anything is done with it.
func (h *History) Begin(ref, plan string, expiry time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all[ref] = &Interaction{Ref: ref, Plan: plan, expiry: expiry}
}

// Add notes an operation that has ended.
func (h *History) Add(ref string, o Operation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	ix := h.all[ref]
	if ix == nil {
		return // of another run on the same streams
	}
	ix.Ops = append(ix.Ops, o)
	if o.Kind == OpAsk && o.Saw == SawStored {
		ix.acked = true
	}
	if o.Verdict.ID != "" && (ix.decided == 0 || o.Return < ix.decided) {
		ix.decided = o.Return
	}
}

// Stop notes that an asker gave up waiting at a time.
func (h *History) Stop(ref string, at int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ix := h.all[ref]; ix.stopped == 0 || at < ix.stopped {
		ix.stopped = at
	}
}

// Works notes that a worker asks, whose heartbeats Beat is told of. Gone notes that it
// was killed and stays away.
func (h *History) Works(ref string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all[ref].works = true
}

// Beat notes when a worker beat.
func (h *History) Beat(ref string, at int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all[ref].beats = append(h.all[ref].beats, at)
}

// Gone notes when a worker was killed that stays away.
func (h *History) Gone(ref string, at int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all[ref].gone = at
}

// DecidedAt is when a client first knew of a decision; ok is false if none did.
func (h *History) DecidedAt(ref string) (at int64, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	ix := h.all[ref]
	if ix == nil || ix.decided == 0 {
		return 0, false
	}
	return ix.decided, true
}

// Now is the clock of all histories: the machine's, in ns.
func Now() int64 { return time.Now().UnixNano() }
