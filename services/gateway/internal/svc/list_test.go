package svc_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/cursor"
	"github.com/banksman/banksman/services/gateway/internal/projection"
	"github.com/banksman/banksman/services/gateway/internal/quota"
)

// full is what a gateway holds after many were asked in one tenant, and few in
// another.
func full(t *testing.T, many, few int) *projection.Projection {
	t.Helper()
	p := projection.New(projection.Options{
		Logger: slog.New(slog.DiscardHandler), Clock: time.Now, OrphanAfter: time.Hour, Recent: 4,
		Orphan: func(subject.Ref, string) {}, Doubtful: func(subject.Session, bool) {}, Alarm: make(chan struct{}, 1),
		Ledger: quota.New(quota.Limits{}, time.Now),
	})
	p.Begin(cursor.Position{})
	for i := range many + few {
		tenant := "default"
		if i >= many {
			tenant = "other"
		}
		ref := subject.NewRef(tenant, "agents", fmt.Sprintf("i%d", i))
		raw, err := hitl.Marshal(wire.Opened{V: 1, RequestSeq: uint64(i + 1), Summary: wire.Summary{
			RequestID: ref.ID, Key: ref.String(), Kind: hitl.KindApproval, Tenant: tenant, Owner: "agents", SessionID: "s",
			Digest: "d", CreatedAt: time.Unix(1_000_000, int64(i)).UTC(),
		}})
		require.NoError(t, err)
		p.ApplyEvent(journal.Message{Subject: subject.Event(ref, "s", subject.Open), Seq: uint64(i + 1), Data: raw})
	}
	require.Equal(t, many+few, p.Len())
	return p
}

func TestManyOfOneTenantHideNothingOfAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.stub.view = full(t, 1001, 1)
	list, err := w.caller("other", "ci").List(t.Context(), wire.ListCall{})
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, "i1001", list[0].ID)
}

func TestAListGoesOnWhereTheLastEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.stub.view = full(t, 2501, 3)
	c := w.caller("", "ci")
	var got []string
	pages := 0
	for call := (wire.ListCall{}); ; pages++ {
		var page wire.ListReply
		require.NoError(t, c.Call(t.Context(), wire.VerbList, call, &page))
		for _, ix := range page.Interactions {
			got = append(got, ix.ID)
		}
		if page.Next == "" {
			break
		}
		call.After = page.Next
	}
	require.Equal(t, 2, pages, "behind the first")
	require.Len(t, got, 2501)
	for i, id := range got {
		require.Equal(t, fmt.Sprintf("i%d", i), id)
	}
	_, err := c.List(t.Context(), wire.ListCall{After: "x"})
	require.Equal(t, "after", refusal(t, err).Fields[0].Field)
}

func TestWhoFollowsIsToldOfAllThatWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.stub.view = full(t, 2501, 3)
	c := w.caller("", "ci")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	told := map[string]bool{}
	err := c.Follow(ctx, func(ix wire.Interaction) {
		told[ix.ID] = true
		if len(told) == 2501 {
			cancel()
		}
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, told, 2501)
}
