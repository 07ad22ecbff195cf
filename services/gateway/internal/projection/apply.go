package projection

import (
	"encoding/base64"
	"encoding/json"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/trace"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/card"
	"github.com/banksman/banksman/services/gateway/internal/cursor"
)

// Begin sets the position from which the streams will be applied.
func (p *Projection) Begin(at cursor.Position) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pos, p.ringFrom = at, at
}

// LoadSession takes a stored word on a session that is before the position:
// the worker's, or a gateway's.
func (p *Projection) LoadSession(m journal.Message) {
	at, err := subject.Parse(m.Subject)
	if err != nil {
		return
	}
	var apply func()
	switch at.Kind {
	case "ses":
		apply = p.readState(at.SessionRef(), m)
	case "sgw":
		apply = p.readVerdict(at.SessionRef(), m)
	}
	if apply != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		apply()
	}
}

// LoadClosed takes a closed event that is before the position.
func (p *Projection) LoadClosed(m journal.Message) {
	at, err := subject.Parse(m.Subject)
	var ev wire.Ended
	if err == nil && json.Unmarshal(m.Data, &ev) == nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.closed.Add(at.Ref(), &ev.Closed)
	}
}

// LoadAck takes an asker's stored word on what became of a decision that
// LoadClosed took.
func (p *Projection) LoadAck(m journal.Message) {
	at, err := subject.Parse(m.Subject)
	if err != nil || at.Kind != "ack" {
		return
	}
	if a, ok := card.ReadAck(m); ok {
		p.mu.Lock()
		defer p.mu.Unlock()
		if c := p.closed.Get(at.Ref()); c != nil && c.Decision != nil && c.Decision.DecisionID == a.DecisionID {
			p.closed.Trail(at.Ref(), a)
		}
	}
}

// ApplyEvent applies one message of HITL_EVENTS. A body that cannot be read is
// skipped: only gateways write there, so it is a version this one is too old
// for. Bodies are read before the lock is taken.
func (p *Projection) ApplyEvent(m journal.Message) {
	at, err := subject.Parse(m.Subject)
	var apply func()
	switch {
	case err != nil:
	case at.Kind == "ixe" && at.Tail == subject.Open:
		apply = p.readOpen(at.Ref(), m)
	case at.Kind == "ixe":
		apply = p.readClosed(at.Ref(), m)
	case at.Kind == "sgw":
		apply = p.readVerdict(at.SessionRef(), m)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pos.Events = int64(m.Seq)
	p.advance()
	if apply != nil {
		apply()
	}
}

func (p *Projection) readOpen(ref subject.Ref, m journal.Message) func() {
	p.mu.Lock()
	held := p.open[ref] != nil
	p.mu.Unlock()
	var en *Entry
	if !held {
		if en = openEntry(ref, m); en == nil {
			p.log.Error("an open event cannot be read", "seq", m.Seq)
			return nil
		}
	}
	return func() {
		old := p.open[ref]
		if old == nil {
			// What was held and is not any more has been decided.
			if en == nil || p.closed.Has(ref) {
				return
			}
			old = en
			if !en.settled {
				p.insert(en)
			}
		}
		old.opened = true
		if !old.settled {
			p.touch(old.session)
		}
		p.publish(api.Update{
			SessionKey: old.session.String(), Stored: true, Events: card.Opened(&old.summary, m),
		})
	}
}

// openEntry reads the body of an open event; nil if it cannot be read.
func openEntry(ref subject.Ref, m journal.Message) *Entry {
	var ev wire.Opened
	if json.Unmarshal(m.Data, &ev) != nil {
		return nil
	}
	a := card.Admission{
		Ref: ref, Seq: ev.RequestSeq, RequestedAt: ev.CreatedAt, Attempt: max(ev.Attempt, 1),
		Worker: ev.Worker, Policy: ev.Policy, RiskReason: ev.RiskReason, Trace: trace.Read(m.Header),
	}
	raw, err := base64.StdEncoding.DecodeString(ev.RequestB64)
	if err == nil && len(raw) > 0 {
		r, err := hitl.ParseRequest(raw)
		if err != nil {
			return nil
		}
		en := NewEntry(r, raw, ev.Digest, a)
		en.settled = ev.Decided
		return en
	}
	en := &Entry{
		Admission: a, session: subject.NewSession(ev.Tenant, ev.Owner, ev.SessionID), summary: ev.Summary,
		size: max(ev.RequestBytes, 0), settled: ev.Decided,
	}
	if ev.ExpiresAt != nil {
		en.deadline = *ev.ExpiresAt
	}
	return en
}

func (p *Projection) readClosed(ref subject.Ref, m journal.Message) func() {
	var ev wire.Ended
	if err := json.Unmarshal(m.Data, &ev); err != nil {
		p.log.Error("a closed event cannot be read", "seq", m.Seq, "error", err)
		return nil
	}
	c := ev.Closed
	return func() {
		delete(p.decided, ref)
		early := p.early.Take(ref)
		if en := p.remove(ref); en != nil {
			early = append(early, en.acks...)
		}
		for _, a := range early {
			if c.Decision != nil && a.DecisionID == c.Decision.DecisionID {
				c.Trail = append(c.Trail, a)
			}
		}
		p.closed.Add(ref, &c)
		key := subject.NewSession(c.Tenant, c.Owner, c.SessionID)
		p.dirty[key] = append(p.dirty[key], c)
		signal(p.flush)
		p.publish(api.Update{SessionKey: key.String(), Stored: true, Events: card.Closed(&c, m)})
	}
}

// ApplyTranscript applies one message of HITL_TRANSCRIPTS. Agents write there:
// what does not fit is dropped. It is read before the lock is taken, since its
// size and depth are theirs.
func (p *Projection) ApplyTranscript(m journal.Message) {
	at, err := subject.Parse(m.Subject)
	var apply func()
	switch {
	case err != nil:
	case at.Kind == "ses":
		apply = p.readState(at.SessionRef(), m)
	case at.Kind == "evt":
		if ev, ok := card.FromAgent(m); ok {
			apply = func() {
				p.publish(api.Update{SessionKey: at.SessionRef().String(), Stored: true, Events: []wire.Event{ev}})
			}
		}
	case at.Kind == "ack":
		if a, ok := card.ReadAck(m); ok {
			apply = func() { p.onAck(at.Ref(), a) }
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pos.Transcripts = int64(m.Seq)
	p.advance()
	if apply != nil {
		apply()
	}
}

// ApplyLive passes on what a worker says and nobody stores.
func (p *Projection) ApplyLive(key subject.Session, m journal.Message) {
	if ev, ok := card.FromAgent(m); ok {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.publish(api.Update{SessionKey: key.String(), Events: []wire.Event{ev}})
	}
}

// onAck takes an asker's word on what became of a decision. It comes by
// another stream than the decision and may be here first; then it is kept. One
// that names no decision, or another one, says nothing.
func (p *Projection) onAck(ref subject.Ref, a hitl.Ack) {
	c := p.closed.Get(ref)
	if c == nil {
		if en := p.open[ref]; en == nil {
			p.early.Add(ref, a)
		} else if len(en.acks) < maxEarlyAcks {
			en.acks = append(en.acks, a)
		}
		return
	}
	if c.Decision == nil || a.DecisionID != c.Decision.DecisionID {
		return
	}
	p.closed.Trail(ref, a)
	session := subject.NewSession(c.Tenant, c.Owner, c.SessionID)
	p.publish(api.Update{
		SessionKey: session.String(), Stored: true,
		All: card.Encode(wire.Delivery{
			Type: wire.TypeDelivery, Cursor: p.pos.String(), RequestID: c.RequestID, Key: ref.String(),
			SessionKey: session.String(), ProjectID: c.ProjectID, Kind: c.Kind, Ack: a,
		}),
	})
}
