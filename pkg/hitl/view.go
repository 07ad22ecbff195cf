package hitl

import (
	"encoding/json"
	"fmt"
	"sort"
	"strings"
)

// Block is one part of a request as people see it, ready to be shown as plain
// text. Every channel shows the same blocks.
type Block struct {
	Label string `json:"label"`
	// Form is command, text, path, content, diff or json.
	Form string `json:"form"`
	Text string `json:"text,omitempty"`
	// Old and New are the two sides of a diff.
	Old string `json:"old,omitempty"`
	New string `json:"new,omitempty"`
	// Lines counts the lines of Text, or of New in a diff.
	Lines int `json:"lines,omitempty"`
	// Hidden counts the characters that are shown as tokens.
	Hidden int `json:"hidden,omitempty"`
	// Pushed says that blanks or empty lines push a part out of sight.
	Pushed bool `json:"pushed,omitempty"`
}

// pushed finds runs that move the rest of a text out of sight: 20 blanks, or
// four empty lines. It is no regular expression because texts are as long as
// agents like and this is asked of every one.
func pushed(s string) bool {
	blanks, breaks := 0, 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case ' ', '\t':
			blanks++
		case '\n':
			blanks = 0
			breaks++
		case '\r', '\f':
			blanks, breaks = 0, 0
		default:
			if blanks >= 20 || breaks >= 5 {
				return true
			}
			blanks, breaks = 0, 0
		}
	}
	return false
}

// View returns what a person must see of a request before deciding. Nothing is
// cut and every field of the tool's input appears.
func View(r *Request) []Block {
	switch {
	case r.Tool != nil:
		return toolView(r.Tool)
	case len(r.Schema) > 0:
		return []Block{jsonBlock("Form", r.Schema)}
	}
	return nil
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
			takeDiff(in, &blocks)
		}
	case "Read":
		take("file_path", "File", "path")
	case "ExitPlanMode":
		take("plan", "Plan", "content")
	}
	if len(blocks) == 0 {
		return []Block{jsonBlock("Input", t.Input)}
	}
	// What no view names is shown too, never dropped.
	keys := make([]string, 0, len(in))
	for k := range in {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		label, _ := Visible(k)
		blocks = append(blocks, jsonBlock(label, in[k]))
	}
	return blocks
}

func takeDiff(in map[string]json.RawMessage, blocks *[]Block) {
	before, h1, ok1 := DisplayString(in["old_string"])
	after, h2, ok2 := DisplayString(in["new_string"])
	if !ok1 || !ok2 {
		return
	}
	*blocks = append(*blocks, Block{
		Label: "Change", Form: "diff", Old: before, New: after, Lines: lines(after),
		Hidden: h1 + h2, Pushed: pushed(before) || pushed(after),
	})
	delete(in, "old_string")
	delete(in, "new_string")
}

func textBlock(label, form, text string, hidden int) Block {
	return Block{Label: label, Form: form, Text: text, Lines: lines(text), Hidden: hidden, Pushed: pushed(text)}
}

func jsonBlock(label string, raw json.RawMessage) Block {
	text, hidden := DisplayJSON(raw)
	return textBlock(label, "json", text, hidden)
}

func lines(s string) int {
	if s == "" {
		return 0
	}
	return strings.Count(strings.TrimSuffix(s, "\n"), "\n") + 1
}

// Headline is the one plain sentence of what is asked, made from data, not
// from the agent's own words.
func Headline(r *Request) string {
	who := r.AgentName
	if who == "" {
		who = r.Owner
	}
	who = oneLine(who)
	switch {
	case r.Kind == KindQuestion && len(r.Questions) == 1:
		return who + " asks a question"
	case r.Kind == KindQuestion:
		return fmt.Sprintf("%s asks %d questions", who, len(r.Questions))
	case r.Kind == KindForm:
		return who + " asks you to fill in a form"
	case r.Tool == nil:
		return who + " asks for a decision of the kind " + oneLine(r.Kind)
	}
	return who + " wants to " + toolAction(r.Tool)
}

func toolAction(t *Tool) string {
	if t.Name == "Bash" {
		return "run a shell command"
	}
	path, _, hasPath := DisplayString(Member(t.Input, "file_path"))
	url, _, hasURL := DisplayString(Member(t.Input, "url"))
	path, url = breaks.Replace(path), breaks.Replace(url)
	switch {
	case t.Name == "Write" && hasPath:
		return "write " + path
	case t.Name == "Edit" && hasPath:
		return "change " + path
	case t.Name == "Read" && hasPath:
		return "read " + path
	case t.Name == "WebFetch" && hasURL:
		return "fetch " + url
	case t.Name == "ExitPlanMode":
		return "leave plan mode and start on its plan"
	case t.Server != "":
		return "use " + oneLine(t.Name) + " of the MCP server " + oneLine(t.Server)
	case t.DisplayName != "":
		return "use the tool " + oneLine(t.DisplayName)
	}
	return "use the tool " + oneLine(t.Name)
}

// breaks writes what would begin a new line as tokens.
var breaks = strings.NewReplacer("\n", "⟦U+000A⟧", "\t", "⟦U+0009⟧")

// oneLine is Visible for a text inside a sentence.
func oneLine(s string) string {
	s, _ = Visible(s)
	return breaks.Replace(s)
}
