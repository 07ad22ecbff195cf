package rulebook

import (
	"context"
	"fmt"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/auth"
)

const (
	maxUses = 1_000_000
	// maxChanges bounds what is kept of a rule's past.
	maxChanges = 50
)

// mayChange reports whether somebody may change a rule: who made it, at a browser.
// It decides in that person's name.
func mayChange(sess *auth.Session, r *wire.Rule) bool { return may(sess) && mine(sess, r) }

// Change makes a new version of a rule in force: who, when and what stay with it.
func (d *Desk) Change(ctx context.Context, sess *auth.Session, id string, in wire.ChangeRule) (*wire.Rule, error) {
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
	if in.ExpiresIn == 0 && in.MaxUses == nil {
		return nil, hitl.Invalid("expires_in", "is missing: name it, or max_uses")
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
		if c.What == "" {
			return hitl.Invalid("max_uses", "changes nothing")
		}
		if len(r.Changes) >= maxChanges {
			return hitl.Invalid("version", "is the last one: make another rule")
		}
		r.Version = c.Version
		r.Changes = append(r.Changes[:len(r.Changes):len(r.Changes)], c)
		return nil
	})
	if err != nil {
		return nil, err
	}
	d.Book.log.Info("rule changed", "rule", id, "version", r.Version, "until", r.ExpiresAt, "max_uses", r.MaxUses, "by", sess.Person.ID)
	r.State = state(&r, now)
	d.mark(sess, &r)
	return &r, nil
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
