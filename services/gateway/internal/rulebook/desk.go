package rulebook

import (
	"context"
	"errors"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/auth"
	"github.com/banksman/banksman/services/gateway/internal/permit"
	"github.com/banksman/banksman/services/gateway/internal/rule"
)

// Bounds of a preview.
const (
	maxScan  = 1000 // requests whose summaries are looked at
	maxLook  = 100  // decided ones that are read
	maxCases = 50   // shown of each sort
	maxApply = 100
)

// Desk is where people make rules, see what they would do and end them.
type Desk struct {
	Book   *Book
	Engine api.Engine
}

// draft is a rule that may be made.
type draft struct {
	rule wire.Rule
	call *rule.Call
	ask  *api.Asked
}

// draft makes a rule of what somebody wants, if that person may decide such
// requests.
func (d *Desk) draft(ctx context.Context, sess *auth.Session, in *wire.NewRule) (*draft, error) {
	if in.RequestID == "" {
		return nil, hitl.Invalid("request_id", "is missing")
	}
	if in.Effect == "" {
		in.Effect = wire.RuleAllow
	}
	if in.Pattern == "" {
		in.Pattern = wire.RuleExact
	}
	if in.Scope == "" {
		in.Scope = wire.RuleSession
	}
	if in.Effect != wire.RuleAllow && in.Effect != wire.RuleDeny {
		return nil, hitl.Invalid("effect", "must be allow or deny")
	}
	ask, err := d.Engine.Asked(ctx, in.RequestID)
	if err != nil {
		return nil, err
	}
	// As the person, and as the rule would be judged.
	as := api.Attempt{Principal: sess.Person, Rights: sess.Rights, AskedFor: api.Owner(sess.Person)}
	if _, refused := permit.Role(&as, ask.Request); refused != nil {
		if refused.Status == hitl.NotFound {
			return nil, api.ErrNotFound
		}
		return nil, ErrForbidden
	}
	if in.Digest != ask.Digest {
		return nil, hitl.Invalid("digest", "is not that of the request: a rule is made from what was shown")
	}
	if why := rule.Reason(ask.Request, ask.Policy.Risk, in.Effect); why != "" {
		return nil, hitl.Invalid("request_id", "%s", why)
	}
	c := rule.Read(ask.Request, ask.Policy.Risk)
	m, err := rule.Make(c, in.Pattern, in.Scope)
	if err != nil {
		return nil, err
	}
	now := d.Book.now().UTC()
	longest := longest(sess, now)
	ttl := time.Duration(in.ExpiresIn) * time.Second
	if in.ExpiresIn < 1 || in.ExpiresIn > int64(longest/time.Second) {
		return nil, hitl.Invalid("expires_in", "must be 1 to %d seconds", int64(longest/time.Second))
	}
	if in.MaxUses < 0 || in.MaxUses > maxUses {
		return nil, hitl.Invalid("max_uses", "must be 1 to %d, or absent", maxUses)
	}
	return &draft{call: c, ask: ask, rule: wire.Rule{
		Effect: in.Effect, Title: rule.Title(&m), Text: rule.Text(in.Effect, &m), Match: m, Maker: sess.Person,
		CreatedAt: now, ExpiresAt: now.Add(ttl), MaxUses: in.MaxUses, State: wire.RuleActive, MayRevoke: true,
		From: &wire.RuleTarget{RequestID: in.RequestID, Digest: in.Digest},
	}}, nil
}

// longest is how long a rule of somebody may last. Nobody tells when an issuer
// takes roles away: then it is no longer than the sign-in.
func longest(sess *auth.Session, now time.Time) time.Duration {
	if sess.Vouched {
		return max(time.Second, min(MaxTTL, sess.ExpiresAt.Sub(now)))
	}
	return MaxTTL
}

// may reports whether a session may make rules: only that of a person at a
// browser. What runs beside a terminal may be the agent.
func may(sess *auth.Session) bool {
	return sess.Person.Kind == "person" && sess.Via != auth.ViaCLI
}

// Preview says what a rule would be and what it would decide.
func (d *Desk) Preview(ctx context.Context, sess *auth.Session, in wire.NewRule) (*wire.RulePreview, error) {
	if !may(sess) {
		return nil, ErrForbidden
	}
	if in.ExpiresIn == 0 {
		in.ExpiresIn = 1 // it is not made
	}
	dr, err := d.draft(ctx, sess, &in)
	if err != nil {
		return nil, err
	}
	out := &wire.RulePreview{
		Rule: dr.rule, Patterns: []wire.RuleChoice{}, Scopes: []wire.RuleChoice{}, Examples: rule.Examples(&dr.rule.Match, dr.call),
		Pending: []wire.RuleCase{}, Recent: []wire.RuleCase{}, Others: []wire.RuleCase{},
		MaxExpiresIn: int64(longest(sess, d.Book.now()) / time.Second),
	}
	for _, p := range rule.Patterns(dr.call) {
		out.Patterns = append(out.Patterns, wire.RuleChoice{ID: p.ID, Text: rule.What(&p.Match)})
	}
	for _, s := range rule.Scopes(dr.call) {
		m, err := rule.Make(dr.call, in.Pattern, s)
		if err != nil {
			return nil, err
		}
		out.Scopes = append(out.Scopes, wire.RuleChoice{ID: s, Text: rule.Whose(&m)})
	}
	for _, state := range []string{wire.StatePending, wire.StateClosed} {
		if err := d.compare(ctx, sess, &dr.rule, state, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// compare holds requests against a rule: all that wait, and the newest decided ones.
func (d *Desk) compare(ctx context.Context, sess *auth.Session, r *wire.Rule, state string, out *wire.RulePreview) error {
	list, _, err := d.Engine.List(ctx, api.List{State: state, Limit: maxScan, Sees: func(sum *wire.Summary) bool {
		_, decides := sess.Rights.Decides(sum.Kind, sum.Tenant, sum.ProjectID)
		return decides && !rule.Unlike(&r.Match, sum)
	}})
	if err != nil {
		return err
	}
	look := 0
	for i := range list {
		ix := &list[i]
		if state == wire.StateClosed {
			if look == maxLook {
				break
			}
			look++
		}
		ask, err := d.Engine.Asked(ctx, ix.Key)
		if errors.Is(err, api.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		kept := wire.RuleCase{
			RequestID: ix.Key, Digest: ask.Digest, Headline: ix.Headline, Input: ix.ToolInput, Cut: ix.Cut, CreatedAt: ix.CreatedAt, Outcome: ix.Outcome,
		}
		fits := decidesAlone(r, ask)
		to := &out.Others
		switch {
		case fits && state == wire.StatePending:
			to = &out.Pending
		case fits:
			to = &out.Recent
		}
		if len(*to) < maxCases {
			*to = append(*to, kept)
		}
	}
	if state == wire.StateClosed {
		out.Looked = look
	}
	return nil
}

// decidesAlone reports whether a rule without others decides a request.
func decidesAlone(r *wire.Rule, ask *api.Asked) bool {
	c := rule.Read(ask.Request, ask.Policy.Risk)
	switch {
	case c == nil:
		return false
	case r.Effect == wire.RuleDeny:
		return rule.Denies(&r.Match, c)
	}
	return rule.Allowing([]*wire.Rule{r}, c) != nil
}

// Make makes a rule, and lets it decide those that wait and were named.
func (d *Desk) Make(ctx context.Context, sess *auth.Session, in wire.NewRule) (*wire.MadeRule, error) {
	if !may(sess) {
		return nil, ErrForbidden
	}
	if len(in.Apply) > maxApply {
		return nil, hitl.Invalid("apply", "has more than %d entries", maxApply)
	}
	dr, err := d.draft(ctx, sess, &in)
	if err != nil {
		return nil, err
	}
	made, err := d.Book.add(ctx, dr.rule)
	if err != nil {
		return nil, err
	}
	d.Book.log.Info("rule made", "rule", made.ID, "effect", made.Effect, "pattern", made.Match.Pattern, "scope", made.Match.Scope,
		"until", made.ExpiresAt, "by", sess.Person.ID)
	out := &wire.MadeRule{Rule: made, Applied: d.applyAll(ctx, &made, in.Apply)}
	for _, rec := range out.Applied {
		if rec.Status == hitl.Accepted {
			out.Rule.Uses++
		}
	}
	return out, nil
}

// applyAll lets a rule decide those that wait and were named.
func (d *Desk) applyAll(ctx context.Context, r *wire.Rule, list []wire.RuleTarget) []wire.Receipt {
	out := make([]wire.Receipt, 0, len(list))
	for _, t := range list {
		rec := d.apply(ctx, r, t)
		rec.Type, rec.RequestID = wire.TypeReceipt, t.RequestID
		out = append(out, rec)
	}
	return out
}

// apply lets one rule decide what waits already.
func (d *Desk) apply(ctx context.Context, r *wire.Rule, t wire.RuleTarget) wire.Receipt {
	told := func(rec hitl.Receipt) wire.Receipt { return wire.Receipt{Receipt: rec} }
	ask, err := d.Engine.Asked(ctx, t.RequestID)
	if err != nil {
		return told(api.Failure(err))
	}
	if t.Digest != ask.Digest {
		return told(hitl.Receipt{Status: hitl.DigestMismatch, Error: "this is not the request that was shown; nothing was decided"})
	}
	if !decidesAlone(r, ask) {
		return told(hitl.Receipt{Status: hitl.Forbidden, Error: "the rule is not about this request"})
	}
	v := able{book: d.Book, ask: ask}
	claim, err := d.Book.claim(ctx, &v, r)
	switch {
	case errors.Is(err, errOver), errors.Is(err, errMoved):
		return told(hitl.Receipt{Status: hitl.Forbidden, Error: err.Error()})
	case err != nil:
		return told(hitl.Receipt{Status: hitl.Unavailable, Error: "the use of the rule could not be counted; nothing was decided"})
	case claim == nil:
		return told(hitl.Receipt{Status: hitl.Forbidden, Error: "none of your roles decides this"})
	}
	rec := d.Engine.Decide(ctx, claim.Attempt)
	if rec.Status != hitl.Accepted && rec.Status != hitl.Unavailable {
		claim.Return(ctx)
	}
	return rec
}

// List returns the rules that somebody may know of: one's own, and those about
// what one may decide.
func (d *Desk) List(sess *auth.Session) []wire.Rule {
	out := []wire.Rule{}
	for _, r := range d.Book.all() {
		_, decides := sess.Rights.Decides(r.Match.Kind, r.Match.Tenant, r.Match.ProjectID)
		if !decides && !mine(sess, &r) {
			continue
		}
		d.mark(sess, &r)
		out = append(out, r)
	}
	return out
}

func mine(sess *auth.Session, r *wire.Rule) bool {
	return sess.Person.Kind == "person" && sess.Person.ID == r.Maker.ID
}

// mayRevoke reports whether somebody may end a rule: who made it, and an admin of
// what it is about.
func mayRevoke(sess *auth.Session, r *wire.Rule) bool {
	return sess.Person.Kind == "person" && (mine(sess, r) || sess.Rights.Administers(r.Match.Tenant, r.Match.ProjectID))
}

// Revoke ends a rule, at once and on every gateway.
func (d *Desk) Revoke(ctx context.Context, sess *auth.Session, id string) error {
	for _, r := range d.List(sess) {
		if r.ID != id {
			continue
		}
		if !mayRevoke(sess, &r) {
			return ErrForbidden
		}
		return d.Book.revoke(ctx, id, sess.Person)
	}
	if sess.Manages() {
		return d.Book.drop(ctx, id, sess.Person)
	}
	return ErrUnknown
}
