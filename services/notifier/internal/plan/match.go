package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/banksman/banksman/pkg/hitl"
)

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

// risks are what an interaction can have: anything else matches nothing, ever.
var risks = []string{"low", "medium", "high", "critical"}

// checkWords finds a word that is none of the known ones; patterns says whether it may
// stand for several.
func checkWords(field string, words, known []string, patterns bool) error {
	for i, w := range words {
		if !slices.ContainsFunc(known, func(k string) bool { return w == k || patterns && like(w, k) }) {
			return fail(fmt.Sprintf("%s[%d]", field, i), "%q is none of %s", w, strings.Join(known, ", "))
		}
	}
	return nil
}

func (m *Match) check(at string) (err error) {
	if err := checkWords(at+".risk", m.Risk, risks, true); err != nil {
		return err
	}
	if err := checkWords(at+".kind", m.Kind, hitl.KindNames(), true); err != nil {
		return err
	}
	if m.zone, err = loadZone(at+".zone", cmp.Or(m.Zone, "UTC")); err != nil {
		return err
	}
	if m.Zone != "" && len(m.Time) == 0 {
		return fail(at+".zone", "counts only with time")
	}
	return checkWindows(at+".time", m.Time)
}
