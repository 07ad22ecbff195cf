package engine

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
)

// retryIn is how long a message waits that could not be handled now.
const retryIn = 2 * time.Second

// intake takes in one request or withdrawal. It acknowledges only what is
// settled or on the event stream.
func (e *Engine) intake(ctx context.Context, d journal.Delivery) {
	p, err := subject.Parse(d.Subject)
	if err != nil || p.Kind != "req" && p.Kind != "cxl" {
		// Whoever wrote it gets no decision: its subject fits no inbox.
		e.log.Warn("deleted a message outside the grammar", "seq", d.Seq, "bytes", len(d.Subject))
		e.finish(d, e.opts.Journal.DeleteRequest(ctx, d.Seq))
		return
	}
	if p.Kind == "cxl" {
		e.finish(d, e.withdraw(ctx, p.Ref(), d.Message))
		return
	}
	e.finish(d, e.admitStored(ctx, p.Ref(), d.Message))
}

func (e *Engine) finish(d journal.Delivery, err error) {
	if err == nil {
		err = d.Ack()
	} else {
		e.log.Warn("will try again", "subject", d.Subject, "seq", d.Seq, "error", err)
		err = d.Nak(retryIn)
	}
	if err != nil {
		e.log.Debug("not acknowledged, will come again", "seq", d.Seq, "error", err)
	}
}

// admitStored puts a stored request before people, once.
func (e *Engine) admitStored(ctx context.Context, ref subject.Ref, m journal.Message) error {
	j := e.opts.Journal
	w, err := j.Decision(ctx, ref)
	if err == nil {
		// Asked again after its decision: the asker reads that one.
		if err := e.announce(ctx, ref, w); err != nil {
			return err
		}
		return j.DeleteRequest(ctx, m.Seq)
	}
	if !errors.Is(err, journal.ErrNotFound) {
		return err
	}
	r, a, err := e.examine(ref, m)
	if err != nil {
		var inv *hitl.InvalidError
		if !errors.As(err, &inv) {
			return err
		}
		e.log.Warn("refused a request", "interaction", ref.String(), "problem", inv.Error())
		return e.refuse(ctx, ref, m, inv.Fields)
	}
	digest := hitl.Digest(m.Data)
	// Shown while the write is under way: it is stored already, and nobody
	// has decided.
	e.mu.Lock()
	if e.admit(r, m.Data, digest, a, false) {
		e.touch(subject.NewSession(r.Tenant, r.Owner, r.SessionID))
	}
	e.mu.Unlock()
	return e.writeOpen(ctx, r, m.Data, digest, a)
}

func (e *Engine) writeOpen(ctx context.Context, r *hitl.Request, raw []byte, digest string, a admission) error {
	ev := wire.Opened{
		V: 1, Summary: summarize(r, digest, a), RequestSeq: a.seq, Worker: a.worker, Policy: a.policy,
	}
	ev.ServerTime = e.now().UTC()
	if len(raw) <= wire.MaxInline {
		ev.RequestB64 = base64.StdEncoding.EncodeToString(raw)
	}
	data, err := hitl.Marshal(ev)
	if err != nil {
		return err
	}
	session := subject.Token(r.SessionID)
	_, err = e.opts.Journal.WriteEvent(ctx, subject.Event(a.ref, session, subject.Open), data)
	return err
}

// examine reads a stored request and refuses what is not its owner's own. The
// error, if any, is an *hitl.InvalidError.
func (e *Engine) examine(ref subject.Ref, m journal.Message) (*hitl.Request, admission, error) {
	a := admission{ref: ref, seq: m.Seq, requestedAt: m.Time, attempt: 1}
	if v := first(m.Header, hitl.HeaderAttempt); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 {
			return nil, a, hitl.Invalid("attempt", "must be a number from 1")
		}
		a.attempt = n
	}
	a.worker = first(m.Header, hitl.HeaderWorker)
	r, err := hitl.ParseRequest(m.Data)
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
	case r.ID != hitl.ID(r.Tenant, r.Owner, r.Key, a.attempt):
		return nil, a, hitl.Invalid("id", "does not follow from tenant, owner, key and attempt")
	}
	a.policy, a.riskReason = e.policy.Assess(r)
	return r, a, nil
}

func first(h map[string][]string, key string) string {
	if v := h[key]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// withdraw turns an asker's withdrawal into the outcome cancelled.
func (e *Engine) withdraw(ctx context.Context, ref subject.Ref, m journal.Message) error {
	var w hitl.Withdrawal
	if err := json.Unmarshal(m.Data, &w); err != nil {
		w = hitl.Withdrawal{} // the wish is clear from the subject
	}
	c := hitl.Content{Outcome: hitl.Cancelled, Message: cut(w.Reason)}
	if w.Shutdown {
		c.Comment = hitl.ShutdownComment
	}
	asker := hitl.Principal{Kind: "asker", ID: ref.Owner}
	if _, err := e.settle(ctx, ref, c, asker, "withdrawal"); err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	return e.opts.Journal.DeleteRequest(ctx, m.Seq)
}

// sweep finishes one decision: its closed event is written and its request is
// no longer among the open ones.
func (e *Engine) sweep(ctx context.Context, d journal.Delivery) {
	e.finish(d, func() error {
		p, err := subject.Parse(d.Subject)
		if err != nil {
			e.log.Error("a decision outside the grammar is stored", "seq", d.Seq)
			return nil
		}
		w, err := e.opts.Journal.Decision(ctx, p.Ref())
		if errors.Is(err, journal.ErrUnsigned) {
			// Not a decision. It stays for the record; nothing follows from it.
			e.log.Error("ALARM: an unsigned decision is stored", "interaction", p.Ref().String(), "seq", d.Seq)
			return nil
		}
		if err != nil {
			return err
		}
		if err := e.announce(ctx, p.Ref(), w); err != nil {
			return err
		}
		return e.opts.Journal.DeleteRequest(ctx, w.RequestSeq)
	}())
}

// announce writes the open event, where it is missing, and the closed one.
func (e *Engine) announce(ctx context.Context, ref subject.Ref, w *journal.StoredDecision) error {
	session := "unknown"
	var sum wire.Summary
	raw, err := w.Request()
	if err != nil {
		return err
	}
	if raw == nil {
		sum = wire.Summary{
			RequestID: ref.ID, Key: ref.String(), Tenant: ref.Tenant, Owner: ref.Owner, SessionID: session,
			SessionKey: subject.Session{Tenant: ref.Tenant, Owner: ref.Owner, ID: session}.String(),
			Digest:     w.Digest, CreatedAt: w.RequestedAt, Title: "A request that was refused",
			Headline: ref.Owner + " sent a request that was refused",
		}
	} else {
		r, a, err := e.examineDecided(ref, raw, w)
		if err != nil {
			return err
		}
		session = subject.Token(r.SessionID)
		sum = summarize(r, w.Digest, a)
		e.mu.Lock()
		en := e.open[ref]
		opened := en != nil && en.opened
		if en != nil {
			sum.Attempt = en.attempt
		}
		e.mu.Unlock()
		if !opened {
			if err := e.writeOpen(ctx, r, raw, w.Digest, a); err != nil {
				return err
			}
		}
	}
	sum.ServerTime = e.now().UTC()
	data, err := hitl.Marshal(wire.Ended{V: 1, Closed: wire.Closed{
		Summary: sum, State: wire.StateClosed, Outcome: w.Outcome, Decision: w.WithoutRequest(),
	}})
	if err != nil {
		return err
	}
	_, err = e.opts.Journal.WriteEvent(ctx, subject.Event(ref, session, subject.Closed), data)
	return err
}

// examineDecided reads the request inside a decision.
func (e *Engine) examineDecided(ref subject.Ref, raw []byte, w *journal.StoredDecision) (*hitl.Request, admission, error) {
	r, err := hitl.ParseRequest(raw)
	if err != nil {
		return nil, admission{}, err
	}
	a := admission{ref: ref, seq: w.RequestSeq, requestedAt: w.RequestedAt, policy: w.Policy}
	_, a.riskReason = e.policy.Assess(r)
	return r, a, nil
}
