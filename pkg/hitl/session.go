package hitl

import (
	"encoding/json"
	"time"
)

// Session states. Pending is a field beside the state, not a state.
const (
	StateStarting      = "starting"
	StateAssistantTurn = "assistant_turn"
	StateUserTurn      = "user_turn"
	StateDead          = "dead"
)

// SessionState is what a worker says of a session it runs.
type SessionState struct {
	V              int       `json:"v"`
	SessionID      string    `json:"session_id"`
	ProjectID      string    `json:"project_id,omitempty"`
	Tenant         string    `json:"tenant"`
	Owner          string    `json:"owner"`
	Worker         string    `json:"worker"`
	Generation     int       `json:"generation"`
	Runtime        string    `json:"runtime"`
	Title          string    `json:"title,omitempty"`
	Cwd            string    `json:"cwd,omitempty"`
	State          string    `json:"state"`
	StartedAt      time.Time `json:"started_at"`
	StateChangedAt time.Time `json:"state_changed_at"`
	Mode           string    `json:"mode,omitempty"`
	Model          string    `json:"model,omitempty"`
	Memory         int64     `json:"memory,omitempty"` // bytes
	Error          string    `json:"error,omitempty"`
	KillReason     string    `json:"kill_reason,omitempty"`
}

// Event types of a session's stream. Deltas travel live only; replay has the
// whole block.
const (
	EventTextDelta           = "text_delta"           // {block_id, text}
	EventText                = "text"                 // {role: user|assistant, text, block_id?}
	EventToolCallStart       = "tool_call_start"      // {tool_call_id, tool_name}
	EventToolCallDelta       = "tool_call_delta"      // {tool_call_id, text}
	EventToolCallEnd         = "tool_call_end"        // {tool_call_id, tool_name, input}
	EventToolResult          = "tool_result"          // {tool_call_id, content, is_error}
	EventInteractionPending  = "interaction_pending"  // {tool_call_id, interaction_id, tool_name, pending, presentation?}
	EventInteractionRequest  = "interaction_request"  // the request summary
	EventApprovalRequired    = "approval_required"    // {tool_call_id, interaction_id, tool_name, input}
	EventQuestionPrompt      = "question_prompt"      // {tool_call_id, interaction_id, questions}
	EventInteractionResponse = "interaction_response" // {interaction_id, tool_call_id, decision}
	EventError               = "error"                // {message}
	EventDone                = "done"                 // {reason}
	EventSessionStatus       = "session_status"       // {state, ...}
	EventInteractionDelivery = "interaction_delivery" // {interaction_id, stage, detail?}
)

// Event is one step of a conversation as its worker tells it.
type Event struct {
	V    int             `json:"v"`
	Type string          `json:"type"`
	Data json.RawMessage `json:"data"`
}

// AgentMaySend reports whether workers may publish events of this type;
// everything about interactions comes from gateways alone.
func AgentMaySend(eventType string) bool {
	switch eventType {
	case EventTextDelta, EventText, EventToolCallStart, EventToolCallDelta, EventToolCallEnd,
		EventToolResult, EventError, EventDone, EventSessionStatus:
		return true
	}
	return false
}

// Command types a gateway sends to the worker of a session.
const (
	CommandMessage   = "message"
	CommandInterrupt = "interrupt"
	CommandStop      = "stop"
	CommandSetMode   = "set_mode"
)

// Attachment is an image or a document beside a prompt.
type Attachment struct {
	Kind      string `json:"kind"` // image or document
	MediaType string `json:"media_type"`
	Name      string `json:"name,omitempty"`
	DataB64   string `json:"data_b64"`
}

// Command asks the worker of a session to do something. The worker remembers
// command ids, so that a repeated command is done once.
type Command struct {
	V           int          `json:"v"`
	CommandID   string       `json:"command_id"`
	Type        string       `json:"type"`
	Text        string       `json:"text,omitempty"`
	Attachments []Attachment `json:"attachments,omitempty"`
	Mode        string       `json:"mode,omitempty"`
}

// CommandReply is the worker's word on a command: ok, duplicate, invalid,
// not_found or failed.
type CommandReply struct {
	Status string `json:"status"`
	Error  string `json:"error,omitempty"`
}

// Start asks any worker of a pool to run a new session.
type Start struct {
	V           int          `json:"v"`
	SessionID   string       `json:"session_id"`
	Tenant      string       `json:"tenant"`
	Pool        string       `json:"pool"`
	ProjectID   string       `json:"project_id,omitempty"`
	Runtime     string       `json:"runtime"` // claude, demo
	Prompt      string       `json:"prompt"`
	Attachments []Attachment `json:"attachments,omitempty"`
	Cwd         string       `json:"cwd,omitempty"`
	Mode        string       `json:"mode,omitempty"`
	Model       string       `json:"model,omitempty"`
	StartedBy   Principal    `json:"started_by"`
}

// Beat is a worker's heartbeat.
type Beat struct {
	V        int       `json:"v"`
	Worker   string    `json:"worker"`
	Runtimes []string  `json:"runtimes"`
	Sessions []string  `json:"sessions"`
	At       time.Time `json:"at"`
}
