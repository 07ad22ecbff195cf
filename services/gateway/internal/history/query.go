package history

import (
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
)

// Bounds of a query.
const (
	MaxLimit  = 200
	maxText   = 200 // runes of the words searched for
	maxTerms  = 8
	maxFilter = 256 // bytes of any other filter
)

// Query is what is looked for. An empty field does not filter.
type Query struct {
	Text     string // words that must all appear; "in quotes" together
	Outcomes []hitl.Outcome
	Kind     string
	Tool     string
	Project  string
	Agent    string // the agent's name, or its owner
	Who      string // id or name of who decided
	Session  string // id or key
	Rule     string // id of a rule that decided
	// From and Until bound when it was decided; From belongs to it, Until does
	// not.
	From, Until time.Time
	// Before goes on where an earlier search stopped: its Next.
	Before string
	Limit  int
}

var outcomes = []hitl.Outcome{
	hitl.Allowed, hitl.Denied, hitl.Answered, hitl.Clarify, hitl.Dismissed, hitl.Expired, hitl.Cancelled, hitl.Orphaned, hitl.InvalidIX,
}

// check names what cannot be searched for.
func (q *Query) check() *hitl.InvalidError {
	inv := &hitl.InvalidError{}
	add := func(field, problem string) {
		inv.Fields = append(inv.Fields, hitl.Field{Field: field, Problem: problem})
	}
	if !utf8.ValidString(q.Text) || utf8.RuneCountInString(q.Text) > maxText {
		add("q", "must be text of at most 200 characters")
	} else if len(terms(q.Text)) > maxTerms {
		add("q", "has more than 8 words")
	}
	for _, o := range q.Outcomes {
		if !slices.Contains(outcomes, o) {
			add("outcome", "names no outcome")
			break
		}
	}
	for field, text := range map[string]string{
		"kind": q.Kind, "tool": q.Tool, "project": q.Project, "agent": q.Agent, "who": q.Who, "session": q.Session, "rule": q.Rule, "before": q.Before,
	} {
		if !utf8.ValidString(text) || len(text) > maxFilter {
			add(field, "must be text of at most 256 bytes")
		}
	}
	if q.Limit < 1 || q.Limit > MaxLimit {
		add("limit", "must be 1 to 200")
	}
	if !q.From.IsZero() && !q.Until.IsZero() && !q.From.Before(q.Until) {
		add("until", "must be after from")
	}
	if len(inv.Fields) > 0 {
		slices.SortFunc(inv.Fields, func(a, b hitl.Field) int { return strings.Compare(a.Field, b.Field) })
		return inv
	}
	return nil
}

// terms are the words of a text, those in quotes together, in lower case.
func terms(text string) []string {
	var out []string
	for i, part := range strings.Split(strings.ToLower(text), `"`) {
		if i%2 == 1 {
			if part = strings.TrimSpace(part); part != "" {
				out = append(out, part)
			}
			continue
		}
		out = append(out, strings.FieldsFunc(part, unicode.IsSpace)...)
	}
	return out
}

// matches decides by what the reader may see of ix, and by nothing else: what
// is hidden cannot be guessed at by searching for it.
func (q *Query) matches(ix *wire.Interaction, words []string) bool {
	var who hitl.Principal
	if q.Rule != "" && (ix.Decision == nil || !slices.Contains(strings.Split(ix.Decision.Rule, ","), q.Rule)) {
		return false
	}
	if ix.Decision != nil {
		who = ix.Decision.Principal
		at := ix.Decision.DecidedAt
		if !q.From.IsZero() && at.Before(q.From) || !q.Until.IsZero() && !at.Before(q.Until) {
			return false
		}
	}
	if len(q.Outcomes) > 0 && !slices.Contains(q.Outcomes, ix.Outcome) {
		return false
	}
	for _, f := range []struct {
		want string
		have []string
	}{
		{q.Kind, []string{ix.Kind}},
		{q.Tool, []string{ix.ToolName}},
		{q.Project, []string{ix.ProjectID}},
		{q.Agent, []string{ix.AgentName, ix.Owner}},
		{q.Who, []string{who.ID, who.Name}},
		{q.Session, []string{ix.SessionID, ix.SessionKey}},
	} {
		if f.want != "" && !slices.ContainsFunc(f.have, func(h string) bool { return strings.EqualFold(h, f.want) }) {
			return false
		}
	}
	return len(words) == 0 || contains(ix, words)
}

// contains reports whether each word is somewhere in what is shown of ix.
func contains(ix *wire.Interaction, words []string) bool {
	// An id is looked for as a whole: a part of it says nothing.
	missing := slices.DeleteFunc(slices.Clone(words), func(w string) bool { return strings.EqualFold(w, ix.RequestID) })
	look := func(texts ...string) bool {
		for _, t := range texts {
			if t == "" {
				continue
			}
			t = strings.ToLower(t)
			missing = slices.DeleteFunc(missing, func(w string) bool { return strings.Contains(t, w) })
		}
		return len(missing) == 0
	}
	if look(ix.Headline, ix.Title, ix.ToolName, ix.ToolInput, ix.AgentName, ix.Owner, ix.ProjectID, ix.SessionID, ix.RiskReason) {
		return true
	}
	if b := ix.Body; b != nil {
		if look(b.Message, b.Reason, b.Cwd, b.Schema) {
			return true
		}
		for i := range b.Blocks {
			if look(b.Blocks[i].Label, b.Blocks[i].Text, b.Blocks[i].Old, b.Blocks[i].New) {
				return true
			}
		}
		for i := range b.Questions {
			look(b.Questions[i].Header, b.Questions[i].Question)
			for _, o := range b.Questions[i].Options {
				look(o.Label, o.Description, o.Preview)
			}
		}
	}
	if d := ix.Decision; d != nil {
		look(d.Principal.ID, d.Principal.Name, d.Channel, d.Message, d.Comment, string(d.UpdatedInput), string(d.Content.Content))
		for _, a := range d.Answers {
			look(append([]string{a.Other, a.Notes}, a.Values...)...)
		}
	}
	return len(missing) == 0
}
