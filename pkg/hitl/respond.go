package hitl

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/banksman/banksman/pkg/hitl/internal/invalid"

	"github.com/banksman/banksman/pkg/hitl/internal/strictjson"
)

// Response is one attempt to decide, as every door takes it: WebSocket, HTTP,
// the service API. Edits and forms travel as text, so that a browser never
// parses (and rounds) what an agent wrote.
type Response struct {
	Ref         string          `json:"ref,omitempty"` // echoed in the receipt
	SessionID   string          `json:"session_id,omitempty"`
	RequestID   string          `json:"request_id,omitempty"`
	ToolCallID  string          `json:"tool_call_id,omitempty"`
	RequestType string          `json:"request_type,omitempty"`
	Digest      string          `json:"digest,omitempty"`
	Shown       string          `json:"shown,omitempty"`    // digest of what was shown, from its body
	Decision    string          `json:"decision,omitempty"` // allow or deny
	OptionID    string          `json:"option_id,omitempty"`
	Answers     json.RawMessage `json:"answers,omitempty"`
	Content     json.RawMessage `json:"content,omitempty"`
	Action      string          `json:"action,omitempty"` // clarify or dismiss
	Message     string          `json:"message,omitempty"`
	Comment     string          `json:"comment,omitempty"`
	// UpdatedInput is a JSON value, or a JSON string that holds one.
	UpdatedInput json.RawMessage `json:"updated_input,omitempty"`
	Scope        string          `json:"scope,omitempty"`
	Interrupt    bool            `json:"interrupt,omitempty"`
}

// DefaultDenyMessage is what the agent reads after a denial without a reason.
const DefaultDenyMessage = "User denied tool execution"

// Evaluate judges a response against its request and returns what the decision
// would say. The error, if any, is an *InvalidError, and then nothing may be
// decided. It does not look at the digest, the deadline or who asks.
func Evaluate(r *Request, p *Response) (*Content, error) {
	kind, known := LookupKind(r.Kind)
	if p.RequestType != "" && p.RequestType != RequestTypeOf(r.Kind) {
		return nil, Invalid("request_type", "is %q, but the interaction is a %q", p.RequestType, RequestTypeOf(r.Kind))
	}
	var said []string
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"decision", p.Decision != ""},
		{"option_id", p.OptionID != ""},
		{"answers", given(p.Answers)},
		{"content", given(p.Content)},
		{"action", p.Action != ""},
	} {
		if f.set {
			said = append(said, f.name)
		}
	}
	switch {
	case len(said) == 0:
		return nil, Invalid(kind.decides(), "is missing")
	case len(said) > 1 && !(len(said) == 2 && said[0] == "decision" && said[1] == "option_id"):
		return nil, Invalid(said[1], "contradicts %s: send one of them", said[0])
	}
	c := &Content{Message: p.Message, Comment: p.Comment, Interrupt: p.Interrupt}
	if !known {
		kind.Verbs = []string{VerbDeny, VerbDismiss}
	}
	verb, err := p.verb(r, &kind, c)
	if err != nil {
		return nil, err
	}
	if !kind.Has(verb) {
		return nil, Invalid(said[0], "a %s cannot be decided by %s", r.Kind, verb)
	}
	if len(r.Allowed) > 0 && verb != VerbDeny && verb != VerbDismiss && !slices.Contains(r.Allowed, verb) {
		return nil, Invalid(said[0], "the agent does not take %s here", verb)
	}
	if c.Interrupt && verb != VerbDeny {
		return nil, Invalid("interrupt", "goes with deny only")
	}
	if given(p.UpdatedInput) && verb != VerbAllow {
		return nil, Invalid("updated_input", "goes with allow only")
	}
	switch p.Scope {
	case "", "once":
	case "session":
		if verb != VerbAllow || !given(r.Suggestions) {
			return nil, Invalid("scope", "the agent offers no wider scope for this request")
		}
		if given(p.UpdatedInput) {
			return nil, Invalid("scope", "a wider scope is of what the agent asked, not of an edited input")
		}
		c.Scope = "session"
	default:
		return nil, Invalid("scope", "must be once or session")
	}
	switch verb {
	case VerbAllow:
		c.Outcome = Allowed
		if given(p.UpdatedInput) {
			if c.UpdatedInput, err = editedInput(p.UpdatedInput); err != nil {
				return nil, err
			}
		}
	case VerbDeny:
		c.Outcome = Denied
	case VerbAnswer:
		c.Outcome = Answered
		if kind.Takes == TakesContent {
			var fields []Field
			if c.Content, fields = contentOf(p.Content); len(fields) > 0 {
				return nil, invalid.New(fields)
			}
		}
		if fields := kind.Answer(r, p, c); len(fields) > 0 {
			return nil, invalid.New(fields)
		}
	case VerbClarify:
		c.Outcome = Clarify
		if strings.TrimSpace(p.Message) == "" {
			return nil, Invalid("message", "is missing: clarify hands this text to the agent")
		}
	case VerbDismiss:
		c.Outcome = Dismissed
	}
	if raw, err := Marshal(c); err != nil || len(raw) > MaxContent {
		return nil, Invalid("response", "is larger than %d bytes", MaxContent)
	}
	return c, nil
}

func (p *Response) verb(r *Request, kind *Kind, c *Content) (string, error) {
	if p.OptionID != "" {
		for _, o := range r.Options {
			if o.OptionID != p.OptionID {
				continue
			}
			if p.Decision != "" && p.Decision != o.Effect {
				return "", Invalid("decision", "is %s, but option %q means %s", p.Decision, o.OptionID, o.Effect)
			}
			c.OptionID = o.OptionID
			return o.Effect, nil
		}
		return "", Invalid("option_id", "%q is not an option of this request", p.OptionID)
	}
	switch {
	case p.Decision == VerbAllow || p.Decision == VerbDeny:
		return p.Decision, nil
	case p.Decision != "":
		return "", Invalid("decision", "must be allow or deny, not %q", p.Decision)
	case p.Action == VerbClarify || p.Action == VerbDismiss:
		return p.Action, nil
	case p.Action != "":
		return "", Invalid("action", "must be clarify or dismiss, not %q", p.Action)
	}
	said, other := TakesAnswers, TakesContent
	if given(p.Content) {
		said, other = other, said
	}
	if kind.Has(VerbAnswer) && kind.Takes != said {
		return "", Invalid(said, "a %s takes %s", r.Kind, other)
	}
	return VerbAnswer, nil
}

// decides is the field of a response that decides about a request of the kind,
// for who sent none.
func (k *Kind) decides() string {
	if k.Has(VerbAnswer) && !k.Has(VerbAllow) {
		return k.Takes
	}
	return "decision"
}

func given(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

func editedInput(raw json.RawMessage) (json.RawMessage, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		raw = json.RawMessage(text)
	}
	if err := strictjson.CheckMember(raw); err != nil {
		return nil, Invalid("updated_input", "is not valid JSON: %v", err)
	}
	if t := strings.TrimSpace(string(raw)); !strings.HasPrefix(t, "{") {
		return nil, Invalid("updated_input", "must be a JSON object")
	}
	return raw, nil
}

// AgentText is what the agent is told when the decision is not an allowance or
// an answer: a person's own words where there are any, else the kind's text.
func AgentText(r *Request, c *Content) string {
	kind, _ := LookupKind(r.Kind)
	switch c.Outcome {
	case Denied:
		if c.Message != "" {
			return c.Message
		}
		return DefaultDenyMessage
	case Clarify:
		return c.Message
	case Dismissed:
		if c.Message != "" {
			return c.Message
		}
		return "A person closed this without answering"
	case Expired:
		if kind.ExpiredText != nil {
			return kind.ExpiredText(r.Expiry())
		}
		return "Timed out"
	case Cancelled:
		if kind.WithdrawnText != "" {
			return kind.WithdrawnText
		}
		return "Cancelled"
	case Orphaned:
		return "The session that asked was lost before anybody decided"
	case InvalidIX:
		parts := make([]string, len(c.Fields))
		for i, f := range c.Fields {
			parts[i] = f.Field + " " + f.Problem
		}
		return fmt.Sprintf("The request was refused and shown to nobody: %s", strings.Join(parts, "; "))
	}
	return ""
}
