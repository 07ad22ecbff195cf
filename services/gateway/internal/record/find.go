package record

import (
	"context"
	"errors"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/gateway/internal/card"
	"github.com/banksman/banksman/services/gateway/internal/policy"
)

// Find finds a plain id in the streams. An id is made of tenant and owner:
// what another owner stored under it is no request. Its errors are the journal's.
func Find(ctx context.Context, j journal.Journal, p *policy.Policy, id string) (subject.Ref, error) {
	if !subject.ValidToken(id) {
		return subject.Ref{}, journal.ErrNotFound
	}
	anybody := subject.Ref{Tenant: "*", Owner: "*", ID: id}
	m, err := j.Request(ctx, anybody)
	if err == nil {
		at, err := subject.Parse(m.Subject)
		if err != nil {
			return subject.Ref{}, journal.ErrNotFound
		}
		if _, _, bad := Examine(p, at.Ref(), *m); bad != nil {
			return subject.Ref{}, journal.ErrNotFound
		}
		return at.Ref(), nil
	}
	left := errors.Is(err, journal.ErrLeft)
	if !left && !errors.Is(err, journal.ErrNotFound) {
		return subject.Ref{}, err
	}
	// It may have been decided and swept since.
	w, err := j.Decision(ctx, anybody)
	if errors.Is(err, journal.ErrNotFound) {
		if left {
			return subject.Ref{}, journal.ErrLeft
		}
		return subject.Ref{}, journal.ErrNotFound
	}
	if err != nil {
		return subject.Ref{}, err
	}
	raw, err := w.Request()
	if err != nil || raw == nil {
		return subject.Ref{}, journal.ErrNotFound // only its digest was kept
	}
	r, err := hitl.ParseRequest(raw)
	if err != nil {
		return subject.Ref{}, journal.ErrNotFound
	}
	return subject.NewRef(r.Tenant, r.Owner, r.ID), nil
}

// Withdrawn is the outcome of a withdrawal.
func Withdrawn(m journal.Message) hitl.Content {
	var w hitl.Withdrawal
	if err := hitl.Decode(m.Data, "withdrawal", &w); err != nil {
		w = hitl.Withdrawal{} // the wish is clear from the subject
	}
	c := hitl.Content{Outcome: hitl.Cancelled, Message: card.Line(w.Reason)}
	if w.Shutdown {
		c.Comment = hitl.ShutdownComment
	}
	return c
}
