package modelapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Request is one call of POST /v1/messages as received.
type Request struct {
	// Seq counts from 1, in order of arrival.
	Seq       int
	At        time.Time
	SessionID string // the agent's own header; empty if it sends none
	Model     string
	System    string // all system blocks, joined by newlines
	FirstText string // the first user message, injected reminders left out
	UserText  string // user texts after the last model message
	Messages  []Message
	Tools     []string
	// Results are the tool results not accepted by an earlier step.
	Results []ToolResult
	// Step names the step that served the request.
	Step string
	Body []byte

	allResults []ToolResult
}

// Message is one entry of the conversation.
type Message struct {
	Role    string
	Content []Content
}

// Content is a content block.
type Content struct {
	Type  string
	Text  string
	ID    string // tool_use
	Name  string // tool_use
	Input json.RawMessage
	Raw   json.RawMessage
}

// ToolResult is what the agent told the model about a tool call.
type ToolResult struct {
	ToolUseID string
	// Content is the text; several text blocks are joined by newlines.
	Content string
	IsError bool
	Raw     json.RawMessage
}

func (t ToolResult) key() string {
	return fmt.Sprintf("%s\x00%t\x00%s", t.ToolUseID, t.IsError, t.Content)
}

func (r *Request) conversation() string { return r.SessionID + "\x00" + r.FirstText }

func (r *Request) summary() string {
	var b strings.Builder
	fmt.Fprintf(&b, "conversation %q, user text %q", clip(r.FirstText), clip(r.UserText))
	for _, t := range r.Results {
		fmt.Fprintf(&b, ", tool result %s (error=%t) %q", t.ToolUseID, t.IsError, t.Content)
	}
	return b.String()
}

func clip(s string) string {
	const limit = 200
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "..."
}

type wireBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	IsError   bool            `json:"is_error"`
}

func parseRequest(h http.Header, body []byte) (*Request, error) {
	var in struct {
		Model    string          `json:"model"`
		Stream   bool            `json:"stream"`
		System   json.RawMessage `json:"system"`
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
		Tools []struct {
			Name string `json:"name"`
		} `json:"tools"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, fmt.Errorf("request body: %w", err)
	}
	if !in.Stream {
		return nil, fmt.Errorf("request asks for a whole message; only streams are served")
	}
	r := &Request{At: time.Now(), SessionID: h.Get("X-Claude-Code-Session-Id"), Model: in.Model, Body: body}
	sys, _, err := parseContent(in.System)
	if err != nil {
		return nil, fmt.Errorf("system: %w", err)
	}
	r.System = joinText(sys, false)
	for _, t := range in.Tools {
		r.Tools = append(r.Tools, t.Name)
	}
	var since []Content
	for i, m := range in.Messages {
		content, results, err := parseContent(m.Content)
		if err != nil {
			return nil, fmt.Errorf("messages[%d]: %w", i, err)
		}
		r.Messages = append(r.Messages, Message{Role: m.Role, Content: content})
		switch m.Role {
		case "user":
			if r.FirstText == "" {
				r.FirstText = joinText(content, true)
			}
			since = append(since, content...)
			r.allResults = append(r.allResults, results...)
		case "assistant":
			since = nil
		}
	}
	r.UserText = joinText(since, false)
	return r, nil
}

func parseContent(raw json.RawMessage) ([]Content, []ToolResult, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil, nil
	}
	if raw[0] == '"' {
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return nil, nil, err
		}
		return []Content{{Type: "text", Text: s, Raw: raw}}, nil, nil
	}
	var raws []json.RawMessage
	if err := json.Unmarshal(raw, &raws); err != nil {
		return nil, nil, err
	}
	var out []Content
	var results []ToolResult
	for _, one := range raws {
		var b wireBlock
		if err := json.Unmarshal(one, &b); err != nil {
			return nil, nil, err
		}
		out = append(out, Content{Type: b.Type, Text: b.Text, ID: b.ID, Name: b.Name, Input: b.Input, Raw: one})
		if b.Type == "tool_result" {
			inner, _, err := parseContent(b.Content)
			if err != nil {
				return nil, nil, err
			}
			results = append(results, ToolResult{ToolUseID: b.ToolUseID, Content: joinText(inner, false), IsError: b.IsError, Raw: one})
		}
	}
	return out, results, nil
}

// joinText joins the texts; bare leaves out the reminders that agents inject.
func joinText(blocks []Content, bare bool) string {
	var parts []string
	for _, b := range blocks {
		if b.Type != "text" || (bare && strings.HasPrefix(strings.TrimSpace(b.Text), "<system-reminder>")) {
			continue
		}
		parts = append(parts, b.Text)
	}
	return strings.Join(parts, "\n")
}
