package engine

import (
	"context"
	"errors"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/record"
)

// resolve finds whom an attempt means, also where this gateway has not heard of
// it: a page was shown it by another one, and a proxy sent its answer here.
func (e *Engine) resolve(ctx context.Context, a *api.Attempt) (subject.Ref, error) {
	ref, err := e.view.Resolve(a)
	if !errors.Is(err, api.ErrNotFound) || a.RequestID == "" {
		return ref, err
	}
	if _, known := e.view.Lookup(a.RequestID); known == nil {
		return ref, err // of another session
	}
	return e.elsewhere(ctx, a.RequestID)
}

// lookup finds an interaction by its key or its plain id, likewise.
func (e *Engine) lookup(ctx context.Context, id string) (subject.Ref, error) {
	ref, err := e.view.Lookup(id)
	if !errors.Is(err, api.ErrNotFound) {
		return ref, err
	}
	return e.elsewhere(ctx, id)
}

// elsewhere finds a plain id in the streams. An id is made of tenant and owner:
// what another owner stored under it is no request.
func (e *Engine) elsewhere(ctx context.Context, id string) (subject.Ref, error) {
	if !subject.ValidToken(id) {
		return subject.Ref{}, api.ErrNotFound
	}
	anybody := subject.Ref{Tenant: "*", Owner: "*", ID: id}
	m, err := e.opts.Journal.Request(ctx, anybody)
	if err == nil {
		at, err := subject.Parse(m.Subject)
		if err != nil {
			return subject.Ref{}, api.ErrNotFound
		}
		if _, _, bad := record.Examine(&e.policy, at.Ref(), *m); bad != nil {
			return subject.Ref{}, api.ErrNotFound
		}
		return at.Ref(), nil
	}
	left := errors.Is(err, journal.ErrLeft)
	if !left && !errors.Is(err, journal.ErrNotFound) {
		return subject.Ref{}, err
	}
	// It may have been decided and swept since.
	w, err := e.opts.Journal.Decision(ctx, anybody)
	if errors.Is(err, journal.ErrNotFound) {
		if left {
			return subject.Ref{}, journal.ErrLeft
		}
		return subject.Ref{}, api.ErrNotFound
	}
	if err != nil {
		return subject.Ref{}, err
	}
	raw, err := w.Request()
	if err != nil || raw == nil {
		return subject.Ref{}, api.ErrNotFound // only its digest was kept
	}
	r, err := hitl.ParseRequest(raw)
	if err != nil {
		return subject.Ref{}, api.ErrNotFound
	}
	return subject.NewRef(r.Tenant, r.Owner, r.ID), nil
}
