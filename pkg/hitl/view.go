package hitl

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/banksman/banksman/pkg/hitl/internal/display"
	"github.com/banksman/banksman/pkg/hitl/link"
)

// Block is one part of a request as people see it, ready to be shown as plain
// text. Every channel shows the same blocks.
type Block struct {
	Label string `json:"label"`
	// Form is command, text, path, content, diff, plan or json.
	Form string `json:"form"`
	Text string `json:"text,omitempty"`
	// Old and New are the two sides of a diff.
	Old string `json:"old,omitempty"`
	New string `json:"new,omitempty"`
	// Lines counts the lines of Text, or of New in a diff.
	Lines int `json:"lines,omitempty"`
	// Added and Removed count the lines that a diff changes.
	Added   int `json:"added,omitempty"`
	Removed int `json:"removed,omitempty"`
	// Hidden counts the characters that are shown as tokens.
	Hidden int `json:"hidden,omitempty"`
	// Pushed says that blanks or empty lines push a part out of sight.
	Pushed bool `json:"pushed,omitempty"`
}

// View returns what a person must see of a request before deciding. Nothing is
// cut and every field of the tool's input appears.
func View(r *Request) []Block {
	if k, ok := LookupKind(r.Kind); ok && k.View != nil {
		return k.View(r)
	}
	var blocks []Block
	switch {
	case r.Tool != nil:
		blocks = toolView(r.Tool)
	case len(r.Schema) > 0:
		blocks = []Block{jsonBlock("Form", r.Schema)}
	}
	if given(r.Data) {
		blocks = append(blocks, jsonBlock("Data", r.Data))
	}
	if r.URL != "" {
		blocks = append(blocks, TextBlock("Address", "json", r.URL))
	}
	return blocks
}

// TextBlock shows a text, whatever is in it, as a Block of a form.
func TextBlock(label, form, text string) Block {
	text, hidden := Visible(text)
	return textBlock(label, form, text, hidden)
}

func toolView(t *Tool) []Block {
	var in map[string]json.RawMessage
	if json.Unmarshal(t.Input, &in) != nil || in == nil {
		return []Block{jsonBlock("Input", t.Input)}
	}
	var blocks []Block
	take := func(key, label, form string) bool {
		text, hidden, ok := DisplayString(in[key])
		if !ok {
			return false
		}
		blocks = append(blocks, textBlock(label, form, text, hidden))
		delete(in, key)
		return true
	}
	switch t.Name {
	case "Bash":
		if take("command", "Command", "command") {
			take("description", "Description", "text")
		}
	case "Write":
		if take("file_path", "File", "path") {
			take("content", "Content", "content")
		}
	case "Edit":
		if take("file_path", "File", "path") {
			takeDiff(in, "Change", &blocks)
		}
	case "MultiEdit":
		if take("file_path", "File", "path") {
			takeEdits(in, &blocks)
		}
	case "NotebookEdit":
		if take("notebook_path", "Notebook", "path") {
			take("new_source", "New source", "content")
		}
	case "Read":
		take("file_path", "File", "path")
	case "ExitPlanMode":
		take("plan", "Plan", "plan")
	case link.Tool:
		if l, _ := link.Read(t.Name, t.Input); l.Host != "" {
			blocks = append(blocks, textBlock("Host", "path", l.Host, 0))
		}
		take("url", "Address", "json")
	}
	if len(blocks) == 0 {
		return []Block{jsonBlock("Input", t.Input)}
	}
	return append(blocks, rest(in, "")...)
}

func takeDiff(in map[string]json.RawMessage, label string, blocks *[]Block) bool {
	before, h1, ok1 := DisplayString(in["old_string"])
	after, h2, ok2 := DisplayString(in["new_string"])
	if !ok1 || !ok2 {
		return false
	}
	added, removed := display.Changes(before, after)
	*blocks = append(*blocks, Block{
		Label: label, Form: "diff", Old: before, New: after, Lines: display.Lines(after), Added: added, Removed: removed,
		Hidden: h1 + h2, Pushed: display.Pushed(before) || display.Pushed(after),
	})
	delete(in, "old_string")
	delete(in, "new_string")
	return true
}

// takeEdits takes all changes of a file, or none where one is no change.
func takeEdits(in map[string]json.RawMessage, blocks *[]Block) {
	var edits []map[string]json.RawMessage
	if json.Unmarshal(in["edits"], &edits) != nil || len(edits) == 0 {
		return
	}
	var out []Block
	for i, e := range edits {
		label := fmt.Sprintf("Change %d of %d", i+1, len(edits))
		if !takeDiff(e, label, &out) {
			return
		}
		out = append(out, rest(e, label+": ")...)
	}
	*blocks = append(*blocks, out...)
	delete(in, "edits")
}

// rest shows what no view names, so that nothing is dropped.
func rest(in map[string]json.RawMessage, prefix string) []Block {
	var out []Block
	for _, k := range slices.Sorted(maps.Keys(in)) {
		label, _ := Visible(k)
		out = append(out, jsonBlock(prefix+label, in[k]))
	}
	return out
}

func textBlock(label, form, text string, hidden int) Block {
	return Block{Label: label, Form: form, Text: text, Lines: display.Lines(text), Hidden: hidden, Pushed: display.Pushed(text)}
}

func jsonBlock(label string, raw json.RawMessage) Block {
	text, hidden := DisplayJSON(raw)
	return textBlock(label, "json", text, hidden)
}

// Headline is the one plain sentence of what is asked, made from data, not
// from the agent's own words.
func Headline(r *Request) string {
	who := r.AgentName
	if who == "" {
		who = r.Owner
	}
	who = oneLine(who)
	kind, _ := LookupKind(r.Kind)
	switch {
	case r.Kind == KindQuestion && len(r.Questions) > 1:
		return fmt.Sprintf("%s asks %d questions", who, len(r.Questions))
	case r.Tool == nil || kind.Has(VerbAnswer):
		return who + " " + Asks(r.Kind)
	}
	return who + " wants to " + toolAction(r.Tool)
}

// Asks is what an asker does with a request of the kind, in words that tell
// nothing else of it.
func Asks(kind string) string {
	if k, ok := LookupKind(kind); ok {
		return k.Asks
	}
	return asksFor(kind)
}

func asksFor(kind string) string { return "asks for a decision of the kind " + oneLine(kind) }

func toolAction(t *Tool) string {
	return display.Action(t.Name, t.Server, t.DisplayName, func(key string) (string, bool) {
		text, _, ok := DisplayString(Member(t.Input, key))
		return text, ok
	})
}

// oneLine is Visible for a text inside a sentence.
func oneLine(s string) string { return display.Line(s) }
