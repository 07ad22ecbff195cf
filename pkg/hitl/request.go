package hitl

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/banksman/banksman/pkg/hitl/internal/invalid"
)

// Limits of a request, in bytes unless said otherwise.
const (
	MaxRequest    = 1 << 20 // the whole encoded request
	MaxContent    = 1 << 20 // what a decision adds to the request it carries
	MaxQuestions  = 4
	MaxOptions    = 12  // of one question
	MaxChoices    = 64  // options of the agent's own
	MaxTitle      = 500 // runes
	MaxIdentifier = 256 // keys, session ids, tool call ids
)

// RequestLimit is the largest request on a server that takes messages of
// maxPayload bytes: its decision repeats it in base64 and has a content of its
// own.
func RequestLimit(maxPayload int64) int {
	return int(max(0, min(MaxRequest, (maxPayload-64<<10)/3)))
}

// DefaultExpiresIn is how long a request waits when it does not say.
const DefaultExpiresIn = 10 * time.Minute

// Duration travels as a Go duration string, for example "90s" or "10m".
type Duration time.Duration

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf("not a duration such as \"10m\": %q", b)
	}
	*d = Duration(v)
	return nil
}

// Request is what an agent asks. It holds nothing volatile, so that asking
// again with the same key gives the same bytes; worker, attempt and trace
// context travel as headers.
type Request struct {
	V             int             `json:"v"`
	ID            string          `json:"id"`
	Key           string          `json:"key,omitempty"`
	Kind          string          `json:"kind"`
	Tenant        string          `json:"tenant"`
	Owner         string          `json:"owner"`
	SessionID     string          `json:"session_id"`
	ProjectID     string          `json:"project_id,omitempty"`
	ParentSession string          `json:"parent_session,omitempty"`
	AgentName     string          `json:"agent_name,omitempty"`
	TurnID        string          `json:"turn_id,omitempty"`
	ToolCallID    string          `json:"tool_call_id,omitempty"`
	Title         string          `json:"title"`
	Message       string          `json:"message,omitempty"`
	Reason        string          `json:"reason,omitempty"`
	Risk          string          `json:"risk,omitempty"`
	Tool          *Tool           `json:"tool,omitempty"`
	Questions     []Question      `json:"questions,omitempty"`
	Schema        json.RawMessage `json:"schema,omitempty"`
	Data          json.RawMessage `json:"data,omitempty"` // object; what a kind of its own needs
	URL           string          `json:"url,omitempty"`
	Options       []AgentOption   `json:"options,omitempty"`
	Suggestions   json.RawMessage `json:"suggestions,omitempty"`
	Allowed       []string        `json:"allowed,omitempty"`
	Audience      string          `json:"audience,omitempty"`
	ExpiresIn     *Duration       `json:"expires_in,omitempty"`   // default DefaultExpiresIn; 0 = no deadline
	AttentionIn   *Duration       `json:"attention_in,omitempty"` // default half of ExpiresIn
	Source        *Source         `json:"source,omitempty"`
}

// Tool is the call that wants consent. Input is kept byte for byte.
type Tool struct {
	Name        string          `json:"name"`
	DisplayName string          `json:"display_name,omitempty"`
	Server      string          `json:"server,omitempty"`
	Kind        string          `json:"kind,omitempty"`
	Input       json.RawMessage `json:"input"`
	InputSchema json.RawMessage `json:"input_schema,omitempty"`
	Description string          `json:"description,omitempty"`
	Cwd         string          `json:"cwd,omitempty"`
	Paths       []string        `json:"paths,omitempty"`
	Diff        json.RawMessage `json:"diff,omitempty"`
	BlockedPath string          `json:"blocked_path,omitempty"`
}

// Question is one of the questions of a request of kind question.
type Question struct {
	ID                string   `json:"id,omitempty"` // default: its index
	Header            string   `json:"header,omitempty"`
	Question          string   `json:"question"`
	Options           []Option `json:"options"`
	MultiSelect       bool     `json:"multi_select,omitempty"`
	AllowOther        *bool    `json:"allow_other,omitempty"` // default true
	FreeTextExclusive bool     `json:"free_text_exclusive,omitempty"`
	Required          *bool    `json:"required,omitempty"` // default true
	Secret            bool     `json:"secret,omitempty"`   // refused until sealed answers exist
}

// Option is one choice. Value defaults to Label.
type Option struct {
	Value       string `json:"value,omitempty"`
	Label       string `json:"label"`
	Description string `json:"description,omitempty"`
	Preview     string `json:"preview,omitempty"`
}

// AgentOption is a choice of the agent's own, answered by its OptionID.
type AgentOption struct {
	OptionID string `json:"option_id"`
	Name     string `json:"name"`
	Kind     string `json:"kind,omitempty"`
	Scope    string `json:"scope,omitempty"`
	Effect   string `json:"effect"` // allow or deny
}

// Source says which protocol a request came from and keeps its original.
type Source struct {
	Protocol  string `json:"protocol,omitempty"`
	Version   string `json:"version,omitempty"`
	Agent     string `json:"agent,omitempty"`
	RequestID string `json:"request_id,omitempty"`
	RawB64    string `json:"raw_b64,omitempty"`
}

// Other reports whether free text is welcome beside the options.
func (q *Question) Other() bool { return q.AllowOther == nil || *q.AllowOther }

// MustAnswer reports whether the question needs an answer.
func (q *Question) MustAnswer() bool { return q.Required == nil || *q.Required }

// QuestionID is the question's id, or its index where it has none.
func (r *Request) QuestionID(i int) string {
	if id := r.Questions[i].ID; id != "" {
		return id
	}
	return fmt.Sprint(i)
}

// OptionValue is the option's value, or its label where it has none.
func (o *Option) OptionValue() string {
	if o.Value != "" {
		return o.Value
	}
	return o.Label
}

// Expiry returns how long the request waits; 0 means for ever.
func (r *Request) Expiry() time.Duration {
	if r.ExpiresIn == nil {
		return DefaultExpiresIn
	}
	return time.Duration(*r.ExpiresIn)
}

// Attention returns after which time somebody else should be told; 0 means never.
func (r *Request) Attention() time.Duration {
	if r.AttentionIn != nil {
		return time.Duration(*r.AttentionIn)
	}
	return r.Expiry() / 2
}

// Field is one problem of an input, by the name of the field that has it.
type Field = invalid.Field

// InvalidError lists what is wrong with an input, within bounds.
type InvalidError = invalid.Error

// Invalid makes an InvalidError with one field.
func Invalid(field, format string, args ...any) *InvalidError {
	return invalid.New([]Field{{Field: field, Problem: fmt.Sprintf(format, args...)}})
}

// ParseRequest decodes and validates the exact bytes of a request. The error,
// if any, is an *InvalidError; the request is returned beside it as far as it
// could be read, so that a caller can still say whose it is.
func ParseRequest(raw []byte) (*Request, error) {
	if len(raw) > MaxRequest {
		return nil, Invalid("request", "is %d bytes, the limit is %d", len(raw), MaxRequest)
	}
	if err := CheckJSON(raw); err != nil {
		return nil, Invalid("request", "%v", err)
	}
	var r Request
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, decodeErr("request", err)
	}
	return &r, r.Validate()
}

func decodeErr(field string, err error) *InvalidError {
	if te, ok := err.(*json.UnmarshalTypeError); ok && te.Field != "" {
		// The content of a decision is embedded: its fields have no prefix.
		return Invalid(strings.TrimPrefix(te.Field, "Content."), "must not be a JSON %s", te.Value)
	}
	return Invalid(field, "%v", err)
}

// Validate checks the request against the rules of its kind. Unknown kinds
// pass: they are shown raw and can be denied or dismissed, never allowed.
func (r *Request) Validate() error {
	var c checker
	if r.V != 1 {
		c.Add("v", "must be 1")
	}
	c.Need("id", r.ID)
	c.Need("kind", r.Kind)
	c.Need("tenant", r.Tenant)
	c.Need("owner", r.Owner)
	c.Need("session_id", r.SessionID)
	c.Need("title", r.Title)
	c.Max("title", r.Title, MaxTitle)
	for _, f := range []struct{ name, value string }{
		{"id", r.ID},
		{"key", r.Key},
		{"kind", r.Kind},
		{"session_id", r.SessionID},
		{"project_id", r.ProjectID},
		{"parent_session", r.ParentSession},
		{"agent_name", r.AgentName},
		{"turn_id", r.TurnID},
		{"tool_call_id", r.ToolCallID},
	} {
		c.Max(f.name, f.value, MaxIdentifier)
	}
	switch r.Risk {
	case "", "low", "medium", "high", "critical":
	default:
		c.Add("risk", "must be low, medium, high or critical")
	}
	if given(r.Data) && strings.TrimSpace(string(r.Data))[0] != '{' {
		c.Add("data", "must be a JSON object")
	}
	if r.Expiry() < 0 {
		c.Add("expires_in", "must not be negative")
	}
	if r.Attention() < 0 {
		c.Add("attention_in", "must not be negative")
	}
	if len(r.Options) > MaxChoices {
		c.Add("options", fmt.Sprintf("must be at most %d, not %d", MaxChoices, len(r.Options)))
	}
	ids := map[string]bool{}
	for i, o := range r.Options[:min(len(r.Options), MaxChoices)] { // of what is too many, not each one's faults
		at := fmt.Sprintf("options[%d].", i)
		c.Need(at+"option_id", o.OptionID)
		if o.Effect != "allow" && o.Effect != "deny" {
			c.Add(at+"effect", "must be allow or deny")
		}
		if ids[o.OptionID] {
			c.Add(at+"option_id", "stands twice")
		}
		ids[o.OptionID] = true
	}
	if k, ok := LookupKind(r.Kind); ok {
		c.Fields = append(c.Fields, k.Check(r)...)
	}
	return c.err()
}

// checker gathers what is wrong.
type checker struct{ invalid.List }

func (c *checker) err() error {
	if len(c.Fields) == 0 {
		return nil
	}
	return invalid.New(c.Fields)
}
