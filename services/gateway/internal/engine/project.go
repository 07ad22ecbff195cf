package engine

import (
	"context"
	"encoding/base64"
	"encoding/json"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/card"
	"github.com/banksman/banksman/services/gateway/internal/cursor"
)

// onEvent applies one message of HITL_EVENTS. A body that cannot be read is
// skipped: only gateways write there, so it is a version this one is too old
// for.
func (e *Engine) onEvent(m journal.Message) error {
	p, err := subject.Parse(m.Subject)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pos.Events = int64(m.Seq)
	if err != nil {
		return nil
	}
	switch {
	case p.Kind == "ixe" && p.Tail == subject.Open:
		e.onOpen(p.Ref(), m)
	case p.Kind == "ixe":
		e.onClosed(p.Ref(), m)
	case p.Kind == "sgw":
		var v wire.SessionVerdict
		if json.Unmarshal(m.Data, &v) == nil {
			e.onVerdict(p.SessionRef(), v)
		}
	}
	return nil
}

func (e *Engine) onOpen(ref subject.Ref, m journal.Message) {
	var ev wire.Opened
	if err := json.Unmarshal(m.Data, &ev); err != nil {
		e.log.Error("an open event cannot be read", "seq", m.Seq, "error", err)
		return
	}
	en := e.open[ref]
	if en == nil {
		if e.closed.Has(ref) {
			return
		}
		a := card.Admission{
			Ref: ref, Seq: ev.RequestSeq, RequestedAt: ev.CreatedAt, Attempt: max(ev.Attempt, 1),
			Worker: ev.Worker, Policy: ev.Policy, RiskReason: ev.RiskReason,
		}
		raw, err := base64.StdEncoding.DecodeString(ev.RequestB64)
		if err == nil && len(raw) > 0 {
			r, err := hitl.ParseRequest(raw)
			if err != nil {
				e.log.Error("an open event carries no request", "seq", m.Seq, "error", err)
				return
			}
			e.admit(r, raw, ev.Digest, a, true)
		} else {
			en := &entry{
				Admission: a, session: subject.NewSession(ev.Tenant, ev.Owner, ev.SessionID),
				summary: ev.Summary,
			}
			if ev.ExpiresAt != nil {
				en.deadline = *ev.ExpiresAt
			}
			e.insert(en, ev.RequestID)
		}
		en = e.open[ref]
		if en == nil {
			return
		}
	}
	en.opened = true
	e.touch(en.session)
	e.publish(api.Update{
		SessionKey: en.session.String(), Stored: true, Events: card.Opened(&en.summary, m),
	})
}

func (e *Engine) onClosed(ref subject.Ref, m journal.Message) {
	var ev wire.Ended
	if err := json.Unmarshal(m.Data, &ev); err != nil {
		e.log.Error("a closed event cannot be read", "seq", m.Seq, "error", err)
		return
	}
	c := ev.Closed
	if en := e.remove(ref); en != nil && c.Decision != nil {
		for _, a := range en.acks {
			if a.DecisionID == c.Decision.DecisionID {
				c.Trail = append(c.Trail, a)
			}
		}
	}
	e.closed.Add(ref, &c)
	key := subject.NewSession(c.Tenant, c.Owner, c.SessionID)
	e.dirty[key] = append(e.dirty[key], c)
	signal(e.flush)
	e.publish(api.Update{SessionKey: key.String(), Stored: true, Events: card.Closed(&c, m)})
}

// onTranscript applies one message of HITL_TRANSCRIPTS. Agents write there:
// what does not fit is dropped. It is read before the lock is taken, since its
// size and depth are theirs.
func (e *Engine) onTranscript(m journal.Message) error {
	p, err := subject.Parse(m.Subject)
	apply := func() {}
	switch {
	case err != nil:
	case p.Kind == "ses":
		if st, ok := card.ReadState(p.SessionRef(), m.Data); ok {
			apply = func() { e.onSession(p.SessionRef(), st, m) }
		}
	case p.Kind == "evt":
		if ev, ok := card.FromAgent(m); ok {
			apply = func() {
				e.publish(api.Update{SessionKey: p.SessionRef().String(), Stored: true, Events: []wire.Event{ev}})
			}
		}
	case p.Kind == "ack":
		if a, ok := card.ReadAck(m); ok {
			apply = func() { e.onAck(p.Ref(), a) }
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pos.Transcripts = int64(m.Seq)
	apply()
	return nil
}

// onAck takes an asker's word on what became of a decision. It comes by
// another stream than the decision and may be here first; then it is kept. One
// that names no decision, or another one, says nothing.
func (e *Engine) onAck(ref subject.Ref, a hitl.Ack) {
	c := e.closed.Get(ref)
	if c == nil {
		if en := e.open[ref]; en != nil && len(en.acks) < maxEarlyAcks {
			en.acks = append(en.acks, a)
		}
		return
	}
	if c.Decision == nil || a.DecisionID != c.Decision.DecisionID {
		return
	}
	e.closed.Trail(ref, a)
	session := subject.NewSession(c.Tenant, c.Owner, c.SessionID)
	e.publish(api.Update{
		SessionKey: session.String(), Stored: true,
		All: card.Encode(wire.Delivery{
			Type: wire.TypeDelivery, Cursor: e.pos.String(), RequestID: c.RequestID, Key: ref.String(),
			SessionKey: session.String(), Ack: a,
		}),
	})
}

// touch marks a session so that its state goes out with the next flush.
// Called with the lock held.
func (e *Engine) touch(key subject.Session) {
	if _, ok := e.dirty[key]; !ok {
		e.dirty[key] = nil
	}
	signal(e.flush)
}

// flushLoop sends the state of the sessions that changed. A burst of changes
// to one session leaves as one frame.
func (e *Engine) flushLoop(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-e.flush:
		}
		e.mu.Lock()
		for key, closed := range e.dirty {
			s := e.sessions[key]
			if s == nil {
				s = e.sessionOf(key, key.ID, key.Tenant, key.Owner)
			}
			st := e.state(s)
			st.Type, st.Cursor, st.Closed = wire.TypeProcessState, e.pos.String(), closed
			e.publish(api.Update{SessionKey: key.String(), All: card.Encode(st), Stored: true, Whole: len(closed) == 0})
			for _, en := range s.pending {
				en.fresh = false
			}
		}
		clear(e.dirty)
		e.mu.Unlock()
	}
}

// publish hands an update to the watchers. Called with the lock held.
func (e *Engine) publish(u api.Update) {
	if u.Stored {
		u.Cursor = e.pos.String()
		for i := range u.Events {
			u.Events[i].Cursor = u.Cursor
		}
	}
	if u.All != nil {
		e.ring = append(e.ring, api.Update{Cursor: u.Cursor, All: u.All})
		if len(e.ring) > ringSize {
			drop := len(e.ring) - ringSize*3/4
			e.ringFrom, _ = cursor.Parse(e.ring[drop-1].Cursor)
			e.ring = append([]api.Update(nil), e.ring[drop:]...)
		}
	}
	for _, fn := range e.watchers {
		fn(u)
	}
}

// Watch implements api.Engine.
func (e *Engine) Watch(from string, fn func(api.Update)) api.Watch {
	e.mu.Lock()
	defer e.mu.Unlock()
	w := api.Watch{Cursor: e.pos.String()}
	if c, ok := cursor.Parse(from); ok && c.Covers(e.ringFrom) && e.pos.Covers(c) {
		w.Recovered = true
		for _, u := range e.ring {
			// Several frames may have one cursor, and a client may hold it after
			// the first: frames are whole states, so sending one again is harmless.
			if u.After(from) || u.Cursor == from {
				w.Missed = append(w.Missed, u.All)
			}
		}
	} else {
		w.Snapshot = e.allStates()
	}
	id := e.nextWatch
	e.nextWatch++
	e.watchers[id] = fn
	w.Stop = func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.watchers, id)
	}
	return w
}

// Cursor implements api.Engine.
func (e *Engine) Cursor() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.pos.String()
}
