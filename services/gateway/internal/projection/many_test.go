package projection

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/card"
	"github.com/banksman/banksman/services/gateway/internal/cursor"
	"github.com/banksman/banksman/services/gateway/internal/quota"
)

// However much waits in a session, its frames have the oldest, which is next, and
// the newest, of which people are told.
func TestAFrameHasTheOldestAndTheNewest_D1_30(t *testing.T) {
	t.Parallel()
	p := New(Options{
		Logger: slog.New(slog.DiscardHandler), Clock: time.Now, Alarm: make(chan struct{}, 1), Ledger: quota.New(quota.Limits{}, time.Now),
	})
	p.Begin(cursor.Position{})
	add := func(n int) string {
		id := fmt.Sprintf("n%d", n)
		r := &hitl.Request{
			V: 1, ID: id, Kind: hitl.KindQuestion, Tenant: "default", Owner: "agents", SessionID: "s", Title: id,
		}
		a := card.Admission{Ref: subject.NewRef("default", "agents", id), Seq: uint64(n + 1), RequestedAt: time.Unix(1_000_000+int64(n), 0)}
		p.LoadOpen(NewListed(r, 1, "digest", a))
		return id
	}
	listed := func() (wire.ProcessState, []string) {
		st, ok := p.State(subject.NewSession("default", "agents", "s"))
		require.True(t, ok)
		var ids []string
		for _, sum := range st.PendingRequests {
			ids = append(ids, sum.RequestID)
		}
		return st, ids
	}
	var all []string
	for n := range wire.MaxPending {
		all = append(all, add(n))
	}
	_, ids := listed()
	require.Equal(t, all, ids)

	for n := wire.MaxPending; n < 300; n++ {
		all = append(all, add(n))
	}
	st, ids := listed()
	require.Equal(t, 300, st.PendingCount)
	require.Equal(t, append(append([]string{}, all[:100]...), all[200:]...), ids)
	require.Equal(t, all[0], st.PendingRequest.RequestID)

	// What is decided takes no room from either end.
	p.Decided(subject.NewRef("default", "agents", all[0]))
	p.Decided(subject.NewRef("default", "agents", all[299]))
	st, ids = listed()
	require.Equal(t, 298, st.PendingCount)
	require.Equal(t, append(append([]string{}, all[1:101]...), all[199:299]...), ids)
}
