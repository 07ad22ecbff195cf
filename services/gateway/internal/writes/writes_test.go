package writes

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/hitltest"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
)

// Every write that a gateway makes counts: one that fails makes it unready and
// names its stream and the reason, until one to that stream succeeds, or for a
// while; reads, a message that is too large and a caller who left say nothing.
func TestAFailedWriteIsRememberedByItsStream(t *testing.T) {
	t.Parallel()
	r := request("k1")
	key := subject.NewSession(r.Tenant, r.Owner, r.SessionID)
	events := 0
	for name, c := range map[string]struct {
		stream string
		write  func(ctx context.Context, s *Watched) error
	}{
		"a decision": {journal.Decisions, func(ctx context.Context, s *Watched) error {
			_, _, err := s.Decide(ctx, ref(r), hitltest.SampleDecision(ref(r), "d", hitl.Allowed))
			return err
		}},
		"an event": {journal.Events, func(ctx context.Context, s *Watched) error {
			events++
			_, err := s.WriteEvent(ctx, subject.Event(ref(r), fmt.Sprint("s", events), subject.Open), nil)
			return err
		}},
		"a verdict": {journal.Events, func(ctx context.Context, s *Watched) error { return s.WriteGatewayState(ctx, key, nil) }},
		"a start": {journal.Work, func(ctx context.Context, s *Watched) error {
			return s.Enqueue(ctx, &hitl.Start{V: 1, SessionID: "s", Tenant: "t", Pool: "p", Runtime: "demo"})
		}},
		"a deletion": {journal.Requests, func(ctx context.Context, s *Watched) error { return s.DeleteRequest(ctx, 1) }},
	} {
		t.Run(name, func(t *testing.T) {
			j := hitltest.NewMemoryJournal()
			now := time.Now()
			s := Watch(j, func() time.Time { return now })
			breaks := func(why error) { j.SetFault(func(string, string) error { return why }) }
			require.NoError(t, c.write(t.Context(), s))
			require.NoError(t, s.Healthy())

			breaks(fmt.Errorf("%w (%w)", journal.ErrUnknown, journal.ErrDisk))
			require.Error(t, c.write(t.Context(), s))
			require.ErrorIs(t, s.Healthy(), journal.ErrDisk)
			require.ErrorContains(t, s.Healthy(), c.stream)
			breaks(nil)
			_, _ = s.Decision(t.Context(), ref(r))
			require.Error(t, s.Healthy(), "that it can be read means nothing")
			require.NoError(t, c.write(t.Context(), s))
			require.NoError(t, s.Healthy())

			breaks(journal.ErrUnknown)
			require.Error(t, c.write(t.Context(), s))
			require.ErrorContains(t, s.Healthy(), c.stream)
			now = now.Add(sickFor - 1)
			require.Error(t, s.Healthy())
			now = now.Add(1)
			require.NoError(t, s.Healthy(), "a while ago: somebody has to try again to find out")

			breaks(journal.ErrTooLarge)
			require.Error(t, c.write(t.Context(), s))
			gone, cancel := context.WithCancel(t.Context())
			cancel()
			require.Error(t, c.write(gone, s))
			require.NoError(t, s.Healthy())
		})
	}
}

// noEvents is a journal whose stream of events takes nothing while on is set.
type noEvents struct {
	journal.Journal
	on atomic.Bool
}

func (n *noEvents) WriteEvent(ctx context.Context, subj string, data []byte) (uint64, error) {
	if n.on.Load() {
		return 0, fmt.Errorf("%w (%w)", journal.ErrUnknown, journal.ErrDisk)
	}
	return n.Journal.WriteEvent(ctx, subj, data)
}

// Decisions are stored and nobody can be told of them, or of what is asked: then
// a running gateway is not ready either, and is again when that is over.
func TestAGatewayThatCannotTellIsNotReady_invariant4(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := &noEvents{}
	e, _ := w.gateway(func(o *Options) {
		n.Journal = o.Journal
		o.Journal = n
	})
	nc := w.connect()
	healthy := func(want bool) {
		t.Helper()
		require.Eventually(t, func() bool {
			err := e.Healthy()
			return (err == nil) == want && (want || strings.Contains(err.Error(), journal.Events))
		}, patience, time.Millisecond)
	}
	n.on.Store(true)
	r := request("k1")
	raw := w.ask(nc, r)
	healthy(false)
	n.on.Store(false)
	healthy(true) // by its next try
	pending(t, e, r.ID)
	n.on.Store(true)
	require.Equal(t, hitl.Accepted, e.Decide(t.Context(), answer(r, raw, "ada", allow)).Status)
	healthy(false)
	n.on.Store(false)
	require.Equal(t, hitl.Allowed, outcome(t, e, r).Outcome)
	healthy(true)
}
