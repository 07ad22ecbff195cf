package writes

import (
	"context"
	"fmt"
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
	ref := subject.NewRef("default", "agents", hitl.ID("default", "agents", "k1", 1))
	key := subject.NewSession("default", "agents", "s1")
	events := 0
	for name, c := range map[string]struct {
		stream string
		write  func(ctx context.Context, s *Watched) error
	}{
		"a decision": {journal.Decisions, func(ctx context.Context, s *Watched) error {
			_, _, err := s.Decide(ctx, ref, hitltest.SampleDecision(ref, "d", hitl.Allowed))
			return err
		}},
		"an event": {journal.Events, func(ctx context.Context, s *Watched) error {
			events++
			_, err := s.WriteEvent(ctx, subject.Event(ref, fmt.Sprint("s", events), subject.Open), nil)
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
			_, _ = s.Decision(t.Context(), ref)
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
