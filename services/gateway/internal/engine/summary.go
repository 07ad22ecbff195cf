package engine

import (
	"time"
	"unicode/utf8"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
)

const (
	maxToolInput = 1 << 10 // bytes of tool input in a summary
	maxText      = 200     // runes of any other text in a summary
	maxBody      = 4 << 10 // bytes of a body that travels with its summary
)

// admission is what intake knows of a request beside its bytes.
type admission struct {
	ref         subject.Ref
	seq         uint64
	requestedAt time.Time
	attempt     int
	worker      string
	policy      hitl.Policy
	riskReason  string
}

// summarize makes the list form of a request, from data only.
func summarize(r *hitl.Request, digest string, a admission) wire.Summary {
	session := subject.NewSession(r.Tenant, r.Owner, r.SessionID)
	s := wire.Summary{
		RequestID: r.ID, Key: a.ref.String(), RequestType: hitl.RequestTypeOf(r.Kind), Kind: r.Kind,
		Presentation: hitl.PresentationOf(r.Kind), SessionID: r.SessionID, SessionKey: session.String(),
		Tenant: r.Tenant, Owner: r.Owner, ProjectID: r.ProjectID, AgentName: visible(r.AgentName),
		ToolCallID: r.ToolCallID, Headline: cut(hitl.Headline(r)), Title: visible(r.Title), Digest: digest,
		Risk: a.policy.Risk, RiskReason: a.riskReason, CreatedAt: a.requestedAt, Attempt: a.attempt,
	}
	if r.Tool != nil {
		s.ToolName = visible(r.Tool.Name)
		text, _ := hitl.DisplayJSON(r.Tool.Input)
		if blocks := hitl.View(r); len(blocks) > 0 && blocks[0].Form == "command" {
			text = blocks[0].Text
		}
		if len(text) > maxToolInput {
			text, s.Cut = cutBytes(text, maxToolInput), true
		}
		s.ToolInput = text
	}
	if d := deadline(r, a.requestedAt); !d.IsZero() {
		s.ExpiresAt = &d
	}
	if d := r.Attention(); d > 0 {
		at := a.requestedAt.Add(d)
		s.AttentionAt = &at
	}
	return s
}

// deadline is the zero time for a request that waits for ever.
func deadline(r *hitl.Request, requestedAt time.Time) time.Time {
	if d := r.Expiry(); d > 0 {
		return requestedAt.Add(d)
	}
	return time.Time{}
}

// body makes the whole of what a person must see.
func body(r *hitl.Request) *wire.Body {
	b := &wire.Body{
		Blocks: hitl.View(r), Message: visibleWhole(r.Message), Reason: visibleWhole(r.Reason),
		Scopes: []string{"once"}, Verbs: []string{hitl.VerbDeny, hitl.VerbDismiss},
	}
	if k, ok := hitl.LookupKind(r.Kind); ok {
		b.Verbs = k.Verbs
	}
	if len(r.Suggestions) > 0 && string(r.Suggestions) != "null" && string(r.Suggestions) != "[]" {
		b.Scopes = append(b.Scopes, "session")
	}
	if r.Tool != nil {
		b.Cwd = visibleWhole(r.Tool.Cwd)
		b.Input = string(r.Tool.Input)
	}
	if len(r.Schema) > 0 {
		b.Schema, _ = hitl.DisplayJSON(r.Schema)
	}
	for _, o := range r.Options {
		o.Name = visibleWhole(o.Name)
		b.Options = append(b.Options, o)
	}
	for i := range r.Questions {
		q := &r.Questions[i]
		out := wire.Question{
			ID: r.QuestionID(i), Header: visibleWhole(q.Header), Question: visibleWhole(q.Question),
			MultiSelect: q.MultiSelect, AllowOther: q.Other(), FreeTextExclusive: q.FreeTextExclusive,
			Required: q.MustAnswer(), Options: []wire.Option{},
		}
		for j := range q.Options {
			o := &q.Options[j]
			out.Options = append(out.Options, wire.Option{
				Value: o.OptionValue(), Label: visibleWhole(o.Label),
				Description: visibleWhole(o.Description), Preview: visibleWhole(o.Preview),
			})
		}
		b.Questions = append(b.Questions, out)
	}
	return b
}

// small returns b where it may travel with its summary.
func small(b *wire.Body) *wire.Body {
	if raw, err := hitl.Marshal(b); err != nil || len(raw) > maxBody {
		return nil
	}
	return b
}

func visibleWhole(s string) string {
	out, _ := hitl.Visible(s)
	return out
}

func visible(s string) string { return cut(visibleWhole(s)) }

// cut bounds a text for a list; the whole is in the body or the request.
func cut(s string) string {
	if utf8.RuneCountInString(s) <= maxText {
		return s
	}
	return string([]rune(s)[:maxText]) + " …"
}

func cutBytes(s string, n int) string {
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
