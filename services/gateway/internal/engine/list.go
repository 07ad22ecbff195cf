package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/card"
	"github.com/banksman/banksman/services/gateway/internal/cursor"
	"github.com/banksman/banksman/services/gateway/internal/projection"
	"github.com/banksman/banksman/services/gateway/internal/record"
	"github.com/banksman/banksman/services/gateway/internal/replay"
)

// List implements api.Engine. What is decided comes from memory; what is not there any
// more is found by its id.
func (e *Engine) List(ctx context.Context, q api.List) (list []wire.Interaction, more bool, err error) {
	if err := e.latest.Look(ctx, e.opts.Journal, e.view, e.wait); err != nil {
		return nil, false, err
	}
	switch q.State {
	case wire.StatePending:
		list, more = e.view.ListOpen(q)
	case wire.StateClosed:
		list, more = e.view.ListClosed(q)
	default:
		err = hitl.Invalid("state", "must be pending or closed")
	}
	return list, more, err
}

// Waiting implements api.Engine.
func (e *Engine) Waiting(id string) (wire.Summary, bool) { return e.view.Waiting(id) }

// Interaction implements api.Engine.
func (e *Engine) Interaction(ctx context.Context, id string) (*wire.Interaction, error) {
	ref, err := e.lookup(ctx, id)
	if err != nil {
		return nil, err
	}
	p, _ := e.view.Pending(ref)
	t, w, err := e.read(ctx, ref)
	if err != nil {
		return nil, err
	}
	out := &wire.Interaction{ID: ref.ID, State: wire.StatePending}
	if w == nil {
		out.Summary = card.Summarize(t.Request, t.Digest, t.Admission)
		out.Body = card.Body(t.Request, t.Raw, t.Admission)
		out.Attempt, out.Unreachable = max(p.Attempt, t.Attempt), p.Unreachable
		out.ServerTime = e.now().UTC()
		return out, nil
	}
	out.State, out.Outcome, out.Decision = wire.StateClosed, w.Outcome, w.WithoutRequest()
	r, a, err := record.Decided(&e.policy, ref, w)
	if err != nil {
		return nil, err
	}
	if r != nil {
		raw, err := w.Request()
		if err != nil {
			return nil, err
		}
		out.Summary, out.Body = card.Summarize(r, w.Digest, a), card.Body(r, raw, a)
	} else {
		out.Summary = record.Unreadable(a, w)
	}
	out.ServerTime = e.now().UTC()
	out.Body = cmp.Or(out.Body, &wire.Body{Verbs: []string{}, Scopes: []string{}})
	err = e.opts.Journal.Last(ctx, journal.Transcripts, trail(ref), func(m journal.Message) error {
		if a, ok := card.ReadAck(m); ok && a.DecisionID == w.DecisionID {
			out.Trail = append(out.Trail, a)
		}
		return nil
	})
	if err != nil && !errors.Is(err, journal.ErrNotFound) {
		return nil, err
	}
	slices.SortFunc(out.Trail, func(a, b hitl.Ack) int { return a.At.Compare(b.At) })
	return out, nil
}

// Transcript implements api.Engine.
func (e *Engine) Transcript(ctx context.Context, id, from, upto string) ([]wire.Event, bool, error) {
	key, err := e.session(ctx, id)
	if err != nil {
		return nil, false, err
	}
	now := e.view.Position()
	kept, err := replay.Kept(ctx, e.opts.Journal, e.opts.Epoch)
	if err != nil {
		return nil, false, err
	}
	start, ok := cursor.Parse(from)
	if from == "" {
		start = kept
	}
	reset := from != "" && (!ok || !now.Covers(start) || start.Events < kept.Events || start.Transcripts < kept.Transcripts)
	if reset {
		start = kept
	}
	end, ok := cursor.Parse(upto)
	if !ok || !end.SameEpoch(now) {
		end = now
	}
	events, err := replay.Read(ctx, e.opts.Journal, key, start, end)
	return events, reset && err == nil, err
}

// Sessions implements api.Engine.
func (e *Engine) Sessions() []wire.ProcessState { return e.view.Sessions() }

// Session implements api.Engine.
func (e *Engine) Session(key string) (wire.ProcessState, bool) {
	ref, ok := subject.ParseRef(key)
	if !ok {
		return wire.ProcessState{}, false
	}
	return e.view.State(subject.Session(ref))
}

// Watch implements api.Engine.
func (e *Engine) Watch(from string, fn func(api.Update)) api.Watch { return e.view.Watch(from, fn) }

// Reach implements api.Engine.
func (e *Engine) Reach(ctx context.Context, from string) { e.view.Reach(ctx, from) }

// Cursor implements api.Engine.
func (e *Engine) Cursor() string { return e.view.Position().String() }

// View is what is open, for who counts it.
func (e *Engine) View() *projection.Projection { return e.view }

// Runtimes implements api.Engine.
func (e *Engine) Runtimes() []string { return e.view.Runtimes() }
