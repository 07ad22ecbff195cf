// Package policy computes the risk of a request. The agent's own word can only
// raise it. The rules are a first sorting for people's eyes, not a sandbox.
package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/banksman/banksman/pkg/hitl"
)

// Version names this set of rules in every decision.
const Version = "1"

// AgentSays is the reason of a risk that only the agent sees.
const AgentSays = "the agent says so"

// Levels of risk, from the least.
var levels = []string{"low", "medium", "high", "critical"}

// Policy assesses requests. Critical lists paths and words whose appearance in
// a tool's input makes a request critical, the instance's own data directory
// for example.
type Policy struct{ Critical []string }

type rule struct {
	// words are cheap to look for: re matches only where one of them stands.
	words  []string
	re     *regexp.Regexp
	level  string
	reason string
}

func (r *rule) matches(command string) bool {
	return slices.ContainsFunc(r.words, func(w string) bool { return strings.Contains(command, w) }) && r.re.MatchString(command)
}

var shellRules = []rule{
	{[]string{"banksman"}, regexp.MustCompile(`\bbanksman\s+(decide|answer|login)\b`), "critical", "decides on the agent's own requests"},
	{[]string{"rm"}, regexp.MustCompile(`\brm\s+(-\S*\s+)*-\S*[rRf]`), "high", "deletes files for good"},
	{[]string{"git"}, regexp.MustCompile(`\bgit\s+push\b.*(--force|-f\b|\+)`), "high", "rewrites a published branch"},
	{[]string{"git"}, regexp.MustCompile(`\bgit\s+(reset\s+--hard|clean\s+-\S*f)`), "high", "throws away local work"},
	{[]string{"su", "doas"}, regexp.MustCompile(`\b(sudo|doas|su)\b`), "high", "runs with other rights"},
	{[]string{"curl", "wget"}, regexp.MustCompile(`\b(curl|wget)\b[^|;&]*\|\s*(sudo\s+)?(ba|z|da)?sh\b`), "high", "runs what it downloads"},
	{[]string{"mkfs", "dd", "shred", "fdisk", "parted"}, regexp.MustCompile(`\b(mkfs|dd|shred|fdisk|parted)\b`), "high", "writes to whole disks"},
	{[]string{"kubectl", "terraform", "drop"}, regexp.MustCompile(`\b(kubectl\s+delete|terraform\s+(apply|destroy)|drop\s+(table|database))\b`), "high", "changes shared systems"},
	{[]string{"chmod"}, regexp.MustCompile(`\bchmod\s+(-\S+\s+)*777\b`), "high", "opens files to everybody"},
	{[]string{"curl", "wget", "ssh", "scp", "rsync", "nc"}, regexp.MustCompile(`\b(curl|wget|ssh|scp|rsync|nc)\b`), "medium", "talks to the network"},
	{[]string{"git"}, regexp.MustCompile(`\bgit\s+push\b`), "medium", "publishes commits"},
}

// Assess returns the policy record of a request and why it has its risk.
func (p *Policy) Assess(r *hitl.Request) (hitl.Policy, string) {
	level, reason := p.assess(r)
	if rank(r.Risk) > rank(level) {
		level, reason = r.Risk, AgentSays
	}
	return hitl.Policy{Version: Version, Risk: level}, reason
}

func rank(level string) int { return slices.Index(levels, level) }

func (p *Policy) assess(r *hitl.Request) (level, reason string) {
	if r.Tool == nil {
		return "low", ""
	}
	input := texts(r.Tool.Input)
	for _, word := range p.Critical {
		if word != "" && strings.Contains(input, word) {
			return "critical", "touches Banksman's own data"
		}
	}
	command, path := member(r.Tool, "command", "Bash"), member(r.Tool, "file_path", "Write", "Edit", "MultiEdit", "NotebookEdit")
	if len(command) > maxJudged || len(path) > maxJudged {
		return "high", "too long to judge"
	}
	switch r.Tool.Name {
	case "Bash":
		level, reason = "medium", "runs a command"
		for i := range shellRules {
			rule := &shellRules[i]
			if rank(rule.level) > rank(level) && rule.matches(command) {
				level, reason = rule.level, rule.reason
			} else if rule.level == level && reason == "runs a command" && rule.matches(command) {
				reason = rule.reason
			}
		}
		return level, reason
	case "Read", "Glob", "Grep", "LS":
		return "low", "only reads"
	case "Write", "Edit", "MultiEdit", "NotebookEdit":
		if sensitive.MatchString(path) {
			return "high", fmt.Sprintf("changes a file that other programs trust (%s)", sensitive.FindString(path))
		}
		return "medium", "changes a file"
	case "ExitPlanMode":
		return "medium", "lets the agent start on its plan"
	case "WebFetch", "WebSearch":
		return "medium", "talks to the network"
	}
	return "medium", ""
}

// member is the text of a member of the tool's input. It is looked for where one
// of these tools reads it, and where it can be too long to judge.
func member(t *hitl.Tool, name string, tools ...string) (text string) {
	if len(t.Input) > maxJudged || slices.Contains(tools, t.Name) {
		_ = json.Unmarshal(hitl.Member(t.Input, name), &text) // another shape has none
	}
	return text
}

// maxJudged is the longest text that the rules read, in bytes. Nobody reads a
// longer command either, and the rules would take a second for a megabyte.
const maxJudged = 16 << 10

// texts is the input as it was written, and what its strings say: JSON can
// write every letter as an escape.
func texts(raw json.RawMessage) string {
	if !bytes.ContainsRune(raw, '\\') {
		return string(raw)
	}
	var b strings.Builder
	b.Write(raw)
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	for {
		tok, err := dec.Token()
		if err != nil {
			return b.String()
		}
		if s, ok := tok.(string); ok {
			b.WriteByte('\n')
			b.WriteString(s)
		}
	}
}

var sensitive = regexp.MustCompile(`(^|/)(\.ssh/|\.aws/|\.gnupg/|\.git/hooks/|\.bashrc|\.zshrc|\.profile|authorized_keys|crontab|\.env$)`)
