package card

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
)

// Opened expands an open event, in the order that clients rely on.
func Opened(s *wire.Summary, m journal.Message) []wire.Event {
	out := []wire.Event{
		{Type: hitl.EventInteractionPending, Data: pending(s, true)},
		{Type: hitl.EventInteractionRequest, Data: Encode(s)},
	}
	switch s.Kind {
	case hitl.KindApproval:
		// The simple form promises JSON text. The summary has less than that.
		input, cut := s.ToolInput, true
		if s.Body != nil {
			input, _ = hitl.DisplayJSON(json.RawMessage(s.Body.Input))
			cut = false
		}
		out = append(out, wire.Event{Type: hitl.EventApprovalRequired, Data: Encode(wire.ApprovalData{
			ToolCallID: s.ToolCallID, InteractionID: s.RequestID, ToolName: s.ToolName, Input: input, Cut: cut, ProjectID: s.ProjectID,
		})})
	case hitl.KindQuestion:
		var qs []wire.Question
		if s.Body != nil {
			qs = s.Body.Questions
		}
		out = append(out, wire.Event{Type: hitl.EventQuestionPrompt, Data: Encode(wire.QuestionData{
			ToolCallID: s.ToolCallID, InteractionID: s.RequestID, Questions: qs, Cut: qs == nil, ProjectID: s.ProjectID,
		})})
	}
	for i := range out {
		out[i].At = m.Time
	}
	return out
}

// Closed expands a closed event.
func Closed(c *wire.Closed, m journal.Message) []wire.Event {
	return []wire.Event{
		{Type: hitl.EventInteractionResponse, At: m.Time, Data: Encode(c)},
		{Type: hitl.EventInteractionPending, At: m.Time, Data: pending(&c.Summary, false)},
	}
}

func pending(s *wire.Summary, pending bool) json.RawMessage {
	return Encode(wire.PendingData{
		ToolCallID: s.ToolCallID, InteractionID: s.RequestID, Key: s.Key, ToolName: s.ToolName,
		Pending: pending, Presentation: s.Presentation, ProjectID: s.ProjectID,
	})
}

// Encode encodes what always can be.
func Encode(v any) json.RawMessage {
	raw, err := hitl.Marshal(v)
	if err != nil { // no type here can fail
		panic(err)
	}
	return raw
}

// ReadAck takes the stage from the subject and the time from the server.
func ReadAck(m journal.Message) (hitl.Ack, bool) {
	var a hitl.Ack
	p, err := subject.Parse(m.Subject)
	if err != nil || hitl.Decode(m.Data, "ack", &a) != nil {
		return a, false
	}
	switch p.Tail {
	case hitl.Delivered, hitl.Applied, hitl.Refused:
	default:
		return a, false
	}
	a.Stage, a.At, a.Detail = p.Tail, m.Time, Line(a.Detail)
	return a, true
}

// FromAgent checks what a worker tells of its conversation and makes it fit
// for people: tool input becomes display text. What browsers could not read, or
// not in one way, is dropped.
func FromAgent(m journal.Message) (wire.Event, bool) {
	var ev hitl.Event
	if hitl.Decode(m.Data, "event", &ev) != nil || !hitl.AgentMaySend(ev.Type) {
		return wire.Event{}, false
	}
	out := wire.Event{Type: ev.Type, At: m.Time, Data: ev.Data}
	if ev.Type == hitl.EventToolCallEnd {
		var in struct {
			ToolCallID string          `json:"tool_call_id"`
			ToolName   string          `json:"tool_name"`
			Input      json.RawMessage `json:"input"`
			Parent     string          `json:"parent_tool_call_id"`
		}
		if json.Unmarshal(ev.Data, &in) != nil {
			return wire.Event{}, false
		}
		text, _ := hitl.DisplayJSON(in.Input)
		blocks := hitl.View(&hitl.Request{Tool: &hitl.Tool{Name: in.ToolName, Input: in.Input}})
		out.Data = Encode(wire.ToolCallEndData{
			ToolCallID: in.ToolCallID, ToolName: Line(in.ToolName), Input: text, Blocks: blocks, ParentToolCallID: in.Parent,
		})
	}
	switch {
	case len(out.Data) == 0 || string(out.Data) == "null":
		out.Data = json.RawMessage(`{}`)
	case ev.Type != hitl.EventToolCallEnd: // that one is display text already
		if json.Unmarshal(out.Data, shape(ev.Type)) != nil {
			return wire.Event{}, false
		}
		out.Data = showText(out.Data)
	}
	return out, true
}

// shape is what the data of a worker's event has to fit; it may have more.
func shape(eventType string) any {
	switch eventType {
	case hitl.EventText, hitl.EventTextDelta:
		return new(wire.TextData)
	case hitl.EventToolResult:
		return new(wire.ToolResultData)
	case hitl.EventError:
		return new(wire.ErrorData)
	case hitl.EventDone:
		return new(wire.DoneData)
	case hitl.EventSessionStatus:
		return new(wire.StatusData)
	}
	return new(wire.ToolCallData)
}

// Status is a session's state, as ReadState returned it, as an event.
func Status(st *hitl.SessionState, m journal.Message) wire.Event {
	return wire.Event{Type: hitl.EventSessionStatus, At: m.Time, Data: Encode(wire.StatusData{
		State: st.State, Error: st.Error, KillReason: st.KillReason, Mode: st.Mode, Generation: st.Generation,
	})}
}

// Stored expands a stored open or closed event.
func Stored(m journal.Message) []wire.Event {
	p, err := subject.Parse(m.Subject)
	if err != nil {
		return nil
	}
	if p.Tail == subject.Open {
		var ev wire.Opened
		if json.Unmarshal(m.Data, &ev) != nil {
			return nil
		}
		if raw, err := base64.StdEncoding.DecodeString(ev.RequestB64); err == nil && len(raw) > 0 {
			if r, err := hitl.ParseRequest(raw); err == nil {
				ev.Summary.Body = Small(Body(r, raw, Admission{RequestedAt: ev.CreatedAt, Policy: ev.Policy, RiskReason: ev.RiskReason}))
			}
		}
		return Opened(&ev.Summary, m)
	}
	var ev wire.Ended
	if json.Unmarshal(m.Data, &ev) != nil {
		return nil
	}
	return Closed(&ev.Closed, m)
}

// showText makes the invisible visible in every text of a JSON document that an
// agent sent, however deep it stands. Keys and ids stay as they are: clients
// find things by them. One pass, because the agent chose size and depth.
func showText(raw json.RawMessage) json.RawMessage {
	var out []byte
	done := 0 // of raw, what out has
	key := ""
	for i := 0; i < len(raw); i++ {
		if raw[i] != '"' {
			continue
		}
		end := literal(raw, i)
		lit := raw[i:end]
		if next := bytes.TrimLeft(raw[end:], " \t\r\n"); len(next) > 0 && next[0] == ':' {
			key = string(lit[1 : len(lit)-1])
		} else if text, hidden, ok := hitl.DisplayString(lit); ok && hidden > 0 && !strings.HasSuffix(key, "_id") {
			out = append(append(out, raw[done:i]...), Encode(text)...)
			done = end
		}
		i = end - 1
	}
	if done == 0 {
		return raw
	}
	return append(out, raw[done:]...)
}

// literal is where the string literal that begins at i ends. raw is valid JSON.
func literal(raw []byte, i int) int {
	for i++; raw[i] != '"'; i++ {
		if raw[i] == '\\' {
			i++
		}
	}
	return i + 1
}
