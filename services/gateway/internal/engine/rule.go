package engine

import (
	"context"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/quota"
	"github.com/banksman/banksman/services/gateway/internal/record"
)

// ruled lets a rule decide what nobody has seen yet. Whatever goes wrong, people
// are asked.
func (e *Engine) ruled(ctx context.Context, a *api.Asked) (tried, decided bool) {
	if e.opts.Rules == nil {
		return false, false
	}
	owner := quota.Owner{Tenant: a.Ref.Tenant, Name: a.Ref.Owner}
	claim, err := e.opts.Rules.Claim(ctx, a)
	if err != nil && e.ledger.Note(owner) {
		e.log.WarnContext(ctx, "the rules are not known now: people are asked", "interaction", a.Ref.String(), "error", err)
	}
	if err != nil || claim == nil {
		return err != nil, false
	}
	if e.ledger.Check(owner, a.Size) != nil {
		claim.Return(ctx)
		return true, false // refused, as what goes to people is
	}
	rec := e.Decide(ctx, claim.Attempt)
	if rec.Status != hitl.Accepted && rec.Status != hitl.Unavailable { // then it may be stored
		claim.Return(ctx)
	}
	return true, rec.Status == hitl.Accepted
}

// Asked implements api.Engine.
func (e *Engine) Asked(ctx context.Context, id string) (*api.Asked, error) {
	ref, err := e.view.Lookup(id)
	if err != nil {
		return nil, err
	}
	t, w, err := e.find(ctx, ref)
	switch {
	case err != nil:
		return nil, err
	case w == nil:
		return &api.Asked{Ref: ref, Request: t.Request, Digest: t.Digest, Policy: t.Policy, RequestedAt: t.RequestedAt, Size: len(t.Raw)}, nil
	}
	r, _, err := record.Decided(&e.policy, ref, w)
	if err == nil && r == nil {
		err = api.ErrNotFound // only its digest was kept
	}
	if err != nil {
		return nil, err
	}
	return &api.Asked{Ref: ref, Request: r, Digest: w.Digest, Policy: w.Policy, RequestedAt: w.RequestedAt, Decided: true}, nil
}
