package engine

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
)

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
