package engine

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
)

// A record without room says so to who decides and in the readiness, keeps what
// it has, and lets nothing run; with room again the same answer counts.
func TestAFullRecord_invariant4_invariant6(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	limit := func(bytes int64) {
		require.NoError(t, journal.Provision(t.Context(), w.connect(), journal.Config{
			Pools: []journal.Pool{{Tenant: "default", Pool: "agents"}}, MaxBytes: map[string]int64{journal.Decisions: bytes},
		}))
	}
	limit(32 << 10)
	e, _ := w.gateway()
	nc := w.connect()
	ask := func(key, command string) (*hitl.Request, []byte) {
		r := request(key, func(r *hitl.Request) {
			raw, err := json.Marshal(map[string]string{"command": command})
			require.NoError(t, err)
			r.Tool.Input = raw
		})
		return r, w.ask(nc, r)
	}
	small, raw := ask("small", "make test")
	pending(t, e, small.ID)
	require.Equal(t, hitl.Accepted, e.Decide(t.Context(), answer(small, raw, "ada", allow)).Status)
	pending(t, e)

	big, raw := ask("big", strings.Repeat("echo ", 10<<10))
	pending(t, e, big.ID)
	rec := e.Decide(t.Context(), answer(big, raw, "ada", allow))
	require.Equal(t, hitl.Unavailable, rec.Status)
	require.Nil(t, rec.Decision)
	require.Contains(t, rec.Error, "nothing was decided")
	require.Contains(t, rec.Error, "no room")
	require.ErrorIs(t, e.Healthy(), journal.ErrFull)
	pending(t, e, big.ID)
	j := w.journal(nc)
	_, err := j.Decision(t.Context(), ref(big))
	require.ErrorIs(t, err, journal.ErrNotFound)
	kept, err := j.Decision(t.Context(), ref(small))
	require.NoError(t, err)
	require.Equal(t, hitl.Allowed, kept.Outcome)

	limit(1 << 20)
	require.Equal(t, hitl.Accepted, e.Decide(t.Context(), answer(big, raw, "ada", allow)).Status)
	require.NoError(t, e.Healthy())
	pending(t, e)
}
