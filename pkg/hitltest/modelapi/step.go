package modelapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Step is one reply of the scripted model and the request it is meant for.
// Empty conditions fit everything, but Results is exact: a step without
// results fits only a request that brings no new tool result.
type Step struct {
	// Name appears in messages about the step.
	Name string
	// Conv is contained in the first user text of the conversation. Give each
	// conversation, sub-agents included, a marker of its own.
	Conv string
	// System is contained in the system prompt.
	System string
	// UserText is contained in the user text since the last model message.
	UserText string
	// Results are the tool results the server has not accepted before, in any
	// order; no more and no fewer.
	Results []Result

	// Reply is what the model says; Respond, if set, makes it per request.
	Reply   []Block
	Respond func(*Request) []Block
	// Stop overrides the stop reason (tool_use with a tool call, else end_turn).
	Stop string
	// Status, if set, makes the reply an HTTP error.
	Status int

	// Hold delays the reply until the channel is closed by the script's owner.
	Hold <-chan struct{}
	// Gate delays the reply until Release(Gate), or the same over HTTP.
	Gate string

	// Repeat lets the step serve any number of requests.
	Repeat bool
	// Optional steps may stay unused.
	Optional bool
}

// Result is an expected tool result.
type Result struct {
	ToolUseID string
	// Content is the exact text, unless Contains or Any is set.
	Content string
	// Contains is a part of the text.
	Contains string
	// Any accepts every text. IsError still has to fit.
	Any     bool
	IsError bool
}

func (e Result) fits(g ToolResult) bool {
	if e.ToolUseID != g.ToolUseID || e.IsError != g.IsError {
		return false
	}
	switch {
	case e.Any:
		return true
	case e.Contains != "":
		return strings.Contains(g.Content, e.Contains)
	default:
		return e.Content == g.Content
	}
}

// Block is a piece of a reply: a text or a tool call.
type Block struct {
	text, id, name, input string
	tool                  bool
	pause                 string // a gate
}

// Text is a text block.
func Text(s string) Block { return Block{text: s} }

// PauseAt is the block that stops after its first piece until the gate of that
// name is released; no name: it does not stop.
func (b Block) PauseAt(gate string) Block {
	b.pause = gate
	return b
}

// ToolUse is a tool call. input is a JSON object and goes out byte for byte.
func ToolUse(id, name, input string) Block {
	return Block{tool: true, id: id, name: name, input: input}
}

func (b Block) validate() error {
	if !b.tool {
		if !utf8.ValidString(b.text) {
			return errors.New("text: invalid UTF-8")
		}
		return nil
	}
	if b.id == "" || b.name == "" {
		return errors.New("tool use: id and name are required")
	}
	if !utf8.ValidString(b.input) || !json.Valid([]byte(b.input)) || !strings.HasPrefix(strings.TrimSpace(b.input), "{") {
		return fmt.Errorf("tool use %s: input is not a JSON object", b.id)
	}
	return nil
}

func (st Step) validate() error {
	for _, b := range st.Reply {
		if err := b.validate(); err != nil {
			return err
		}
	}
	if len(st.Reply) == 0 && st.Respond == nil && st.Status == 0 {
		return errors.New("no reply")
	}
	return nil
}

func (st *stepState) describe() string {
	name := st.Name
	if name == "" {
		name = "unnamed"
	}
	return fmt.Sprintf("step %d (%s)", st.index, name)
}

// mismatch says why the step does not fit; "" means it does.
func (st *stepState) mismatch(req *Request) string {
	switch {
	case !strings.Contains(req.FirstText, st.Conv):
		return fmt.Sprintf("conversation is not %q", st.Conv)
	case !strings.Contains(req.System, st.System):
		return fmt.Sprintf("system prompt lacks %q", st.System)
	case !strings.Contains(req.UserText, st.UserText):
		return fmt.Sprintf("user text lacks %q", st.UserText)
	}
	left := slices.Clone(st.Results)
	for _, got := range req.Results {
		i := slices.IndexFunc(left, func(e Result) bool { return e.fits(got) })
		if i < 0 {
			return fmt.Sprintf("tool result %s (error=%t) %q not expected", got.ToolUseID, got.IsError, got.Content)
		}
		left = slices.Delete(left, i, i+1)
	}
	if len(left) > 0 {
		return fmt.Sprintf("tool result %s missing", left[0].ToolUseID)
	}
	return ""
}
