package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
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

// Whoever comes too late is told by a gateway that knows.
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
			require.LessOrEqual(t, calls.Load(), int32(3), "one attempt finds out; intake and sweeper look too")
			rec := there.Decide(t.Context(), answer(r, raw, "ada", allow))
			require.Equal(t, hitl.Duplicate, rec.Status, "the winner's own word, again, elsewhere")
			rec = there.Decide(t.Context(), answer(r, raw, "ada", deny))
			require.Equal(t, hitl.AlreadyDecided, rec.Status, "another word of the winner is too late as well")
			rec = there.Decide(t.Context(), answer(r, raw, "ada", func(a *api.Attempt) { a.Decision, a.SessionID = "allow", "another" }))
			require.Equal(t, hitl.NotFound, rec.Status)
		})
	}
}

// stuck is a journal whose first write of a decision waits, and fails.
type stuck struct {
	journal.Journal
	calls *atomic.Int32
	begun chan struct{} // closed by the first write
	letGo chan struct{} // closed to let it fail
}

func (s stuck) Decide(ctx context.Context, ref subject.Ref, d *hitl.Decision) (*journal.StoredDecision, bool, error) {
	if s.calls.Add(1) == 1 {
		close(s.begun)
		<-s.letGo
		return nil, false, journal.ErrUnknown
	}
	return s.Journal.Decide(ctx, ref, d)
}

// Of many who decide at once in a gateway one writes; where that fails the next
// one does, and the rest is told what it found.
func TestOneOfACrowdWritesAndTheNextWhereItFails_B04_invariant1_invariant7(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := stuck{calls: &atomic.Int32{}, begun: make(chan struct{}), letGo: make(chan struct{})}
	e, _ := w.gateway(func(o *Options) {
		s.Journal = o.Journal
		o.Journal = s
	})
	r := request("crowd")
	raw := w.ask(w.connect(), r)
	pending(t, e, r.ID)
	first := make(chan hitl.Status, 1)
	go func() { first <- e.Decide(t.Context(), answer(r, raw, "ada", allow)).Status }()
	<-s.begun
	rest := make(chan wire.Receipt, 100)
	for i := range cap(rest) {
		go func() { rest <- e.Decide(t.Context(), answer(r, raw, fmt.Sprint("p", i), deny)) }()
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	require.Equal(t, hitl.Unavailable, e.Decide(gone, answer(r, raw, "eve", deny)).Status, "who stops waiting is told so")
	require.EqualValues(t, 1, s.calls.Load(), "nobody else writes meanwhile")
	close(s.letGo)
	require.Equal(t, hitl.Unavailable, <-first)
	winner, accepted := outcome(t, e, r).Decision, 0
	for range cap(rest) {
		rec := <-rest
		require.Equal(t, winner.DecisionID, rec.Decision.DecisionID)
		if rec.Status == hitl.Accepted {
			accepted++
		} else {
			require.Equal(t, hitl.AlreadyDecided, rec.Status)
		}
	}
	require.Equal(t, 1, accepted)
	require.EqualValues(t, 2, s.calls.Load())
}

// Who waited for another's write until after the deadline finds it expired.
func TestTheWaitForAnothersWriteDoesNotCrossTheDeadline_D0_47_invariant9(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var ahead atomic.Int64 // of the gateway's clock
	s := stuck{calls: &atomic.Int32{}, begun: make(chan struct{}), letGo: make(chan struct{})}
	e, _ := w.gateway(sharing(func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }), func(o *Options) {
		s.Journal = o.Journal
		o.Journal = s
	})
	r := request("late", expiring(time.Hour))
	raw := w.ask(w.connect(), r)
	pending(t, e, r.ID)
	go e.Decide(t.Context(), answer(r, raw, "ada", allow))
	<-s.begun
	second := make(chan wire.Receipt, 1)
	go func() { second <- e.Decide(t.Context(), answer(r, raw, "bob", deny)) }()
	ahead.Store(int64(2 * time.Hour))
	close(s.letGo)
	require.Equal(t, hitl.TooLate, (<-second).Status)
	require.Equal(t, hitl.Expired, outcome(t, e, r).Outcome)
}
