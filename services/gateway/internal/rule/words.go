package rule

import (
	"path"
	"slices"
	"strings"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
)

// maxTitle bounds a title, in runes.
const maxTitle = 60

func visible(s string) string {
	s, _ = hitl.Visible(s)
	return strings.NewReplacer("\n", "⟦U+000A⟧", "\t", "⟦U+0009⟧").Replace(s)
}

// Title names a rule in a few words.
func Title(m *wire.RuleMatch) string {
	s := visible(m.Tool)
	switch m.Pattern {
	case wire.RuleExact:
		s = visible(m.Text)
		if m.Tool != shellTool {
			s = visible(m.Tool) + " " + s
		}
	case wire.RuleWords:
		s = quote(m.Words)
	case wire.RuleOperands:
		s = quote(m.Words) + " …"
	case wire.RuleFolder:
		s = visible(m.Tool) + " below " + visible(m.Folder)
	}
	if r := []rune(s); len(r) > maxTitle {
		s = string(r[:maxTitle-1]) + "…"
	}
	return s
}

// What says in words which calls a pattern is about.
func What(m *wire.RuleMatch) string {
	tool := visible(m.Tool)
	if m.Server != "" {
		tool += " of the MCP server " + visible(m.Server)
	}
	switch m.Pattern {
	case wire.RuleExact:
		if m.Tool == shellTool {
			return "exactly this command: " + visible(m.Text)
		}
		return tool + " with exactly this input: " + visible(m.Text)
	case wire.RuleWords:
		return "the command " + quote(m.Words) + ", also as a part of a longer command whose other parts are allowed by rules as well"
	case wire.RuleOperands:
		return "the command " + quote(m.Words) + " with any names inside the folder it runs in after it and no options, also as a part of a longer command whose other parts are allowed by rules as well"
	case wire.RuleFolder:
		return tool + " of any file below " + visible(m.Folder) + " (links inside it are not looked at)"
	}
	return tool + ", whatever its input"
}

// Whose says in words whose requests a scope is about.
func Whose(m *wire.RuleMatch) string {
	who := visible(m.Owner)
	if m.AgentName != "" && m.AgentName != m.Owner {
		who = visible(m.AgentName) + " (" + who + ")"
	}
	switch m.Scope {
	case wire.RuleSession:
		return "of " + who + " in this one session"
	case wire.RuleProject:
		return "of " + who + " in the project " + visible(m.ProjectID)
	}
	return "of " + who + ", in all its sessions and projects"
}

// Text says all of what a rule is about.
func Text(effect string, m *wire.RuleMatch) string {
	verb := "Allows "
	if effect == wire.RuleDeny {
		verb = "Denies "
	}
	s := verb + What(m)
	if m.Tool == shellTool && m.Cwd != "" {
		s += ", run in " + visible(m.Cwd)
	}
	if m.Rest != "" && m.Rest != "{}" {
		s += ", with " + visible(m.Rest)
	}
	s += ". For requests " + Whose(m) + "."
	if effect == wire.RuleAllow {
		s += " Whatever is above " + m.MaxRisk + " risk still goes to people."
	}
	return s
}

// Examples are inputs like those of a rule that it leaves to people, each held
// against it.
func Examples(m *wire.RuleMatch, c *Call) []wire.RuleExample {
	type example struct {
		text, why string
		change    func(*hitl.Tool)
	}
	var list []example
	input := func(name, value string) func(*hitl.Tool) {
		return func(t *hitl.Tool) {
			raw, err := hitl.Marshal(map[string]string{name: value})
			if err == nil {
				t.Input = raw
			}
		}
	}
	switch {
	case m.Tool == shellTool:
		base := c.text
		if m.Words != nil {
			base = quote(m.Words)
		}
		if strings.Contains(base, "\n") || len(base) > maxTitle {
			break
		}
		command := func(text, why string) { list = append(list, example{text, why, input("command", text)}) }
		command(base+" && rm -rf build", "the second part is allowed by no rule")
		command(base+" $(cat names)", "what is run there is known to the shell alone")
		command(base+" > notes.txt", "it writes to a file")
		command("DEBUG=1 "+base, "it sets a variable")
		command("sudo "+base, "another program runs it")
		if m.Pattern != wire.RuleExact {
			command(base+" --all", "it has an option that the rule does not name")
		}
	case m.Pattern == wire.RuleFolder:
		field := fileTools[m.Tool][0]
		file := func(text, why string) { list = append(list, example{text, why, input(field, text)}) }
		file(m.Folder+"/../secrets", "it leads out of the folder")
		file(m.Folder+"-old/notes.txt", "it is beside the folder")
		file(path.Join(path.Dir(m.Folder), "notes.txt"), "it is above the folder")
	case m.Pattern == wire.RuleTool && m.Server != "":
		list = append(list, example{"another tool of " + visible(m.Server), "the rule names one tool", func(t *hitl.Tool) { t.Name += "_2" }})
	}
	out := []wire.RuleExample{}
	rules := []*wire.Rule{{Effect: wire.RuleAllow, Match: *m}}
	for _, ex := range list {
		r := *c.Request
		t := *r.Tool
		ex.change(&t)
		r.Tool = &t
		if other := Read(&r, c.Risk); other == nil || Allowing(rules, other) == nil {
			out = append(out, wire.RuleExample{Text: ex.text, Why: ex.why})
		}
	}
	return out
}

// Unlike says whether requests differ in what every rule of one looks at first:
// comparing them more closely is of no use.
func Unlike(m *wire.RuleMatch, s *wire.Summary) bool {
	return m.Tenant != s.Tenant || m.Owner != s.Owner || m.Kind != s.Kind || m.Scope == wire.RuleSession && m.SessionKey != s.SessionKey ||
		m.Scope == wire.RuleProject && m.ProjectID != s.ProjectID || !slices.Contains([]string{m.Tool, visible(m.Tool)}, s.ToolName)
}
