// Package rule says which requests a rule decides. It knows only what stands in a
// request: not the agent's disk, where a link can lead elsewhere, and not what a
// program does. Whatever it cannot read goes to people.
package rule

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/hitl/link"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/command"
)

// maxText is the longest input of an exact pattern, in bytes: it must be shown
// whole wherever the rule is.
const maxText = 8 << 10

const shellTool = "Bash"

// plain are the members of a command's input that change nothing about it.
var plain = []string{"command", "description", "timeout"}

// fileTools are the tools that work on one file: the member that names it, and the
// others that they may have.
var fileTools = map[string][]string{
	"Read":         {"file_path", "offset", "limit", "pages"},
	"Write":        {"file_path", "content"},
	"Edit":         {"file_path", "old_string", "new_string", "replace_all"},
	"MultiEdit":    {"file_path", "edits"},
	"NotebookEdit": {"notebook_path", "new_source", "cell_id", "cell_type", "edit_mode"},
}

// shown are the tools whose input must be read each time.
var shown = []string{"ExitPlanMode", link.Tool}

// Call is a request as rules look at it.
type Call struct {
	*hitl.Request
	Risk string

	session string
	text    string // the command, or the canonical input
	rest    string
	parts   []part // nil where the command cannot be taken apart
	opaque  bool   // it runs what cannot be read as commands
	file    string // clean and absolute, or empty
}

// Read prepares a request; nil where no rule may decide it.
func Read(r *hitl.Request, risk string) *Call {
	if r == nil || r.Kind != hitl.KindApproval || r.Tool == nil || slices.Contains(shown, r.Tool.Name) {
		return nil
	}
	var in map[string]json.RawMessage
	// Of a member that is there twice nobody knows which one the agent takes.
	if hitl.CheckJSON(r.Tool.Input) != nil || json.Unmarshal(r.Tool.Input, &in) != nil || in == nil {
		return nil
	}
	c := &Call{Request: r, Risk: risk, session: subject.NewSession(r.Tenant, r.Owner, r.SessionID).String()}
	if r.Tool.Name == shellTool {
		if json.Unmarshal(in["command"], &c.text) != nil || c.text == "" {
			return nil
		}
		maps.DeleteFunc(in, func(k string, _ json.RawMessage) bool { return slices.Contains(plain, k) })
		raw, err := hitl.Marshal(in)
		if err != nil {
			return nil
		}
		rest, err := hitl.Canonical(raw)
		if err != nil {
			return nil
		}
		c.rest, c.parts, c.opaque = string(rest), parts(c.text), command.Read(c.text).Opaque
		return c
	}
	text, err := hitl.Canonical(r.Tool.Input)
	if err != nil {
		return nil
	}
	c.text = string(text)
	if known, ok := fileTools[r.Tool.Name]; ok {
		strange := slices.ContainsFunc(slices.Collect(maps.Keys(in)), func(k string) bool { return !slices.Contains(known, k) })
		var file string
		if !strange && json.Unmarshal(in[known[0]], &file) == nil && clean(file) {
			c.file = file
		}
	}
	return c
}

// clean reports whether a path is absolute and names its file in the one way.
func clean(p string) bool {
	visible, hidden := hitl.Visible(p)
	return path.IsAbs(p) && path.Clean(p) == p && hidden == 0 && visible == p && !strings.ContainsAny(p, "\\\n\t")
}

var levels = []string{"low", "medium", "high", "critical"}

// bearable reports whether a rule made at one risk may allow what has another.
// What is critical is for people.
func bearable(risk, limit string) bool {
	n := slices.Index(levels, risk)
	return n >= 0 && risk != "critical" && n <= slices.Index(levels, limit)
}

// inScope reports whether a request is one of those that m is about.
func inScope(m *wire.RuleMatch, c *Call) bool {
	return m.Tenant == c.Tenant && m.Owner == c.Owner && m.AgentName == c.AgentName && m.Kind == c.Kind &&
		m.Tool == c.Tool.Name && m.Server == c.Tool.Server &&
		(m.Scope == wire.RuleOwner || (m.Scope == wire.RuleProject || m.Scope == wire.RuleSession) && m.ProjectID == c.ProjectID) &&
		(m.Scope != wire.RuleSession || m.SessionKey == c.session) &&
		(c.Tool.Name != shellTool || m.Cwd == c.Tool.Cwd && m.Rest == c.rest)
}

// whole reports whether m is about the whole of a request.
func whole(m *wire.RuleMatch, c *Call) bool {
	switch m.Pattern {
	case wire.RuleExact:
		return m.Text == c.text
	case wire.RuleWords, wire.RuleOperands:
		return len(c.parts) == 1 && one(m, &c.parts[0])
	case wire.RuleFolder:
		return m.Folder != "" && m.Folder != "/" && strings.HasPrefix(c.file, m.Folder+"/")
	case wire.RuleTool:
		return wide(c)
	}
	return false
}

// one reports whether m is about one simple command.
func one(m *wire.RuleMatch, p *part) bool {
	switch m.Pattern {
	case wire.RuleWords:
		return slices.Equal(m.Words, p.words)
	case wire.RuleOperands:
		stays := fixed(p.words)
		return stays != nil && slices.Equal(m.Words, stays)
	}
	return false
}

// wide reports whether a rule may let through whatever a tool is given.
func wide(c *Call) bool {
	if _, file := fileTools[c.Tool.Name]; file || c.Tool.Name == shellTool {
		return false
	}
	switch c.Tool.Kind {
	case "execute", "edit", "delete", "move":
		return false
	}
	var in map[string]json.RawMessage
	if json.Unmarshal(c.Tool.Input, &in) != nil {
		return false
	}
	for _, k := range []string{"command", "cmd", "script", "code"} {
		if _, ok := in[k]; ok {
			return false
		}
	}
	return true
}

// Denies reports whether a rule that denies is about a request, or a part of it.
func Denies(m *wire.RuleMatch, c *Call) bool {
	return inScope(m, c) && (whole(m, c) || slices.ContainsFunc(c.parts, func(p part) bool { return one(m, &p) }))
}

// Allowing picks the rules that allow a request: one for the whole, or one for
// each of its parts; nil where people decide. Each of them bears the risk of the
// whole.
func Allowing(rules []*wire.Rule, c *Call) []*wire.Rule {
	if c.opaque {
		return nil
	}
	var fit []*wire.Rule
	for _, r := range rules {
		if r.Effect != wire.RuleAllow || !inScope(&r.Match, c) || !bearable(c.Risk, r.Match.MaxRisk) {
			continue
		}
		if whole(&r.Match, c) && (len(c.parts) != 1 || r.Match.Pattern == wire.RuleExact || joins(&c.parts[0])) {
			return []*wire.Rule{r}
		}
		fit = append(fit, r)
	}
	if len(c.parts) < 2 {
		return nil
	}
	var out []*wire.Rule
	for i := range c.parts {
		p := &c.parts[i]
		n := slices.IndexFunc(fit, func(r *wire.Rule) bool { return joins(p) && one(&r.Match, p) })
		if n < 0 {
			return nil
		}
		if !slices.Contains(out, fit[n]) {
			out = append(out, fit[n])
		}
	}
	return out
}

// joins reports whether a simple command may stand beside others: it changes
// nothing for them, and does not act on what they write.
func joins(p *part) bool {
	return !slices.Contains(changers, p.words[0]) && (!p.piped || slices.Contains(filters, p.words[0]))
}

// Patterns are the patterns that a rule made from a request can have, the
// narrowest first, each as the id of a choice and the match it gives.
func Patterns(c *Call) []Choice {
	base := wire.RuleMatch{
		Tenant: c.Tenant, Owner: c.Owner, AgentName: c.AgentName, Kind: c.Kind, Tool: c.Tool.Name, Server: c.Tool.Server, MaxRisk: c.Risk,
	}
	if c.Tool.Name == shellTool {
		base.Cwd, base.Rest = c.Tool.Cwd, c.rest
	}
	var out []Choice
	add := func(id, pattern string, set func(*wire.RuleMatch)) {
		m := base
		m.Pattern = pattern
		set(&m)
		out = append(out, Choice{id, m})
	}
	if len(c.text) <= maxText && len(c.rest) <= maxText && len(c.Tool.Cwd) <= maxText {
		add(wire.RuleExact, wire.RuleExact, func(m *wire.RuleMatch) { m.Text = c.text })
	}
	if len(c.parts) == 1 && joins(&c.parts[0]) && len(out) > 0 {
		words := c.parts[0].words
		add(wire.RuleWords, wire.RuleWords, func(m *wire.RuleMatch) { m.Words = words })
		if stays := fixed(words); stays != nil {
			add(wire.RuleOperands, wire.RuleOperands, func(m *wire.RuleMatch) { m.Words = stays })
		}
	}
	if dir := path.Dir(c.file); c.file != "" && dir != "/" {
		add(wire.RuleFolder, wire.RuleFolder, func(m *wire.RuleMatch) { m.Folder = dir })
		if cwd := c.Tool.Cwd; clean(cwd) && cwd != "/" && cwd != dir && strings.HasPrefix(dir, cwd+"/") {
			add(wire.RuleWorkdir, wire.RuleFolder, func(m *wire.RuleMatch) { m.Folder = cwd })
		}
	}
	if wide(c) {
		add(wire.RuleTool, wire.RuleTool, func(*wire.RuleMatch) {})
	}
	return out
}

// Choice is a pattern that is possible.
type Choice struct {
	ID    string
	Match wire.RuleMatch
}

// Scopes are the ids of the scopes that are possible, the narrowest first.
func Scopes(c *Call) []string {
	if c.ProjectID == "" {
		return []string{wire.RuleSession, wire.RuleOwner}
	}
	return []string{wire.RuleSession, wire.RuleProject, wire.RuleOwner}
}

// Make makes the match of a rule from a request and two choices.
func Make(c *Call, pattern, scope string) (wire.RuleMatch, error) {
	var none wire.RuleMatch
	list := Patterns(c)
	n := slices.IndexFunc(list, func(p Choice) bool { return p.ID == pattern })
	switch {
	case len(list) == 0:
		return none, hitl.Invalid("request_id", "is a request that no rule can repeat: its input is too long")
	case n < 0:
		return none, hitl.Invalid("pattern", "%q is not possible for this request", pattern)
	case !slices.Contains(Scopes(c), scope):
		return none, hitl.Invalid("scope", "%q is not possible for this request", scope)
	}
	m := list[n].Match
	m.Scope = scope
	if scope != wire.RuleOwner {
		m.ProjectID = c.ProjectID
	}
	if scope == wire.RuleSession {
		m.SessionKey = c.session
	}
	return m, nil
}

// Reason says why no rule may be made from a request; empty: one may.
func Reason(r *hitl.Request, risk, effect string) string {
	switch {
	case r.Kind != hitl.KindApproval:
		return "only consent to tool calls can be given in advance"
	case r.Tool != nil && slices.Contains(shown, r.Tool.Name):
		return fmt.Sprintf("%s is read each time", r.Tool.Name)
	case effect == wire.RuleAllow && !bearable(risk, risk):
		return "a request of this risk is allowed by people only"
	}
	c := Read(r, risk)
	switch {
	case c == nil:
		return "its input cannot be read"
	case effect == wire.RuleAllow && c.opaque:
		return "it runs a text in which no commands can be read: people look at it each time"
	}
	return ""
}
