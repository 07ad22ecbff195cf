package rulebook

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/auth"
)

const (
	maxUses = 1_000_000
	// maxChanges bounds what is kept of a rule's past.
	maxChanges = 50
	// maxPast bounds the texts of it, in bytes: a rule lies in one message.
	maxPast = 256 << 10
)

// mayChange reports whether somebody may change a rule: who made it, at a browser.
// It decides in that person's name.
func mayChange(sess *auth.Session, r *wire.Rule) bool { return may(sess) && mine(sess, r) }

// Change makes a new version of a rule in force: who, when and what stay with it.
// What it matches now decides only what comes from then on, and of what waits that
// which is named. Nothing is decided by an older version after this has returned.
func (d *Desk) Change(ctx context.Context, sess *auth.Session, id string, in wire.ChangeRule) (*wire.ChangedRule, error) {
	var found *wire.Rule
	for _, r := range d.List(sess) {
		if r.ID == id {
			found = &r
		}
	}
	if found == nil {
		return nil, ErrUnknown
	}
	if !mayChange(sess, found) {
		return nil, ErrForbidden
	}
	if in.ExpiresIn == 0 && in.MaxUses == nil && in.Match == nil {
		return nil, hitl.Invalid("expires_in", "is missing: name it, max_uses or match")
	}
	if len(in.Apply) > maxApply {
		return nil, hitl.Invalid("apply", "has more than %d entries", maxApply)
	}
	var to *wire.Rule
	if in.Match != nil {
		var err error
		if to, err = d.redraft(ctx, sess, found, in.Match); err != nil {
			return nil, err
		}
	} else if len(in.Apply) > 0 {
		return nil, hitl.Invalid("apply", "goes with match only")
	}
	now := d.Book.now().UTC()
	limit := int64(longest(sess, now) / time.Second)
	if in.ExpiresIn < 0 || in.ExpiresIn > limit {
		return nil, hitl.Invalid("expires_in", "must be 1 to %d seconds", limit)
	}
	if in.MaxUses != nil && (*in.MaxUses < 0 || *in.MaxUses > maxUses) {
		return nil, hitl.Invalid("max_uses", "must be 1 to %d, or 0 for as often as it matches", maxUses)
	}
	r, err := d.Book.change(ctx, id, func(r *wire.Rule) error {
		if state(r, now) != wire.RuleActive || max(r.Version, 1) != in.Version {
			return ErrChanged
		}
		c := wire.RuleChange{Version: max(r.Version, 1) + 1, At: now, By: sess.Person, ExpiresAt: r.ExpiresAt, MaxUses: r.MaxUses}
		if in.ExpiresIn > 0 {
			r.ExpiresAt = now.Add(time.Duration(in.ExpiresIn) * time.Second)
			c.What = fmt.Sprintf("ends %s, was %s", r.ExpiresAt.Format(time.RFC3339), c.ExpiresAt.Format(time.RFC3339))
		}
		if in.MaxUses != nil && *in.MaxUses != r.MaxUses {
			if *in.MaxUses > 0 && *in.MaxUses <= r.Uses {
				return hitl.Invalid("max_uses", "must be above %d: so often it was used", r.Uses)
			}
			r.MaxUses = *in.MaxUses
			if c.What != "" {
				c.What += "; "
			}
			c.What += fmt.Sprintf("%s, was %s", often(r.MaxUses), often(c.MaxUses))
		}
		if to != nil && !reflect.DeepEqual(r.Match, to.Match) {
			c.Text = r.Text
			r.Match, r.Title, r.Text, r.From = to.Match, to.Title, to.Text, to.From
			if c.What != "" {
				c.What += "; "
			}
			c.What += "matches something else"
		}
		if c.What == "" {
			return hitl.Invalid("version", "would be like the one before: nothing changes")
		}
		past := len(c.Text)
		for _, old := range r.Changes {
			past += len(old.Text)
		}
		if len(r.Changes) >= maxChanges || past > maxPast {
			return hitl.Invalid("version", "is the last one: make another rule")
		}
		r.Version = c.Version
		r.Changes = append(r.Changes[:len(r.Changes):len(r.Changes)], c)
		return nil
	})
	if err != nil {
		return nil, err
	}
	d.Book.log.Info("rule changed", "rule", id, "version", r.Version, "pattern", r.Match.Pattern, "scope", r.Match.Scope,
		"until", r.ExpiresAt, "max_uses", r.MaxUses, "by", sess.Person.ID)
	out := &wire.ChangedRule{Rule: r, Applied: d.applyAll(ctx, &r, in.Apply)}
	for _, rec := range out.Applied {
		if rec.Status == hitl.Accepted {
			out.Uses++
		}
	}
	out.State = state(&out.Rule, now)
	d.mark(sess, &out.Rule)
	return out, nil
}

// redraft is what a rule is to match from now on, if its maker may decide such
// requests, and if it stays a rule about the same asker and tool.
func (d *Desk) redraft(ctx context.Context, sess *auth.Session, r *wire.Rule, w *wire.RuleWish) (*wire.Rule, error) {
	in := wire.NewRule{RequestID: w.RequestID, Digest: w.Digest, Effect: r.Effect, Pattern: w.Pattern, Scope: w.Scope, ExpiresIn: 1}
	if in.RequestID == "" && r.From != nil {
		in.RequestID, in.Digest = r.From.RequestID, r.From.Digest
	}
	dr, err := d.draft(ctx, sess, &in)
	if err != nil {
		return nil, err
	}
	a, b := &r.Match, &dr.rule.Match
	if a.Tenant != b.Tenant || a.Owner != b.Owner || a.AgentName != b.AgentName || a.Kind != b.Kind || a.Tool != b.Tool || a.Server != b.Server {
		return nil, hitl.Invalid("request_id", "is of another asker or tool: make another rule for it")
	}
	return &dr.rule, nil
}

func often(n int) string {
	switch n {
	case 0:
		return "as often as it matches"
	case 1:
		return "once"
	}
	return fmt.Sprintf("at most %d times", n)
}

// mark says what whoever reads a rule may do with it.
func (d *Desk) mark(sess *auth.Session, r *wire.Rule) {
	r.MayRevoke = r.RevokedAt == nil && mayRevoke(sess, r)
	r.Version = max(r.Version, 1)
	if r.State == wire.RuleActive && mayChange(sess, r) {
		r.MayChange, r.MaxExpiresIn = true, int64(longest(sess, d.Book.now())/time.Second)
	}
}
