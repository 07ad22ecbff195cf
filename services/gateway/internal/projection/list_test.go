package projection

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/card"
	"github.com/banksman/banksman/services/gateway/internal/cursor"
	"github.com/banksman/banksman/services/gateway/internal/quota"
)

// plain is a projection that nothing is read into.
func plain(recent int) *Projection {
	p := New(Options{
		Logger: slog.New(slog.DiscardHandler), Clock: time.Now, OrphanAfter: time.Hour, Recent: recent,
		Orphan: func(subject.Ref, string) {}, Doubtful: func(subject.Session, bool) {}, Alarm: make(chan struct{}, 1),
		Ledger: quota.New(quota.Limits{}, time.Now),
	})
	p.Begin(cursor.Position{})
	return p
}

func waiting(tenant, project string, at int) *Entry {
	r := &hitl.Request{ID: fmt.Sprintf("i%d", at), Kind: hitl.KindApproval, Tenant: tenant, Owner: "o", SessionID: "s", ProjectID: project}
	ref := subject.NewRef(tenant, "o", r.ID)
	return NewListed(r, 100, "d", card.Admission{Ref: ref, Seq: uint64(at), RequestedAt: time.Unix(1000, int64(at))})
}

func ids(list []wire.Interaction) (out []string) {
	for _, ix := range list {
		out = append(out, ix.ID)
	}
	return out
}

// A list is cut after it was filtered, whatever else waits.
func TestAListIsCutAfterItWasFiltered(t *testing.T) {
	t.Parallel()
	p := plain(4)
	for i := range 1001 {
		p.LoadOpen(waiting("a", "big", i+1))
	}
	p.LoadOpen(waiting("b", "", 5000))
	p.LoadOpen(waiting("a", "small", 5001))
	list, more := p.ListOpen(api.List{Limit: 1000, Tenant: "b"})
	require.Equal(t, []string{"i5000"}, ids(list))
	require.False(t, more)
	list, more = p.ListOpen(api.List{Limit: 1000, Sees: func(s *wire.Summary) bool { return s.ProjectID == "small" }})
	require.Equal(t, []string{"i5001"}, ids(list))
	require.False(t, more)
	list, more = p.ListOpen(api.List{Limit: 1000})
	require.Len(t, list, 1000)
	require.True(t, more)
	list, more = p.ListOpen(api.List{Limit: 1000, After: cursor.RowOf(&list[999])})
	require.Equal(t, []string{"i1001", "i5000", "i5001"}, ids(list))
	require.False(t, more)
}

// Whatever comes and goes in whatever order, pages of any size are what waits, oldest
// first, also where the row that the last page ended with has gone.
func TestPagesAreWhatWaitsInItsOrder(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	p := plain(4)
	open := map[int]*Entry{}
	for range 6000 {
		i := 1 + rnd.IntN(1500)
		if en := open[i]; en != nil {
			p.Lost(en.Ref)
			delete(open, i)
			continue
		}
		open[i] = waiting([]string{"a", "b", "c"}[i%3], "", i)
		p.LoadOpen(open[i])
	}
	all := func(tenant string) (want []int) {
		for i, en := range open {
			if tenant == "" || en.Ref.Tenant == tenant {
				want = append(want, i)
			}
		}
		slices.Sort(want)
		return want
	}
	for _, tenant := range []string{"", "a", "b", "none"} {
		var want []string
		for _, i := range all(tenant) {
			want = append(want, fmt.Sprintf("i%d", i))
		}
		var got []string
		q := api.List{Tenant: tenant, Limit: 70}
		for more := true; more; {
			var list []wire.Interaction
			list, more = p.ListOpen(q)
			got = append(got, ids(list)...)
			if more {
				q.After = cursor.RowOf(&list[len(list)-1])
			}
		}
		require.Equal(t, want, got, "tenant %q", tenant)
	}
	rest := all("")
	p.Lost(open[rest[9]].Ref)
	list, _ := p.ListOpen(api.List{Limit: 1, After: open[rest[9]].row()})
	require.Equal(t, open[rest[10]].Ref.ID, list[0].ID)
	for _, en := range open {
		p.Lost(en.Ref)
	}
	require.Zero(t, p.Len())
	for _, o := range p.orders {
		require.Empty(t, o.rows, "holes are filled")
	}
}

func TestClosedOnesHavePagesToo(t *testing.T) {
	t.Parallel()
	p := plain(50)
	for i := range 40 {
		en := waiting([]string{"a", "b"}[i%2], "", i+1)
		p.closed.Add(en.Ref, &wire.Closed{Summary: en.summary})
	}
	list, more := p.ListClosed(api.List{Limit: 15, Tenant: "b"})
	require.True(t, more)
	require.Equal(t, "i40", list[0].ID)
	list, more = p.ListClosed(api.List{Limit: 15, Tenant: "b", After: cursor.RowOf(&list[14])})
	require.False(t, more)
	require.Equal(t, []string{"i10", "i8", "i6", "i4", "i2"}, ids(list))
	list, _ = p.ListClosed(api.List{Limit: 15, After: waiting("a", "", 99).row()})
	require.Empty(t, list, "what is not held any more has nothing held behind it")
}
