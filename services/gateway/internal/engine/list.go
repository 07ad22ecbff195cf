package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/card"
	"github.com/banksman/banksman/services/gateway/internal/cursor"
	"github.com/banksman/banksman/services/gateway/internal/record"
	"github.com/banksman/banksman/services/gateway/internal/replay"
)

// Interactions implements api.Engine. What is decided comes from memory, newest
// first; older ones are found by id.
func (e *Engine) Interactions(_ context.Context, state string, limit int) ([]wire.Interaction, error) {
	if limit <= 0 || limit > 1000 {
		limit = 1000
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	out := []wire.Interaction{}
	now := e.now().UTC()
	switch state {
	case "", wire.StatePending:
		entries := make([]*entry, 0, len(e.open))
		for _, en := range e.open {
			if !en.decided {
				entries = append(entries, en)
			}
		}
		slices.SortFunc(entries, func(a, b *entry) int {
			return cmp.Or(a.RequestedAt.Compare(b.RequestedAt), cmp.Compare(a.Seq, b.Seq))
		})
		for _, en := range entries[:min(limit, len(entries))] {
			sum := en.summary
			sum.ServerTime = now
			if s := e.sessions[en.session]; s != nil {
				sum.Unreachable = s.known && e.unreachable(s)
			}
			out = append(out, wire.Interaction{ID: sum.RequestID, Summary: sum, State: wire.StatePending})
		}
	case wire.StateClosed:
		for _, c := range e.closed.Newest(limit) {
			sum := c.Summary
			sum.ServerTime = now
			out = append(out, wire.Interaction{
				ID: c.RequestID, Summary: sum, State: wire.StateClosed, Outcome: c.Outcome,
				Decision: c.Decision, Trail: c.Trail,
			})
		}
	default:
		return nil, hitl.Invalid("state", "must be pending or closed")
	}
	return out, nil
}

// Interaction implements api.Engine.
func (e *Engine) Interaction(ctx context.Context, id string) (*wire.Interaction, error) {
	e.mu.Lock()
	ref, err := e.lookup(id)
	if err != nil {
		e.mu.Unlock()
		return nil, err
	}
	var attempt int
	var unreachable bool
	if en := e.open[ref]; en != nil {
		attempt = en.Attempt
		if s := e.sessions[en.session]; s != nil {
			unreachable = s.known && e.unreachable(s)
		}
	}
	e.mu.Unlock()
	t, w, err := e.find(ctx, ref)
	if err != nil {
		return nil, err
	}
	out := &wire.Interaction{ID: ref.ID, State: wire.StatePending}
	if w == nil {
		out.Summary = card.Summarize(t.Request, t.Digest, t.Admission)
		out.Body = card.Body(t.Request, t.Raw)
		out.Attempt, out.Unreachable = max(attempt, t.Attempt), unreachable
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
		out.Summary, out.Body = card.Summarize(r, w.Digest, a), card.Body(r, raw)
	} else {
		out.Summary = record.Unreadable(a, w)
	}
	out.ServerTime = e.now().UTC()
	out.Body = cmp.Or(out.Body, &wire.Body{Verbs: []string{}, Scopes: []string{}})
	err = e.opts.Journal.Last(ctx, journal.Transcripts, []string{"hitl.ack." + ref.String() + ".*"}, func(m journal.Message) error {
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
	e.mu.Lock()
	key, err := e.sessionByID(id)
	now := e.pos
	e.mu.Unlock()
	if err != nil {
		return nil, false, err
	}
	start, ok := cursor.Parse(from)
	reset := from != "" && (!ok || !start.SameEpoch(now))
	if reset || from == "" {
		start = cursor.Position{}
	}
	end, ok := cursor.Parse(upto)
	if !ok || !end.SameEpoch(now) {
		end = now
	}
	events, err := replay.Read(ctx, e.opts.Journal, key, start, end)
	return events, reset && err == nil, err
}
