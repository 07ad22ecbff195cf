package engine

import (
	"context"
	"errors"

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

func (e *Engine) elsewhere(ctx context.Context, id string) (subject.Ref, error) {
	ref, err := record.Find(ctx, e.opts.Journal, &e.policy, id)
	if errors.Is(err, journal.ErrNotFound) {
		err = api.ErrNotFound
	}
	return ref, err
}
