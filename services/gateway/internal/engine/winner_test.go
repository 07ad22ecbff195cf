package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/gateway/internal/api"
)

// tallied is a journal that counts how often a decision is written or read.
type tallied struct {
	journal.Journal
	calls *atomic.Int32
}

func (c tallied) Decide(ctx context.Context, ref subject.Ref, d *hitl.Decision) (*journal.StoredDecision, bool, error) {
	c.calls.Add(1)
	return c.Journal.Decide(ctx, ref, d)
}

func (c tallied) Decision(ctx context.Context, ref subject.Ref) (*journal.StoredDecision, error) {
	c.calls.Add(1)
	return c.Journal.Decision(ctx, ref)
}

// Whoever comes too late is told by a gateway that knows; only what is too
// large to be kept is read again.
func TestManyWhoComeTooLateReadTheRecordOnce_B04_invariant6(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	here, _ := w.gateway()
	var calls atomic.Int32
	there, _ := w.gateway(func(o *Options) { o.Journal = tallied{o.Journal, &calls} })
	for name, large := range map[string]bool{"small": false, "large": true} {
		t.Run(name, func(t *testing.T) {
			r := request("crowd-"+name, func(r *hitl.Request) {
				if large {
					r.Tool.Input = json.RawMessage(`{"command":"` + strings.Repeat("x", 64<<10) + `"}`)
				}
			})
			raw := w.ask(w.connect(), r)
			pending(t, here, r.ID)
			pending(t, there, r.ID)
			calls.Store(0)
			first := here.Decide(t.Context(), answer(r, raw, "ada", allow))
			require.Equal(t, hitl.Accepted, first.Status)
			for i := range 20 {
				for _, e := range []*Engine{here, there} {
					rec := e.Decide(t.Context(), answer(r, raw, fmt.Sprint("late", i), deny))
					require.Equal(t, hitl.AlreadyDecided, rec.Status)
					require.Equal(t, first.Decision, rec.Decision)
				}
			}
			if !large {
				require.LessOrEqual(t, calls.Load(), int32(3), "one attempt finds out; intake and sweeper look too")
			}
			rec := there.Decide(t.Context(), answer(r, raw, "ada", allow))
			require.Equal(t, hitl.Duplicate, rec.Status, "the winner's own word, again, elsewhere")
			rec = there.Decide(t.Context(), answer(r, raw, "ada", deny))
			require.Equal(t, hitl.AlreadyDecided, rec.Status, "another word of the winner is too late as well")
			rec = there.Decide(t.Context(), answer(r, raw, "ada", func(a *api.Attempt) { a.Decision, a.SessionID = "allow", "another" }))
			require.Equal(t, hitl.NotFound, rec.Status)
		})
	}
}

func TestWinnersAreBounded(t *testing.T) {
	t.Parallel()
	var l winners
	ref := func(i int) subject.Ref { return subject.NewRef("default", "agents", fmt.Sprint("id", i)) }
	for i := range maxWinners + 1 {
		l.add(ref(i), &journal.StoredDecision{Decision: &hitl.Decision{DecisionID: fmt.Sprint(i)}})
	}
	require.Len(t, l.byRef, maxWinners)
	require.Len(t, l.order, maxWinners)
	require.Nil(t, l.get(ref(0)), "the oldest goes first")
	again := l.add(ref(1), &journal.StoredDecision{Decision: &hitl.Decision{DecisionID: "another"}})
	require.Equal(t, "1", again.DecisionID, "the first counts")
}
