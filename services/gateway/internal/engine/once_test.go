package engine

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/gateway/internal/api"
)

// counted counts what an engine does with its journal.
type counted struct {
	journal.Journal
	mu sync.Mutex
	n  map[string]int
}

func (c *counted) count(op string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n[op]++
}

func (c *counted) of(op string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[op]
}

func (c *counted) Decision(ctx context.Context, ref subject.Ref) (*journal.StoredDecision, error) {
	c.count("read")
	return c.Journal.Decision(ctx, ref)
}

func (c *counted) WriteEvent(ctx context.Context, subj string, data []byte) (uint64, error) {
	c.count("event")
	return c.Journal.WriteEvent(ctx, subj, data)
}

func (c *counted) DeleteRequest(ctx context.Context, seq uint64) error {
	c.count("delete")
	return c.Journal.DeleteRequest(ctx, seq)
}

// Whoever decides tells the streams; the sweeper of the same gateway does not
// do it a second time, and neither do those who came too late.
func TestTheSweeperLeavesToTheDeciderWhatItDoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var c *counted
	e, _ := w.gateway(func(o *Options) {
		c = &counted{Journal: o.Journal, n: map[string]int{}}
		o.Journal = c
	})
	nc := w.connect()
	const n = 40
	var asked []*hitl.Request
	var raws [][]byte
	for i := range n {
		r := request(fmt.Sprint("k", i))
		raws, asked = append(raws, w.ask(nc, r)), append(asked, r)
	}
	opened := func(r *hitl.Request) bool { p, ok := e.view.Pending(ref(r)); return ok && p.Opened }
	for _, r := range asked {
		require.Eventually(t, func() bool { return opened(r) }, patience, time.Millisecond)
	}
	require.Equal(t, n, c.of("event"), "an open event each")
	require.Equal(t, n, c.of("read"), "intake looks for a decision once")
	var wg sync.WaitGroup
	for i, r := range asked {
		for _, verb := range []func(*api.Attempt){allow, deny} {
			wg.Go(func() { e.Decide(context.Background(), answer(r, raws[i], "ada", verb)) })
		}
	}
	wg.Wait()
	require.Eventually(t, func() bool {
		_, sweeper, err := c.Floors(t.Context())
		return err == nil && sweeper == n
	}, patience, time.Millisecond)
	require.Equal(t, 2*n, c.of("event"), "and a closed event each")
	require.Equal(t, n, c.of("delete"))
	pending(t, e)
	e.mu.Lock()
	defer e.mu.Unlock()
	require.Empty(t, e.finishing)
}
