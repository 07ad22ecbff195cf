package wire

import (
	"encoding/json"

	"github.com/banksman/banksman/pkg/hitl"
)

// The data of an Event by its type. Every text is display text. Where a worker
// tells the step, fields may be absent or null, and there may be more of them.

// TextData is the data of text and text_delta.
type TextData struct {
	BlockID string `json:"block_id,omitempty"`
	Role    string `json:"role,omitempty"` // user or assistant
	Text    string `json:"text,omitempty"`
	// Attachments are what came with a person's text, without the content.
	Attachments []AttachmentData `json:"attachments,omitempty"`
	// ParentToolCallID names the call whose sub-agent this is a part of.
	ParentToolCallID string `json:"parent_tool_call_id,omitempty"`
}

// AttachmentData is an attachment as the conversation shows it.
type AttachmentData struct {
	Kind      string `json:"kind,omitempty"` // image or document
	MediaType string `json:"media_type,omitempty"`
	Name      string `json:"name,omitempty"`
}

// ToolCallData is the data of tool_call_start and tool_call_delta.
type ToolCallData struct {
	ToolCallID       string `json:"tool_call_id,omitempty"`
	ToolName         string `json:"tool_name,omitempty"`
	Text             string `json:"text,omitempty"` // of the input, as far as it came
	ParentToolCallID string `json:"parent_tool_call_id,omitempty"`
}

// ToolCallEndData is the data of tool_call_end: the gateway made it from what
// the worker told.
type ToolCallEndData struct {
	ToolCallID       string       `json:"tool_call_id"`
	ToolName         string       `json:"tool_name"`
	Input            string       `json:"input"` // JSON text to show
	Blocks           []hitl.Block `json:"blocks"`
	ParentToolCallID string       `json:"parent_tool_call_id,omitempty"`
}

// ToolResultData is the data of tool_result.
type ToolResultData struct {
	ToolCallID       string          `json:"tool_call_id,omitempty"`
	Content          json.RawMessage `json:"content,omitempty"` // a text, or the runtime's own blocks
	IsError          bool            `json:"is_error,omitempty"`
	ParentToolCallID string          `json:"parent_tool_call_id,omitempty"`
}

// ErrorData is the data of error.
type ErrorData struct {
	Message string `json:"message,omitempty"`
}

// DoneData is the data of done.
type DoneData struct {
	// Reason is end_turn, interrupted, or the runtime's own.
	Reason string `json:"reason,omitempty"`
}

// StatusData is the data of session_status.
type StatusData struct {
	State      string `json:"state,omitempty"`
	Error      string `json:"error,omitempty"`
	KillReason string `json:"kill_reason,omitempty"`
	Mode       string `json:"mode,omitempty"`
	Generation int    `json:"generation,omitempty"`
	Note       string `json:"note,omitempty"` // the worker's own, beside the state
}

// PendingData is the data of interaction_pending: the one sign that something
// waits, or no longer does.
type PendingData struct {
	ToolCallID    string `json:"tool_call_id"`
	InteractionID string `json:"interaction_id"`
	Key           string `json:"key"`
	ToolName      string `json:"tool_name"`
	Pending       bool   `json:"pending"`
	Presentation  string `json:"presentation"` // tool or questionnaire
	ProjectID     string `json:"project_id,omitempty"`
}

// ApprovalData is the data of approval_required, the request in simple form.
type ApprovalData struct {
	ToolCallID    string `json:"tool_call_id"`
	InteractionID string `json:"interaction_id"`
	ToolName      string `json:"tool_name"`
	Input         string `json:"input"` // JSON text to show
	Cut           bool   `json:"cut"`   // Input is not whole
	ProjectID     string `json:"project_id,omitempty"`
}

// QuestionData is the data of question_prompt, the request in simple form.
type QuestionData struct {
	ToolCallID    string     `json:"tool_call_id"`
	InteractionID string     `json:"interaction_id"`
	Questions     []Question `json:"questions"`
	Cut           bool       `json:"cut"` // Questions are to be fetched
	ProjectID     string     `json:"project_id,omitempty"`
}
