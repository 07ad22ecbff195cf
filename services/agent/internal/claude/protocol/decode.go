package protocol

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Decoder turns lines into events. It keeps which tool calls have begun, since
// the CLI streams a call and then repeats it whole.
type Decoder struct {
	blocks map[string]string // parent and block index -> id of the tool call
	begun  map[string]bool   // parent and id of tool calls not yet ended
}

func NewDecoder() *Decoder {
	return &Decoder{blocks: map[string]string{}, begun: map[string]bool{}}
}

// Decoded is what one line means. At most one of the pointers is set.
type Decoded struct {
	Events []Event
	Reply  *ControlReply // answers a request of ours
	Refuse *Refusal      // a request of the CLI that is answered with an error
}

type ControlReply struct {
	RequestID string            `json:"request_id"`
	Subtype   string            `json:"subtype"`
	Error     string            `json:"error"`
	Response  json.RawMessage   `json:"response"`
	Pending   []json.RawMessage `json:"pending_permission_requests"`
	Forms     []json.RawMessage `json:"pending_elicitation_requests"`
}

type Refusal struct {
	RequestID string
	Message   string
}

type line struct {
	Type      string          `json:"type"`
	Subtype   string          `json:"subtype"`
	SessionID string          `json:"session_id"`
	Parent    string          `json:"parent_tool_use_id"`
	RequestID string          `json:"request_id"`
	Request   json.RawMessage `json:"request"`
	Response  json.RawMessage `json:"response"`
	Message   json.RawMessage `json:"message"`
	Event     json.RawMessage `json:"event"`

	Model   string          `json:"model"`
	Mode    string          `json:"permissionMode"`
	Dir     string          `json:"cwd"`
	Version string          `json:"claude_code_version"`
	Tools   json.RawMessage `json:"tools"`
	State   string          `json:"state"`

	Reason  string `json:"terminal_reason"`
	IsError bool   `json:"is_error"`
	Result  string `json:"result"`
}

// Decode never keeps b: everything raw is copied out of it.
func (d *Decoder) Decode(b []byte) (Decoded, error) {
	var head struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return Decoded{}, fmt.Errorf("not a JSON object: %w", err)
	}
	switch head.Type {
	case "system", "stream_event", "assistant", "user", "result",
		"control_request", "control_cancel_request", "control_response":
	default:
		return Decoded{}, nil
	}
	var l line
	if err := json.Unmarshal(b, &l); err != nil {
		if head.Type == "control_request" {
			// Without an answer the CLI would wait for ever.
			var id struct {
				RequestID string `json:"request_id"`
			}
			if json.Unmarshal(b, &id) == nil && id.RequestID != "" {
				return Decoded{Refuse: &Refusal{id.RequestID, "unreadable request"}}, nil
			}
		}
		return Decoded{}, fmt.Errorf("%s: %w", head.Type, err)
	}
	switch l.Type {
	case "system":
		return Decoded{Events: d.system(&l)}, nil
	case "stream_event":
		ev, err := d.stream(&l)
		return Decoded{Events: ev}, err
	case "assistant":
		ev, err := d.assistant(&l)
		return Decoded{Events: ev}, err
	case "user":
		ev, err := d.user(&l)
		return Decoded{Events: ev}, err
	case "result":
		return one(TurnEnded{
			SessionID: l.SessionID, Subtype: l.Subtype, Reason: l.Reason,
			IsError: l.IsError, Text: l.Result, Raw: json.RawMessage(append([]byte(nil), b...)),
		}), nil
	case "control_cancel_request":
		return one(AskWithdrawn{RequestID: l.RequestID}), nil
	case "control_response":
		var r ControlReply
		if err := json.Unmarshal(l.Response, &r); err != nil {
			return Decoded{}, fmt.Errorf("control_response: %w", err)
		}
		return Decoded{Reply: &r}, nil
	default:
		return decodeRequest(&l, b)
	}
}

func one(e Event) Decoded { return Decoded{Events: []Event{e}} }

func (d *Decoder) system(l *line) []Event {
	switch l.Subtype {
	case "init":
		var tools []string
		_ = json.Unmarshal(l.Tools, &tools) // a list of another shape is no reason to lose the rest
		return []Event{Init{
			SessionID: l.SessionID, Model: l.Model, Mode: l.Mode,
			Dir: l.Dir, Version: l.Version, Tools: tools,
		}}
	case "status":
		if l.Mode != "" {
			return []Event{Status{Mode: l.Mode}}
		}
	case "session_state_changed":
		return []Event{SessionState{State: l.State}}
	}
	return nil
}

func (d *Decoder) stream(l *line) ([]Event, error) {
	var e struct {
		Type  string `json:"type"`
		Index int    `json:"index"`
		Block struct {
			Type string `json:"type"`
			ID   string `json:"id"`
			Name string `json:"name"`
		} `json:"content_block"`
		Delta struct {
			Type  string `json:"type"`
			Text  string `json:"text"`
			Input string `json:"partial_json"`
		} `json:"delta"`
	}
	if err := json.Unmarshal(l.Event, &e); err != nil {
		return nil, fmt.Errorf("stream_event: %w", err)
	}
	key := fmt.Sprintf("%s\x00%d", l.Parent, e.Index)
	switch e.Type {
	case "content_block_start":
		delete(d.blocks, key)
		if e.Block.Type == "tool_use" {
			d.blocks[key] = e.Block.ID
			d.begun[l.Parent+"\x00"+e.Block.ID] = true
			return []Event{ToolCallStart{ID: e.Block.ID, Name: e.Block.Name, Parent: l.Parent}}, nil
		}
	case "content_block_delta":
		switch e.Delta.Type {
		case "text_delta":
			return []Event{TextDelta{Text: e.Delta.Text, Parent: l.Parent}}, nil
		case "input_json_delta":
			if id := d.blocks[key]; id != "" && e.Delta.Input != "" {
				return []Event{ToolCallDelta{ID: id, Input: e.Delta.Input, Parent: l.Parent}}, nil
			}
		}
	case "content_block_stop":
		delete(d.blocks, key)
	}
	return nil, nil
}

type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	IsError   bool            `json:"is_error"`
}

// contentBlocks reads message.content: a list, or a plain string without blocks.
func contentBlocks(message json.RawMessage) ([]block, []json.RawMessage, error) {
	var m struct {
		Content json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal(message, &m); err != nil {
		return nil, nil, err
	}
	if len(m.Content) == 0 || m.Content[0] != '[' {
		return nil, nil, nil
	}
	var raws []json.RawMessage
	if err := json.Unmarshal(m.Content, &raws); err != nil {
		return nil, nil, err
	}
	blocks := make([]block, len(raws))
	for i, r := range raws {
		if err := json.Unmarshal(r, &blocks[i]); err != nil {
			return nil, nil, err
		}
	}
	return blocks, raws, nil
}

func (d *Decoder) assistant(l *line) ([]Event, error) {
	blocks, _, err := contentBlocks(l.Message)
	if err != nil {
		return nil, fmt.Errorf("assistant: %w", err)
	}
	var out []Event
	for _, b := range blocks {
		switch b.Type {
		case "text":
			out = append(out, Text{Text: b.Text, Parent: l.Parent})
		case "tool_use":
			key := l.Parent + "\x00" + b.ID
			if !d.begun[key] { // not streamed, as with sub-agents
				out = append(out, ToolCallStart{ID: b.ID, Name: b.Name, Parent: l.Parent})
			}
			delete(d.begun, key)
			out = append(out, ToolCallEnd{ID: b.ID, Name: b.Name, Input: b.Input, Parent: l.Parent})
		}
	}
	return out, nil
}

func (d *Decoder) user(l *line) ([]Event, error) {
	blocks, raws, err := contentBlocks(l.Message)
	if err != nil {
		return nil, fmt.Errorf("user: %w", err)
	}
	var out []Event
	for i, b := range blocks {
		if b.Type == "tool_result" {
			out = append(out, ToolResult{
				ToolUseID: b.ToolUseID, Text: resultText(b.Content), IsError: b.IsError,
				Raw: raws[i], Parent: l.Parent,
			})
		}
	}
	return out, nil
}

func resultText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var blocks []block
	if json.Unmarshal(raw, &blocks) != nil {
		return ""
	}
	var parts []string
	for _, b := range blocks {
		if b.Type == "text" {
			parts = append(parts, b.Text)
		}
	}
	return strings.Join(parts, "\n")
}

// decodeRequest reads a request of the CLI. What it does not understand is
// answered with an error, which the CLI takes for a denial. The one exception
// is a dialog: undeclared hosts have to leave it alone.
func decodeRequest(l *line, b []byte) (Decoded, error) {
	if l.RequestID == "" {
		return Decoded{}, errors.New("control_request without request_id")
	}
	var sub struct {
		Subtype string `json:"subtype"`
	}
	if err := json.Unmarshal(l.Request, &sub); err != nil {
		return Decoded{Refuse: &Refusal{l.RequestID, "unreadable request"}}, nil
	}
	switch sub.Subtype {
	case "can_use_tool":
		a, err := decodeAsk(l.RequestID, l.Request, b)
		if err != nil {
			return Decoded{Refuse: &Refusal{l.RequestID, err.Error()}}, nil
		}
		return one(a), nil
	case "elicitation":
		e, err := decodeElicitation(l.RequestID, l.Request, b)
		if err != nil {
			return Decoded{Refuse: &Refusal{l.RequestID, err.Error()}}, nil
		}
		return one(e), nil
	case "request_user_dialog":
		return Decoded{}, nil
	default:
		return Decoded{Refuse: &Refusal{l.RequestID, "unsupported request: " + sub.Subtype}}, nil
	}
}

func decodeAsk(id string, request, whole []byte) (Ask, error) {
	var r struct {
		ToolName    string          `json:"tool_name"`
		DisplayName string          `json:"display_name"`
		Title       string          `json:"title"`
		Description string          `json:"description"`
		Input       json.RawMessage `json:"input"`
		ToolUseID   string          `json:"tool_use_id"`
		AgentID     string          `json:"agent_id"`
		Suggestions json.RawMessage `json:"permission_suggestions"`
		Reason      string          `json:"decision_reason"`
		ReasonType  string          `json:"decision_reason_type"`
		BlockedPath string          `json:"blocked_path"`
		// Open: an object today, perhaps a name another day.
		MCPServer json.RawMessage `json:"mcp_server"`
	}
	if err := json.Unmarshal(request, &r); err != nil {
		return Ask{}, fmt.Errorf("unreadable can_use_tool: %w", err)
	}
	if r.ToolName == "" {
		return Ask{}, errors.New("can_use_tool without tool_name")
	}
	if !isObject(r.Input) {
		return Ask{}, errors.New("can_use_tool without an input object")
	}
	return Ask{
		RequestID: id, ToolName: r.ToolName, DisplayName: r.DisplayName, Title: r.Title,
		Description: r.Description, Input: r.Input, ToolUseID: r.ToolUseID, AgentID: r.AgentID,
		Suggestions: r.Suggestions, DecisionReason: r.Reason, DecisionReasonType: r.ReasonType,
		BlockedPath: r.BlockedPath, MCPServer: serverName(r.MCPServer), Raw: append([]byte(nil), whole...),
	}, nil
}

func serverName(raw json.RawMessage) string {
	var obj struct {
		Name string `json:"name"`
	}
	if json.Unmarshal(raw, &obj) == nil {
		return obj.Name
	}
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return ""
}

func decodeElicitation(id string, request, whole []byte) (Elicitation, error) {
	var r struct {
		Server  string          `json:"mcp_server_name"`
		Message string          `json:"message"`
		Mode    string          `json:"mode"`
		URL     string          `json:"url"`
		Schema  json.RawMessage `json:"requested_schema"`
	}
	if err := json.Unmarshal(request, &r); err != nil {
		return Elicitation{}, fmt.Errorf("unreadable elicitation: %w", err)
	}
	if r.Mode == "" {
		r.Mode = "form"
	}
	return Elicitation{
		RequestID: id, Server: r.Server, Message: r.Message, Mode: r.Mode,
		URL: r.URL, Schema: r.Schema, Raw: append([]byte(nil), whole...),
	}, nil
}

func isObject(raw []byte) bool { return len(raw) > 1 && raw[0] == '{' }
