// Package policy computes the risk of a request. The agent's own word can only
// raise it. The rules are a first sorting for people's eyes, not a sandbox.
package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/hitl/link"
	"github.com/banksman/banksman/services/gateway/internal/command"
	"github.com/banksman/banksman/services/gateway/internal/command/paths"
)

// Version names this set of rules in every decision.
const Version = "2"

// AgentSays is the reason of a risk that only the agent sees.
const AgentSays = "the agent says so"

// Policy assesses requests. Critical lists paths and words whose appearance in
// a tool's input makes a request critical, the instance's own data directory
// for example.
type Policy struct{ Critical []string }

// Assess returns the policy record of a request and why it has its risk, and
// its shell text taken apart where that was needed.
func (p *Policy) Assess(r *hitl.Request) (hitl.Policy, string, *command.Reading) {
	level, reason, read := p.assess(r)
	if command.Rank(r.Risk) > command.Rank(level) {
		level, reason = r.Risk, AgentSays
	}
	return hitl.Policy{Version: Version, Risk: level}, reason, read
}

// Worse reports whether one risk is above another.
func Worse(risk, than string) bool { return command.Rank(risk) > command.Rank(than) }

func (p *Policy) assess(r *hitl.Request) (level, reason string, read *command.Reading) {
	if r.Tool == nil {
		return "low", "", nil
	}
	input := texts(r.Tool.Input)
	for _, word := range p.Critical {
		if word != "" && bytes.Contains(input, []byte(word)) {
			return "critical", "touches Banksman's own data", nil
		}
	}
	if l, ok := link.Read(r.Tool.Name, r.Tool.Input); ok {
		if l.Caution != "" {
			return "high", l.Caution, nil
		}
		return "medium", "opens a web page in your browser", nil
	}
	text, path := Command(r.Tool), member(r.Tool, "file_path", "Write", "Edit", "MultiEdit")
	if r.Tool.Name == "NotebookEdit" {
		path = member(r.Tool, "notebook_path", "NotebookEdit")
	}
	if len(text) > command.Max || len(path) > command.Max {
		return "high", "too long to judge", nil
	}
	switch r.Tool.Name {
	case "Bash":
		sh := command.Read(text)
		return sh.Level, sh.Reason, &sh
	case "Read", "Glob", "Grep", "LS":
		return "low", "only reads", nil
	case "Write", "Edit", "MultiEdit", "NotebookEdit":
		if paths.Sensitive.MatchString(path) {
			return "high", fmt.Sprintf("changes a file that other programs trust (%s)", paths.Sensitive.FindString(path)), nil
		}
		return "medium", "changes a file", nil
	case "ExitPlanMode":
		return "medium", "lets the agent start on its plan", nil
	case "WebFetch", "WebSearch":
		return "medium", "talks to the network", nil
	}
	return "medium", "", nil
}

// Command is the shell text that a tool runs, if any.
func Command(t *hitl.Tool) string { return member(t, "command", "Bash") }

// member is the text of a member of the tool's input. It is looked for where one
// of these tools reads it, and where it can be too long to judge.
func member(t *hitl.Tool, name string, tools ...string) string {
	if len(t.Input) > command.Max || slices.Contains(tools, t.Name) {
		return hitl.MemberText(t.Input, name)
	}
	return ""
}

// texts is the input as it was written, and what its strings say: JSON can
// write every letter as an escape.
func texts(raw json.RawMessage) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw
	}
	var b bytes.Buffer
	b.Write(raw)
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	for {
		tok, err := dec.Token()
		if err != nil {
			return b.Bytes()
		}
		if s, ok := tok.(string); ok {
			b.WriteByte('\n')
			b.WriteString(s)
		}
	}
}
