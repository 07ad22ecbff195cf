package plan

import "strings"

// Match says which interactions a route is for. What is not given matches
// everything; of several texts one has to match. A star stands for any text.
type Match struct {
	Tenant  []string `json:"tenant"`
	Project []string `json:"project"`
	Session []string `json:"session"`
	Agent   []string `json:"agent"`
	Kind    []string `json:"kind"`
	Tool    []string `json:"tool"`
	Risk    []string `json:"risk"`
	// Time has to contain the moment the interaction began.
	Time []Window `json:"time"`
	Zone string   `json:"zone"` // of Time; an IANA name, default UTC
	zone zone
}

func (m *Match) matches(ix *Interaction) bool {
	return one(m.Tenant, ix.Tenant) && one(m.Project, ix.Project) && one(m.Session, ix.Session) &&
		one(m.Agent, ix.Agent) && one(m.Kind, ix.Kind) && one(m.Tool, ix.Tool) && one(m.Risk, ix.Risk) &&
		(len(m.Time) == 0 || within(m.Time, m.zone.local(ix.Created)))
}

func one(patterns []string, text string) bool {
	for _, p := range patterns {
		if like(p, text) {
			return true
		}
	}
	return len(patterns) == 0
}

// like matches text with a pattern in which each star stands for any text.
func like(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	last := len(parts) - 1
	if !strings.HasPrefix(text, parts[0]) {
		return false
	}
	text = text[len(parts[0]):]
	for _, p := range parts[1:last] {
		i := strings.Index(text, p)
		if i < 0 {
			return false
		}
		text = text[i+len(p):]
	}
	return strings.HasSuffix(text, parts[last])
}
