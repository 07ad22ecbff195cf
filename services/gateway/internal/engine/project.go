package engine

import (
	"context"
	"encoding/base64"
	"encoding/json"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
)

// onEvent applies one message of HITL_EVENTS. A body that cannot be read is
// skipped: only gateways write there, so it is a version this one is too old
// for.
func (e *Engine) onEvent(m journal.Message) error {
	p, err := subject.Parse(m.Subject)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pos.events = int64(m.Seq)
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
		if e.closed.has(ref) {
			return
		}
		a := admission{
			ref: ref, seq: ev.RequestSeq, requestedAt: ev.CreatedAt, attempt: max(ev.Attempt, 1),
			worker: ev.Worker, policy: ev.Policy, riskReason: ev.RiskReason,
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
				admission: a, session: subject.NewSession(ev.Tenant, ev.Owner, ev.SessionID),
				summary: ev.Summary, index: -1,
			}
			if ev.ExpiresAt != nil {
				en.deadline, en.due = *ev.ExpiresAt, *ev.ExpiresAt
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
	e.publish(Update{
		SessionKey: en.session.String(), Stored: true, Events: openEvents(&en.summary, m),
	})
}

func (e *Engine) onClosed(ref subject.Ref, m journal.Message) {
	var ev wire.Ended
	if err := json.Unmarshal(m.Data, &ev); err != nil {
		e.log.Error("a closed event cannot be read", "seq", m.Seq, "error", err)
		return
	}
	e.remove(ref)
	c := ev.Closed
	e.closed.add(ref, &c)
	key := subject.NewSession(c.Tenant, c.Owner, c.SessionID)
	e.dirty[key] = append(e.dirty[key], c)
	signal(e.flush)
	e.publish(Update{SessionKey: key.String(), Stored: true, Events: closedEvents(&c, m)})
}

// openEvents expands an open event, in the order that clients rely on.
func openEvents(s *wire.Summary, m journal.Message) []wire.Event {
	pending := data(map[string]any{
		"tool_call_id": s.ToolCallID, "interaction_id": s.RequestID, "key": s.Key,
		"tool_name": s.ToolName, "pending": true, "presentation": s.Presentation,
	})
	out := []wire.Event{
		{Type: hitl.EventInteractionPending, Data: pending},
		{Type: hitl.EventInteractionRequest, Data: data(s)},
	}
	switch s.Kind {
	case hitl.KindApproval:
		out = append(out, wire.Event{Type: hitl.EventApprovalRequired, Data: data(map[string]any{
			"tool_call_id": s.ToolCallID, "interaction_id": s.RequestID, "tool_name": s.ToolName,
			"input": s.ToolInput, "cut": s.Cut,
		})})
	case hitl.KindQuestion:
		var qs []wire.Question
		if s.Body != nil {
			qs = s.Body.Questions
		}
		out = append(out, wire.Event{Type: hitl.EventQuestionPrompt, Data: data(map[string]any{
			"tool_call_id": s.ToolCallID, "interaction_id": s.RequestID, "questions": qs, "cut": qs == nil,
		})})
	}
	for i := range out {
		out[i].At = m.Time
	}
	return out
}

func closedEvents(c *wire.Closed, m journal.Message) []wire.Event {
	return []wire.Event{
		{Type: hitl.EventInteractionResponse, At: m.Time, Data: data(c)},
		{Type: hitl.EventInteractionPending, At: m.Time, Data: data(map[string]any{
			"tool_call_id": c.ToolCallID, "interaction_id": c.RequestID, "key": c.Key,
			"tool_name": c.ToolName, "pending": false, "presentation": c.Presentation,
		})},
	}
}

func data(v any) json.RawMessage {
	raw, err := hitl.Marshal(v)
	if err != nil { // no type here can fail
		panic(err)
	}
	return raw
}

// onTranscript applies one message of HITL_TRANSCRIPTS. Agents write there:
// what does not fit is dropped.
func (e *Engine) onTranscript(m journal.Message) error {
	p, err := subject.Parse(m.Subject)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pos.transcripts = int64(m.Seq)
	if err != nil {
		return nil
	}
	switch p.Kind {
	case "ses":
		var s hitl.SessionState
		if json.Unmarshal(m.Data, &s) == nil {
			e.onSession(p.SessionRef(), s, m)
		}
	case "evt":
		if ev, ok := agentEvent(m); ok {
			e.publish(Update{SessionKey: p.SessionRef().String(), Stored: true, Events: []wire.Event{ev}})
		}
	case "ack":
		e.onAck(p.Ref(), m)
	}
	return nil
}

func (e *Engine) onAck(ref subject.Ref, m journal.Message) {
	a, ok := readAck(m)
	if !ok {
		return
	}
	e.closed.trail(ref, a)
	var session subject.Session
	var id string
	if c := e.closed.get(ref); c != nil {
		session, id = subject.NewSession(c.Tenant, c.Owner, c.SessionID), c.RequestID
	} else if en := e.open[ref]; en != nil {
		session, id = en.session, en.summary.RequestID
	} else {
		return
	}
	e.publish(Update{
		SessionKey: session.String(), Stored: true,
		All: data(wire.Delivery{
			Type: wire.TypeDelivery, Cursor: e.pos.String(), RequestID: id, Key: ref.String(),
			SessionKey: session.String(), Ack: a,
		}),
	})
}

// readAck takes the stage from the subject and the time from the server.
func readAck(m journal.Message) (hitl.Ack, bool) {
	var a hitl.Ack
	p, err := subject.Parse(m.Subject)
	if err != nil || json.Unmarshal(m.Data, &a) != nil {
		return a, false
	}
	switch p.Tail {
	case hitl.Delivered, hitl.Applied, hitl.Refused:
	default:
		return a, false
	}
	a.Stage, a.At, a.Detail = p.Tail, m.Time, visible(a.Detail)
	return a, true
}

// agentEvent checks what a worker tells of its conversation and makes it fit
// for people: tool input becomes display text.
func agentEvent(m journal.Message) (wire.Event, bool) {
	var ev hitl.Event
	if json.Unmarshal(m.Data, &ev) != nil || !hitl.AgentMaySend(ev.Type) {
		return wire.Event{}, false
	}
	out := wire.Event{Type: ev.Type, At: m.Time, Data: ev.Data}
	if ev.Type == hitl.EventToolCallEnd {
		var in struct {
			ToolCallID string          `json:"tool_call_id"`
			ToolName   string          `json:"tool_name"`
			Input      json.RawMessage `json:"input"`
		}
		if json.Unmarshal(ev.Data, &in) != nil {
			return wire.Event{}, false
		}
		text, _ := hitl.DisplayJSON(in.Input)
		blocks := hitl.View(&hitl.Request{Tool: &hitl.Tool{Name: in.ToolName, Input: in.Input}})
		out.Data = data(map[string]any{
			"tool_call_id": in.ToolCallID, "tool_name": visible(in.ToolName), "input": text, "blocks": blocks,
		})
	}
	if len(out.Data) == 0 {
		out.Data = json.RawMessage(`{}`)
	}
	return out, true
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
			e.publish(Update{SessionKey: key.String(), All: data(st), Stored: true})
		}
		clear(e.dirty)
		e.mu.Unlock()
	}
}

// publish hands an update to the watchers. Called with the lock held.
func (e *Engine) publish(u Update) {
	if u.Stored {
		u.Cursor = e.pos.String()
		for i := range u.Events {
			u.Events[i].Cursor = u.Cursor
		}
	}
	if u.All != nil {
		e.ring = append(e.ring, Update{Cursor: u.Cursor, All: u.All})
		if len(e.ring) > ringSize {
			drop := len(e.ring) - ringSize*3/4
			e.ringFrom, _ = parseCursor(e.ring[drop-1].Cursor)
			e.ring = append([]Update(nil), e.ring[drop:]...)
		}
	}
	for _, fn := range e.watchers {
		fn(u)
	}
}

// Watch implements API.
func (e *Engine) Watch(cursor string, fn func(Update)) Watch {
	e.mu.Lock()
	defer e.mu.Unlock()
	w := Watch{Cursor: e.pos.String()}
	if c, ok := parseCursor(cursor); ok && c.covers(e.ringFrom) && e.pos.covers(c) {
		w.Recovered = true
		for _, u := range e.ring {
			if u.After(cursor) {
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

// Cursor implements API.
func (e *Engine) Cursor() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.pos.String()
}
