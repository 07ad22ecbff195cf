package worker

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/services/agent/internal/runtime"
)

// maxText bounds a text in a stored event, in bytes; what is cut says so.
const maxText = 256 << 10

// encodeEvent makes the stored form of what a run reports; nil for what is no
// event of the stream.
func encodeEvent(e runtime.Event) *hitl.Event {
	kind, data := "", map[string]any{}
	parent := ""
	switch e := e.(type) {
	case runtime.Text:
		kind, parent = hitl.EventText, e.Parent
		data["role"], data["text"] = e.Role, bounded(e.Text)
		if e.BlockID != "" {
			data["block_id"] = e.BlockID
		}
	case runtime.ToolStart:
		kind, parent = hitl.EventToolCallStart, e.Parent
		data["tool_call_id"], data["tool_name"] = e.ID, e.Name
	case runtime.ToolEnd:
		kind, parent = hitl.EventToolCallEnd, e.Parent
		data["tool_call_id"], data["tool_name"] = e.ID, e.Name
		// The gateway makes display text of it, so that no browser parses it.
		data["input"] = e.Input
		// What readers could take for two things goes as the text that it is.
		whole := append(append([]byte(`{"data":{"input":`), e.Input...), "}}"...)
		if len(e.Input) > maxText || hitl.CheckJSON(whole) != nil {
			data["input"] = bounded(string(e.Input))
		}
	case runtime.ToolResult:
		kind, parent = hitl.EventToolResult, e.Parent
		data["tool_call_id"], data["content"], data["is_error"] = e.ID, bounded(e.Content), e.IsError
	case runtime.Problem:
		kind = hitl.EventError
		data["message"] = bounded(e.Message)
	case runtime.Note:
		kind = hitl.EventSessionStatus
		data["note"] = bounded(e.Message)
	case runtime.TurnDone:
		kind = hitl.EventDone
		data["reason"] = e.Reason
	default:
		return nil
	}
	if parent != "" {
		data["parent_tool_call_id"] = parent
	}
	return event(kind, data)
}

func event(kind string, data map[string]any) *hitl.Event {
	raw, err := hitl.Marshal(data)
	if err != nil { // strings, booleans and lists of them always encode
		raw = json.RawMessage(`{}`)
	}
	return &hitl.Event{V: 1, Type: kind, Data: raw}
}

// promptEvent is a person's prompt, without the content of its attachments.
func promptEvent(p runtime.Prompt) *hitl.Event {
	data := map[string]any{"role": "user", "text": bounded(p.Text)}
	if len(p.Attachments) > 0 {
		type shown struct {
			Kind      string `json:"kind"`
			MediaType string `json:"media_type"`
			Name      string `json:"name,omitempty"`
		}
		var list []shown
		for _, a := range p.Attachments {
			list = append(list, shown{a.Kind, a.MediaType, a.Name})
		}
		data["attachments"] = list
	}
	return event(hitl.EventText, data)
}

func bounded(s string) string {
	if len(s) <= maxText {
		return s
	}
	n := maxText
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + fmt.Sprintf("\n[cut: %d of %d bytes are shown]", n, len(s))
}
