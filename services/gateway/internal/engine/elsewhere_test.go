package engine

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
)

// A page was shown a request by one gateway, and its answer reaches another one
// that has not heard of it, or not of its end: that one decides or tells who did.
func TestAGatewayThatHasNotHeardOfItDecides_invariant8(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e, _ := w.gateway()
	r := request("k1")
	raw := w.ask(w.connect(), r)
	pending(t, e, r.ID)

	deaf := func() *Engine { // it never follows anything
		nc := w.connect()
		return New(Options{Journal: w.journal(nc), Conn: nc, Logger: slog.New(slog.DiscardHandler)})
	}
	other := answer(r, raw, "bob", allow)
	other.SessionID = "another"
	require.Equal(t, hitl.NotFound, deaf().Decide(t.Context(), other).Status)

	second := deaf()
	detail, err := second.Interaction(t.Context(), r.ID)
	require.NoError(t, err)
	require.Equal(t, wire.StatePending, detail.State)
	require.Equal(t, hitl.Accepted, second.Decide(t.Context(), answer(r, raw, "ada", allow)).Status)

	rec := deaf().Decide(t.Context(), answer(r, raw, "bob", allow))
	require.Equal(t, hitl.AlreadyDecided, rec.Status)
	require.Equal(t, "ada", rec.Decision.Principal.ID)
	require.Equal(t, hitl.NotFound, deaf().Decide(t.Context(), answer(request("k2"), raw, "bob", allow)).Status)
	for _, id := range []string{"*", ">", "a.b", "", "default.*.x"} {
		_, err := deaf().Interaction(t.Context(), id)
		require.Error(t, err, id)
	}
}
