package protocol

import "encoding/json"

// Event is one thing the CLI reported. The concrete types are in this file.
// A Parent is the tool call that runs the sub-agent the event belongs to;
// empty for the main conversation.
type Event interface{ event() }

// Init starts every turn.
type Init struct {
	SessionID string
	Model     string
	Mode      string
	Dir       string
	Version   string
	Tools     []string
}

// TextDelta is a piece of a text that Text later gives whole.
type TextDelta struct {
	Text   string
	Parent string
}

// Text is a whole text block of the model.
type Text struct {
	Text   string
	Parent string
}

// ToolCallStart says that the model has begun to write a tool call.
type ToolCallStart struct {
	ID     string
	Name   string
	Parent string
}

// ToolCallDelta is a piece of the input exactly as the model wrote it.
type ToolCallDelta struct {
	ID     string
	Input  string
	Parent string
}

// ToolCallEnd has the whole input as the CLI understood it. This, not the
// deltas, is what it is about to run: it rounds numbers beyond 2^53.
type ToolCallEnd struct {
	ID     string
	Name   string
	Input  json.RawMessage
	Parent string
}

// ToolResult is what the model is told about a call.
type ToolResult struct {
	ToolUseID string
	Text      string // the text blocks, joined by newlines
	IsError   bool
	Raw       json.RawMessage // the whole block
	Parent    string
}

// Ask wants consent for a tool call, or answers if ToolName is
// AskUserQuestion. The call waits until Allow or Deny.
type Ask struct {
	RequestID          string
	ToolName           string
	DisplayName        string
	Title              string
	Description        string
	Input              json.RawMessage
	ToolUseID          string
	AgentID            string // set when a sub-agent asks
	Suggestions        json.RawMessage
	DecisionReason     string
	DecisionReasonType string
	BlockedPath        string
	MCPServer          string
	Raw                json.RawMessage // the whole control request
}

// Elicitation is a form (or a link) that an MCP server wants filled in.
type Elicitation struct {
	RequestID string
	Server    string
	Message   string
	Mode      string // form or url
	URL       string
	Schema    json.RawMessage
	Raw       json.RawMessage
}

// AskWithdrawn ends an Ask or Elicitation from the CLI's side.
type AskWithdrawn struct{ RequestID string }

// Status reports a change of the permission mode.
type Status struct{ Mode string }

// SessionState is running, requires_action or idle.
type SessionState struct{ State string }

// TurnEnded ends a turn. Asks of background agents may still be open.
type TurnEnded struct {
	SessionID string
	Subtype   string // success, error_during_execution, ...
	Reason    string // completed, aborted_tools, tool_deferred, ...
	IsError   bool
	Text      string
	Raw       json.RawMessage
}

// Exited is the last event.
type Exited struct {
	// Code is the exit code, or 128 plus the signal's number. 1 is usual after
	// an interrupted turn: judge turns by TurnEnded.
	Code int
	// Stderr is the end of the CLI's error output. It may quote tool input.
	Stderr string
	// Open lists the requests that were waiting for an answer.
	Open []string
	// Err is set when the driver killed the CLI because of its output.
	Err error
}

func (Init) event()          {}
func (TextDelta) event()     {}
func (Text) event()          {}
func (ToolCallStart) event() {}
func (ToolCallDelta) event() {}
func (ToolCallEnd) event()   {}
func (ToolResult) event()    {}
func (Ask) event()           {}
func (Elicitation) event()   {}
func (AskWithdrawn) event()  {}
func (Status) event()        {}
func (SessionState) event()  {}
func (TurnEnded) event()     {}
func (Exited) event()        {}
