package wire

import (
	"encoding/json"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
)

// Protocol is the version of the frames, told in Hello.
const Protocol = 1

// Types of the frames a server sends.
const (
	TypeHello           = "hello"
	TypeActiveProcesses = "active_processes"
	TypeProcessState    = "process_state"
	TypeEvent           = "event"
	TypeDelivery        = "delivery"
	TypeReceipt         = "receipt"
	TypePing            = "ping"
)

// Types of the frames a client sends.
const (
	TypeAuth         = "auth"
	TypeSubscribe    = "subscribe"
	TypeUnsubscribe  = "unsubscribe"
	TypeResponse     = "pending_request_response"
	TypeSendMessage  = "send_message"
	TypeStartSession = "start_session"
	TypeInterrupt    = "interrupt"
	TypeStopSession  = "stop_session"
	TypeSetMode      = "set_mode"
	TypeSeen         = "seen"
	TypePong         = "pong"
)

// Hello is the first frame after a good Auth. Recovered says that the client's
// cursor was still good and only what it missed follows; otherwise a snapshot
// in ActiveProcesses frames does.
type Hello struct {
	Type       string         `json:"type"`
	Protocol   int            `json:"protocol"`
	Cursor     string         `json:"cursor"`
	ServerTime time.Time      `json:"server_time"`
	Principal  hitl.Principal `json:"principal"`
	Recovered  bool           `json:"recovered"`
	// Runtimes are what the reachable workers can start; empty: no worker.
	Runtimes []string `json:"runtimes"`
	// DefaultCwd is where a new session would run.
	DefaultCwd string `json:"default_cwd,omitempty"`
	// AskCommand is how the program asks from a shell of this machine, up to its flags;
	// absent where the gateway runs apart from it.
	AskCommand string `json:"ask_command,omitempty"`
}

// ActiveProcesses is one page of the snapshot; the last has More false. Until
// then a client must not say that nothing waits.
type ActiveProcesses struct {
	Type     string         `json:"type"`
	Cursor   string         `json:"cursor"`
	Sessions []ProcessState `json:"sessions"`
	More     bool           `json:"more"`
}

// ProcessState is a session with what waits in it. Sent whole after every
// change: absence of a pending request clears it everywhere.
type ProcessState struct {
	Type   string `json:"type,omitempty"` // empty inside ActiveProcesses
	Cursor string `json:"cursor,omitempty"`
	// SessionKey is unique over tenants and owners; SessionID is the asker's
	// own name for it.
	SessionKey string `json:"session_key"`
	hitl.SessionState
	// Unreachable says that the worker misses its heartbeats; answers are
	// still taken.
	Unreachable bool `json:"unreachable,omitempty"`
	// PendingRequests are what waits, oldest first, at most MaxPending of
	// PendingCount: where more wait, those between the oldest and the newest are
	// left out. PendingRequest is the first of them.
	PendingCount    int       `json:"pending_count"`
	PendingRequests []Summary `json:"pending_requests"`
	PendingRequest  *Summary  `json:"pending_request,omitempty"`
	// Closed are the interactions that this change ended.
	Closed []Closed `json:"closed,omitempty"`
}

// MaxPending is how many summaries one ProcessState carries; the rest is had by
// GET /api/interactions.
const MaxPending = 200

// NewestPending of them are the newest, where not all have room: whoever watches
// is told of what begins to wait, however much waits already.
const NewestPending = 100

// Summary is an interaction in a list. It stays under 2 KiB without Body.
type Summary struct {
	RequestID    string     `json:"request_id"`
	Key          string     `json:"key"` // unique over tenants and owners
	RequestType  string     `json:"request_type"`
	Kind         string     `json:"kind"`
	Presentation string     `json:"presentation"` // tool or questionnaire
	SessionID    string     `json:"session_id"`
	SessionKey   string     `json:"session_key"`
	Tenant       string     `json:"tenant"`
	Owner        string     `json:"owner"`
	ProjectID    string     `json:"project_id,omitempty"`
	AgentName    string     `json:"agent_name,omitempty"`
	ToolName     string     `json:"tool_name,omitempty"`
	ToolCallID   string     `json:"tool_call_id,omitempty"`
	Headline     string     `json:"headline"` // made from data by the server
	Title        string     `json:"title"`    // the agent's own words
	ToolInput    string     `json:"tool_input,omitempty"`
	Cut          bool       `json:"cut,omitempty"` // ToolInput is not whole: fetch the body before deciding
	Digest       string     `json:"digest"`
	Risk         string     `json:"risk"`
	RiskReason   string     `json:"risk_reason,omitempty"`
	Irreversible bool       `json:"irreversible,omitempty"` // a part of it cannot be undone
	CreatedAt    time.Time  `json:"created_at"`
	AttentionAt  *time.Time `json:"attention_at,omitempty"`
	ExpiresAt    *time.Time `json:"expires_at,omitempty"`
	ServerTime   time.Time  `json:"server_time"`
	Attempt      int        `json:"attempt,omitempty"` // above 1: asked again
	Unreachable  bool       `json:"unreachable,omitempty"`
	Body         *Body      `json:"body,omitempty"` // when it is small
}

// Body is what a person must see of an interaction before deciding: display
// text only, nothing for a browser to parse.
type Body struct {
	Blocks    []hitl.Block       `json:"blocks,omitempty"`
	Questions []Question         `json:"questions,omitempty"`
	Parts     []Part             `json:"parts,omitempty"`      // of a shell command, in the order they are written
	MoreParts int                `json:"more_parts,omitempty"` // that are not listed; they count for the risk
	Schema    string             `json:"schema,omitempty"`     // of a form, as text
	Fields    []FormField        `json:"fields,omitempty"`     // of a form, in their order
	Message   string             `json:"message,omitempty"`
	Reason    string             `json:"reason,omitempty"`
	Cwd       string             `json:"cwd,omitempty"`
	Options   []hitl.AgentOption `json:"options,omitempty"`
	Verbs     []string           `json:"verbs"`            // what may be answered
	Scopes    []string           `json:"scopes"`           // once, and session where the agent offers it
	Grants    []string           `json:"grants,omitempty"` // what else the scope session lets through, a sentence each
	Input     string             `json:"input,omitempty"`  // the whole tool input as JSON text, for editing
	Link      string             `json:"link,omitempty"`   // an address that a person may open from here, by pressing it
	// Shown is the digest of all that is shown of the interaction: this, the
	// headline, the risk and the times. Whoever answers names it.
	Shown string `json:"shown,omitempty"`
}

// Part is one command of a shell command that runs several.
type Part = hitl.Part

// FormField is a field of a form as browsers show it. What is filled in is sent
// under Name, which alone is no display text. Numbers are text, verbatim.
type FormField struct {
	Name        string `json:"name"`
	Label       string `json:"label"`
	Description string `json:"description,omitempty"`
	// Type is string, number, integer, boolean or array, which is a choice of
	// several.
	Type      string   `json:"type"`
	Format    string   `json:"format,omitempty"`
	Required  bool     `json:"required"`
	Choices   []Choice `json:"choices,omitempty"`
	Minimum   string   `json:"minimum,omitempty"`
	Maximum   string   `json:"maximum,omitempty"`
	MinLength int      `json:"min_length,omitempty"`
	MaxLength int      `json:"max_length,omitempty"`
	Suggested string   `json:"suggested,omitempty"` // the default of the form, as JSON; nobody has chosen it
}

// Choice is a value that a field takes, as JSON, and its name for people.
type Choice struct {
	JSON  string `json:"json"`
	Label string `json:"label"`
}

// Question is a question as browsers show it; every text is display text.
type Question struct {
	ID                string   `json:"id"`
	Header            string   `json:"header,omitempty"`
	Question          string   `json:"question"`
	Options           []Option `json:"options"`
	MultiSelect       bool     `json:"multi_select"`
	AllowOther        bool     `json:"allow_other"`
	FreeTextExclusive bool     `json:"free_text_exclusive,omitempty"`
	Required          bool     `json:"required"`
}

// Option is a choice as browsers show it. Value is sent back as it is.
type Option struct {
	Value       string `json:"value"`
	Label       string `json:"label"`
	Description string `json:"description,omitempty"`
	Preview     string `json:"preview,omitempty"`
}

// Closed is an interaction that has its outcome.
type Closed struct {
	Summary
	State    string         `json:"state"` // closed
	Outcome  hitl.Outcome   `json:"outcome"`
	Decision *hitl.Decision `json:"decision,omitempty"` // without the request
	Trail    []hitl.Ack     `json:"trail,omitempty"`
}

// Interaction is the whole of one, as GET /api/interactions/{id} returns it.
type Interaction struct {
	ID string `json:"id"`
	Summary
	State    string         `json:"state"` // pending or closed
	Outcome  hitl.Outcome   `json:"outcome,omitempty"`
	Decision *hitl.Decision `json:"decision,omitempty"`
	Trail    []hitl.Ack     `json:"trail,omitempty"`
}

// Interaction states.
const (
	StatePending = "pending"
	StateClosed  = "closed"
	// StateDecided asks for the record in place of what is in memory.
	StateDecided = "decided"
)

// Events carries one or more steps of a subscribed session's stream, in order.
type Events struct {
	Type       string  `json:"type"`
	SessionID  string  `json:"session_id"`
	SessionKey string  `json:"session_key"`
	Cursor     string  `json:"cursor"`
	Events     []Event `json:"events"`
	// Reset says that the stream starts anew from its beginning: drop what is
	// held of this session.
	Reset bool `json:"reset,omitempty"`
	// More says that the replay goes on in the next frame.
	More bool `json:"more,omitempty"`
}

// Event is one step; Data by type as listed in package hitl, with tool input
// as display text.
type Event struct {
	Type   string          `json:"type"`
	At     time.Time       `json:"at"`
	Cursor string          `json:"cursor,omitempty"` // empty for live deltas
	Data   json.RawMessage `json:"data"`
}

// Delivery tells what became of a decision at the asker.
type Delivery struct {
	Type       string `json:"type"`
	Cursor     string `json:"cursor"`
	RequestID  string `json:"request_id"`
	Key        string `json:"key"`
	SessionKey string `json:"session_key"`
	ProjectID  string `json:"project_id,omitempty"`
	Kind       string `json:"kind,omitempty"`
	hitl.Ack
}

// Receipt answers every client frame that has a ref.
type Receipt struct {
	Type      string `json:"type,omitempty"`
	Ref       string `json:"ref,omitempty"`
	RequestID string `json:"request_id,omitempty"`
	SessionID string `json:"session_id,omitempty"`
	hitl.Receipt
}

// Ping asks the client for a Pong.
type Ping struct {
	Type       string    `json:"type"`
	ServerTime time.Time `json:"server_time"`
}

// Client is any frame of a client, decoded by its type. An hitl.Response is
// the body of a pending_request_response.
type Client struct {
	Type string `json:"type"`
	// Auth.
	Token  string `json:"token,omitempty"`
	Cursor string `json:"cursor,omitempty"`
	// Subscribe.
	From string `json:"from,omitempty"`
	hitl.Response
	// SendMessage, StartSession.
	CommandID   string            `json:"command_id,omitempty"`
	Text        string            `json:"text,omitempty"`
	Attachments []hitl.Attachment `json:"attachments,omitempty"`
	// StartSession.
	Prompt    string `json:"prompt,omitempty"`
	Cwd       string `json:"cwd,omitempty"`
	Mode      string `json:"mode,omitempty"` // SetMode too
	Model     string `json:"model,omitempty"`
	Runtime   string `json:"runtime,omitempty"`
	ProjectID string `json:"project_id,omitempty"`
	Tenant    string `json:"tenant,omitempty"`
	Pool      string `json:"pool,omitempty"`
	// Seen.
	Requests []string `json:"requests,omitempty"`
}

// Error is the body of an HTTP error. Code is stable; Error is for people.
type Error struct {
	Code     string         `json:"code"`
	Error    string         `json:"error"`
	Fields   []hitl.Field   `json:"fields,omitempty"`
	Decision *hitl.Decision `json:"decision,omitempty"`
}

// Close codes. Clients reconnect on the first range and not on the second.
const (
	CloseSlow       = 3000 // the client read too slowly; come back with the cursor
	CloseRestart    = 3001 // the server goes away, or the rights have changed
	CloseStale      = 3002 // no pong
	CloseLate       = 3003 // no auth frame in time: a slow line, not a wrong client
	CloseBadAuth    = 3500 // sign in again
	CloseBadFrame   = 3501 // not JSON, or too large
	CloseTooMany    = 3502 // too many sockets of one user
	CloseNoAuth     = 3503 // the first frame was none of auth
	CloseReconnectX = 3499 // the last code after which a client reconnects
)

// Reconnect reports whether a client should come back after a close code.
func Reconnect(code int) bool { return code < 3000 || code <= CloseReconnectX }
