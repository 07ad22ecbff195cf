// Package card turns records into what people see: summaries, bodies and the
// events of a session, as display text that browsers need not parse.
package card

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/hitl/link"
	"github.com/banksman/banksman/pkg/shown"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/trace"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/command"
)

const (
	maxToolInput = 1 << 10 // bytes of tool input in a summary
	maxText      = 200     // runes of any other text in a summary
	maxBody      = 4 << 10 // bytes of a body that travels with its summary
)

// questionTool names a question where a client wants a tool.
const questionTool = "AskUserQuestion"

// Admission is what intake knows of a request beside its bytes.
type Admission struct {
	Ref         subject.Ref
	Seq         uint64
	RequestedAt time.Time
	Attempt     int
	Worker      string
	Policy      hitl.Policy
	RiskReason  string
	Trace       trace.Point // where it was asked, or decided
	Card        *hitl.Card  // of what is decided: what was said of it then, where that is known

	// Reading is the shell text taken apart, where the policy did that already.
	// It is large: nothing that lasts keeps it.
	Reading *command.Reading
}

// Summarize makes the list form of a request, from data only.
func Summarize(r *hitl.Request, digest string, a Admission) wire.Summary {
	session, said := subject.NewSession(r.Tenant, r.Owner, r.SessionID), Said(r, a)
	s := wire.Summary{
		RequestID: r.ID, Key: a.Ref.String(), RequestType: hitl.RequestTypeOf(r.Kind), Kind: r.Kind,
		Presentation: hitl.PresentationOf(r.Kind), SessionID: r.SessionID, SessionKey: session.String(),
		Tenant: r.Tenant, Owner: r.Owner, ProjectID: Line(r.ProjectID), AgentName: Line(r.AgentName),
		ToolCallID: r.ToolCallID, Headline: said.Headline, Title: Line(r.Title), Digest: digest,
		Risk: said.Risk, RiskReason: said.RiskReason, Irreversible: said.Irreversible, CreatedAt: a.RequestedAt, Attempt: a.Attempt,
		AttentionAt: said.AttentionAt, ExpiresAt: said.ExpiresAt,
	}
	if r.Tool != nil {
		s.ToolName = Line(r.Tool.Name)
		text, ok := shellText(r)
		if !ok {
			text, _ = hitl.DisplayJSON(r.Tool.Input)
		}
		if len(text) > maxToolInput {
			text, s.Cut = cutBytes(text, maxToolInput), true
		}
		s.ToolInput = text
	} else if r.Kind == hitl.KindQuestion {
		s.ToolName = questionTool
	}
	return s
}

// shellText is the command that the view of a request begins with, if it does,
// without making the rest of the view.
func shellText(r *hitl.Request) (text string, ok bool) {
	if k, known := hitl.LookupKind(r.Kind); known && k.View != nil {
		blocks := k.View(r)
		if ok = len(blocks) > 0 && blocks[0].Form == "command"; ok {
			text = blocks[0].Text
		}
		return text, ok
	}
	if r.Tool.Name == "Bash" {
		text, _, ok = hitl.DisplayString(hitl.Member(r.Tool.Input, "command"))
	}
	return text, ok
}

// Said is what a gateway says of a request beside the request's own texts.
func Said(r *hitl.Request, a Admission) *hitl.Card {
	if a.Card != nil {
		return a.Card
	}
	read := reading(r, a)
	c := &hitl.Card{
		V: shown.Version, Headline: headline(r, a, read), Risk: a.Policy.Risk, RiskReason: a.RiskReason, Irreversible: read.Gone(),
		Verbs: []string{hitl.VerbDeny, hitl.VerbDismiss}, Scopes: []string{"once"},
	}
	if k, ok := hitl.LookupKind(r.Kind); ok {
		c.Verbs = k.Verbs
	}
	if len(r.Suggestions) > 0 && string(r.Suggestions) != "null" && string(r.Suggestions) != "[]" {
		c.Scopes, c.Grants = append(c.Scopes, "session"), grants(r.Suggestions)
	}
	c.Parts, c.MoreParts = parts(read)
	if d := Deadline(r, a.RequestedAt); !d.IsZero() {
		d = d.UTC()
		c.ExpiresAt = &d
	}
	if d := r.Attention(); d > 0 {
		at := a.RequestedAt.Add(d).UTC()
		c.AttentionAt = &at
	}
	return c
}

// Deadline is the zero time for a request that waits for ever.
func Deadline(r *hitl.Request, requestedAt time.Time) time.Time {
	if d := r.Expiry(); d > 0 {
		return requestedAt.Add(d)
	}
	return time.Time{}
}

// Body makes the whole of what a person must see of a request. raw is shown
// as it is where nothing else would be.
func Body(r *hitl.Request, raw []byte, a Admission) *wire.Body {
	said := Said(r, a)
	b := &wire.Body{
		Blocks: hitl.View(r), Message: Visible(r.Message), Reason: Visible(r.Reason), Scopes: said.Scopes, Verbs: said.Verbs,
		Grants: said.Grants, Parts: said.Parts, MoreParts: said.MoreParts, Shown: shown.Digest(r, said),
	}
	if _, known := hitl.LookupKind(r.Kind); !known && len(b.Blocks) == 0 {
		text, hidden := hitl.DisplayJSON(raw)
		b.Blocks = []hitl.Block{{Label: "Request", Form: "json", Text: text, Hidden: hidden}}
	}
	if r.Tool != nil {
		b.Cwd = Visible(r.Tool.Cwd)
		b.Input = editable(r.Tool.Input)
		if l, ok := link.Read(r.Tool.Name, r.Tool.Input); ok {
			b.Link = l.Address
		}
	}
	if len(r.Schema) > 0 {
		b.Schema, _ = hitl.DisplayJSON(r.Schema)
		b.Fields = fields(r.Schema)
	}
	for _, o := range r.Options {
		o.Name = Visible(o.Name)
		b.Options = append(b.Options, o)
	}
	for i := range r.Questions {
		q := &r.Questions[i]
		out := wire.Question{
			ID: r.QuestionID(i), Header: Visible(q.Header), Question: Visible(q.Question),
			MultiSelect: q.MultiSelect, AllowOther: q.Other(), FreeTextExclusive: q.FreeTextExclusive,
			Required: q.MustAnswer(), Options: []wire.Option{},
		}
		for j := range q.Options {
			o := &q.Options[j]
			out.Options = append(out.Options, wire.Option{
				Value: o.OptionValue(), Label: Visible(o.Label),
				Description: Visible(o.Description), Preview: Visible(o.Preview),
			})
		}
		b.Questions = append(b.Questions, out)
	}
	return b
}

// Small returns b where it may travel with its summary.
func Small(b *wire.Body) *wire.Body {
	if raw, err := hitl.Marshal(b); err != nil || len(raw) > maxBody {
		return nil
	}
	return b
}

// Visible is text with everything invisible as tokens.
func Visible(s string) string {
	out, _ := hitl.Visible(s)
	return out
}

// Line is Visible on one line, bounded for a list: a title of 200 empty lines
// would push everything else off the page.
func Line(s string) string {
	if strings.ContainsAny(s, "\n\t") {
		s = strings.Join(strings.Fields(s), " ")
	}
	return Cut(Visible(s))
}

// Cut bounds a text for a list; the whole is in the body or the request.
func Cut(s string) string { return cutRunes(s, maxText) }

func cutRunes(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n]) + " …"
}

func cutBytes(s string, n int) string {
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
