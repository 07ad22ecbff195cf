// Package record reads stored requests and makes what gateways store: decisions
// and the open and closed events.
package record

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/trace"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/card"
	"github.com/banksman/banksman/services/gateway/internal/policy"
)

// NoSession stands where a refused request names no session.
const NoSession = "unknown"

// Target is a request that can be decided, with its exact bytes.
type Target struct {
	card.Admission
	Raw     []byte
	Digest  string
	Request *hitl.Request
}

// Refused is the target of a request that cannot be read or is not its
// owner's own. Its decision keeps the digest only.
func Refused(ref subject.Ref, m journal.Message) *Target {
	return &Target{
		Admission: card.Admission{Ref: ref, Seq: m.Seq, RequestedAt: m.Time, Policy: hitl.Policy{Version: policy.Version}, Trace: trace.Read(m.Header)},
		Digest:    hitl.Digest(m.Data), Request: &hitl.Request{ID: ref.ID},
	}
}

// Decision makes the record.
func (t *Target) Decision(c hitl.Content, p hitl.Principal, channel, assurance string, now time.Time) *hitl.Decision {
	return &hitl.Decision{
		V: 1, DecisionID: uuid.NewString(), InteractionID: t.Request.ID, Digest: t.Digest, Content: c,
		Principal: p, Channel: channel, Assurance: assurance, Policy: t.Policy, DecidedAt: now.UTC(),
		RequestSeq: t.Seq, RequestedAt: t.RequestedAt.UTC(), RequestB64: base64.StdEncoding.EncodeToString(t.Raw),
	}
}

// Examine reads a stored request and refuses what is not its owner's own. The
// error, if any, is an *hitl.InvalidError.
func Examine(p *policy.Policy, ref subject.Ref, m journal.Message) (*hitl.Request, card.Admission, error) {
	return read(p, ref, m, hitl.ParseRequest)
}

// Examined is Examine for bytes that have passed it before: what only a check
// of the text can find is not looked for again.
func Examined(p *policy.Policy, ref subject.Ref, m journal.Message) (*hitl.Request, card.Admission, error) {
	return read(p, ref, m, func(raw []byte) (*hitl.Request, error) {
		r := &hitl.Request{}
		if err := json.Unmarshal(raw, r); err != nil {
			return nil, hitl.Invalid("request", "%v", err)
		}
		return r, nil
	})
}

func read(p *policy.Policy, ref subject.Ref, m journal.Message, parse func([]byte) (*hitl.Request, error)) (*hitl.Request, card.Admission, error) {
	a := card.Admission{Ref: ref, Seq: m.Seq, RequestedAt: m.Time, Attempt: 1, Trace: trace.Read(m.Header)}
	if v := first(m.Header, hitl.HeaderAttempt); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 {
			return nil, a, hitl.Invalid("attempt", "must be a number from 1")
		}
		a.Attempt = n
	}
	a.Worker = first(m.Header, hitl.HeaderWorker)
	r, err := parse(m.Data)
	if err != nil {
		return nil, a, err
	}
	switch {
	case subject.Token(r.Tenant) != ref.Tenant:
		return nil, a, hitl.Invalid("tenant", "is not the one it was sent as")
	case subject.Token(r.Owner) != ref.Owner:
		return nil, a, hitl.Invalid("owner", "is not the one it was sent as")
	case subject.Token(r.ID) != ref.ID:
		return nil, a, hitl.Invalid("id", "is not the one it was sent as")
	case r.Key == "":
		return nil, a, hitl.Invalid("key", "is missing: the id is made of it")
	case r.ID != hitl.ID(r.Tenant, r.Owner, r.Key, a.Attempt):
		return nil, a, hitl.Invalid("id", "does not follow from tenant, owner, key and attempt")
	}
	a.Policy, a.RiskReason, a.Reading = p.Assess(r)
	return r, a, nil
}

func first(h map[string][]string, key string) string {
	if v := h[key]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// Decided reads the request inside a decision; nil where only its digest was
// kept.
func Decided(p *policy.Policy, ref subject.Ref, w *journal.StoredDecision) (*hitl.Request, card.Admission, error) {
	a := card.Admission{Ref: ref, Seq: w.RequestSeq, RequestedAt: w.RequestedAt, Policy: w.Policy, Card: w.Card, Trace: w.Trace}
	raw, err := w.Request()
	if err != nil || raw == nil {
		return nil, a, err
	}
	r, err := hitl.ParseRequest(raw)
	if err != nil {
		return nil, a, err
	}
	_, a.RiskReason, a.Reading = p.Assess(r)
	return r, a, nil
}

// Opened is the body of an open event, of what is decided already if so.
func Opened(sum wire.Summary, raw []byte, a card.Admission, now time.Time, decided bool) ([]byte, error) {
	ev := wire.Opened{
		V: 1, Summary: sum, RequestSeq: a.Seq, Worker: a.Worker, Policy: a.Policy, RequestBytes: len(raw), Decided: decided,
	}
	ev.ServerTime = now.UTC()
	if len(raw) <= wire.MaxInline {
		ev.RequestB64 = base64.StdEncoding.EncodeToString(raw)
	}
	return hitl.Marshal(ev)
}

// Ended is the body of a closed event.
func Ended(sum wire.Summary, w *journal.StoredDecision, now time.Time) ([]byte, error) {
	sum.ServerTime = now.UTC()
	return hitl.Marshal(wire.Ended{V: 1, Closed: wire.Closed{
		Summary: sum, State: wire.StateClosed, Outcome: w.Outcome, Decision: w.WithoutRequest(),
	}})
}

// Unreadable is the summary of a request that was refused.
func Unreadable(a card.Admission, w *journal.StoredDecision) wire.Summary {
	return wire.Summary{
		RequestID: a.Ref.ID, Key: a.Ref.String(), Tenant: a.Ref.Tenant, Owner: a.Ref.Owner, SessionID: NoSession,
		SessionKey: subject.Session{Tenant: a.Ref.Tenant, Owner: a.Ref.Owner, ID: NoSession}.String(),
		Digest:     w.Digest, CreatedAt: w.RequestedAt, Title: "A request that was refused",
		Headline: a.Ref.Owner + " sent a request that was refused",
	}
}
