package claudert

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/hitl/link"
	"github.com/banksman/banksman/services/agent/internal/claude/protocol"
	"github.com/banksman/banksman/services/agent/internal/gate"
)

const (
	sourceProtocol = "claude-stdio"
	agentName      = "Claude Code"
	planTool       = "ExitPlanMode"

	maxTitle = 120     // runes
	maxWords = 8 << 10 // bytes of the agent's own words beside a plan
)

// private is kept with an ask: what it takes to answer it.
type private struct {
	Tool  string          `json:"tool,omitempty"`
	Form  string          `json:"form,omitempty"` // the MCP server that shows a form
	Input json.RawMessage `json:"input"`          // of the tool, or the form's schema
}

func (p *private) encode() []byte {
	raw, err := hitl.Marshal(p)
	if err != nil {
		return nil // a successor then takes the call for one it does not know
	}
	return raw
}

// same reports whether both are the same call: same tool, same content.
func (p *private) same(o *private) bool {
	if p.Tool != o.Tool || p.Form != o.Form {
		return false
	}
	a, errA := hitl.Canonical(p.Input)
	b, errB := hitl.Canonical(o.Input)
	return errA == nil && errB == nil && string(a) == string(b)
}

// about is what the CLI's own request does not say.
type about struct {
	cliSession string
	version    string
	cwd        string
	child      string // name of the sub-agent that asks
	lastWords  string
}

// approval maps a tool call to a request.
func approval(a *protocol.Ask, ab about) (gate.Kept, error) {
	r := base(a, ab)
	r.Kind = hitl.KindApproval
	r.Title = toolTitle(a)
	r.Tool = &hitl.Tool{
		Name: a.ToolName, Server: a.MCPServer, Input: a.Input, Description: a.Description,
		Cwd: ab.cwd, BlockedPath: a.BlockedPath,
	}
	if a.DisplayName != a.ToolName {
		r.Tool.DisplayName = a.DisplayName
	}
	r.Suggestions = sessionScope(a.Suggestions)
	if a.ToolName == planTool && !hasField(a.Input, "plan") {
		// Newer versions leave the plan out of the call; the model says it before.
		r.Message = cut(ab.lastWords, maxWords)
	}
	return kept(a.RequestID, r, &private{Tool: a.ToolName, Input: a.Input})
}

// question maps an AskUserQuestion call to a request with all its questions.
func question(a *protocol.Ask, ab about) (gate.Kept, error) {
	qs, err := protocol.DecodeQuestions(a.Input)
	if err != nil {
		return gate.Kept{}, err
	}
	r := base(a, ab)
	r.Kind = hitl.KindQuestion
	for _, q := range qs {
		hq := hitl.Question{Header: q.Header, Question: q.Text, MultiSelect: q.MultiSelect, Options: []hitl.Option{}}
		for _, o := range q.Options {
			hq.Options = append(hq.Options, hitl.Option{Label: o.Label, Description: o.Description, Preview: o.Preview})
		}
		r.Questions = append(r.Questions, hq)
	}
	r.Title = title(qs[0].Text)
	if len(qs) > 1 {
		r.Title = title(fmt.Sprintf("%d questions: %s", len(qs), qs[0].Text))
	}
	return kept(a.RequestID, r, &private{Tool: a.ToolName, Input: a.Input})
}

// form maps an elicitation of an MCP server to a request.
func form(e *protocol.Elicitation, ab about) (gate.Kept, error) {
	r := &hitl.Request{
		Kind: hitl.KindForm, Key: ab.cliSession + ":" + e.RequestID, AgentName: agentName,
		Title: title("Form of the MCP server " + e.Server), Message: e.Message, Schema: e.Schema,
		Source: source(e.RequestID, ab),
	}
	return kept(e.RequestID, r, &private{Form: e.Server, Input: e.Schema})
}

// page maps an address that an MCP server wants a person to open to a request.
func page(e *protocol.Elicitation, ab about) (gate.Kept, error) {
	input, err := hitl.Marshal(map[string]string{"url": e.URL})
	if err != nil {
		return gate.Kept{}, err
	}
	r := &hitl.Request{
		Kind: hitl.KindApproval, Key: ab.cliSession + ":" + e.RequestID, AgentName: agentName,
		Title: title("Link of the MCP server " + e.Server), Message: e.Message, Source: source(e.RequestID, ab),
		Tool: &hitl.Tool{Name: link.Tool, Server: e.Server, Input: input},
	}
	if l, _ := link.Read(link.Tool, input); l.Address == "" {
		return gate.Kept{}, fmt.Errorf("its address %s", l.Caution)
	}
	return kept(e.RequestID, r, &private{Form: e.Server, Input: input})
}

// kept checks the request as the gateway will. What it would refuse is refused
// here, where the model can be told precisely.
func kept(id string, r *hitl.Request, p *private) (gate.Kept, error) {
	probe := *r
	probe.V, probe.ID, probe.Tenant, probe.Owner, probe.SessionID = 1, "x", "x", "x", "x"
	if err := probe.Validate(); err != nil {
		return gate.Kept{}, err
	}
	return gate.Kept{ID: id, Request: r, Private: p.encode()}, nil
}

func base(a *protocol.Ask, ab about) *hitl.Request {
	r := &hitl.Request{
		Key:        ab.cliSession + ":" + a.ToolUseID + ":" + a.RequestID,
		ToolCallID: a.ToolUseID, AgentName: agentName,
		Reason: a.DecisionReason, Source: source(a.RequestID, ab),
	}
	if a.AgentID != "" {
		// The session stays the root's, so that the ask shows up there.
		child := ab.child
		if child == "" {
			child = "sub-agent"
		}
		r.AgentName = cut(child, 128) + " (" + cut(a.AgentID, 100) + ")"
	}
	return r
}

func source(requestID string, ab about) *hitl.Source {
	return &hitl.Source{Protocol: sourceProtocol, Version: ab.version, Agent: agentName, RequestID: requestID}
}

// toolTitle says in a few words what the call is.
func toolTitle(a *protocol.Ask) string {
	// Other shapes simply have none of these.
	text := func(name string) string { return hitl.MemberText(a.Input, name) }
	command, path, url := text("command"), text("file_path"), text("url")
	switch {
	case a.ToolName == planTool:
		return "Leave plan mode and start on the plan"
	case a.MCPServer != "":
		name := a.ToolName
		if i := strings.LastIndex(name, "__"); i >= 0 {
			name = name[i+2:]
		}
		return title(name + " (" + a.MCPServer + ")")
	case a.ToolName == "Bash" && command != "":
		return title("Bash: " + command)
	case path != "":
		return title(a.ToolName + " " + path)
	case url != "":
		return title(a.ToolName + " " + url)
	}
	return title(a.ToolName)
}

// title puts a text on one short line.
func title(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "\uFFFD")), " ")
	if utf8.RuneCountInString(s) > maxTitle {
		s = string([]rune(s)[:maxTitle-1]) + "…"
	}
	return s
}

// cut shortens s to at most n bytes, at a rune.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

func hasField(raw json.RawMessage, name string) bool {
	var m map[string]json.RawMessage
	return json.Unmarshal(raw, &m) == nil && len(m[name]) > 0
}

// sessionScope is what an approval for the whole session would change: the
// CLI's own suggestions, all of them bound to the session, so that nothing is
// written to its settings. A change of the permission mode opens far more than
// the call at hand, so it stays out unless it is all that the CLI offers.
// People see these very bytes, and these are what is applied.
func sessionScope(suggestions json.RawMessage) json.RawMessage {
	var all []map[string]json.RawMessage
	if json.Unmarshal(suggestions, &all) != nil {
		return nil
	}
	var narrow, modes []map[string]json.RawMessage
	for _, s := range all {
		if s == nil {
			continue
		}
		s["destination"] = json.RawMessage(`"session"`)
		if string(s["type"]) == `"setMode"` {
			if m := string(s["mode"]); m != `"bypassPermissions"` && m != `"dontAsk"` {
				modes = append(modes, s)
			}
			continue
		}
		narrow = append(narrow, s)
	}
	if len(narrow) == 0 {
		narrow = modes
	}
	if len(narrow) == 0 {
		return nil
	}
	raw, err := hitl.Marshal(narrow)
	if err != nil {
		return nil
	}
	return raw
}
