package engine

import (
	"container/heap"
	"context"
	"math/rand/v2"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
)

// deadlineHeap orders open interactions by deadline. One timer serves all, so
// that far deadlines cost nothing.
type deadlineHeap []*entry

func (h deadlineHeap) Len() int           { return len(h) }
func (h deadlineHeap) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h deadlineHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *deadlineHeap) Push(x any) {
	en := x.(*entry)
	en.index = len(*h)
	*h = append(*h, en)
}

func (h *deadlineHeap) Pop() any {
	old := *h
	en := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	en.index = -1
	return en
}

// jitter spreads the gateways that reach the same deadline, so that mostly one
// of them writes.
const jitter = 100 * time.Millisecond

func (e *Engine) watchDeadlines(ctx context.Context) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		e.mu.Lock()
		var due []*entry
		now := e.now()
		for len(e.deadlines) > 0 && !e.deadlines[0].due.After(now) {
			due = append(due, heap.Pop(&e.deadlines).(*entry))
		}
		wait := time.Hour
		if len(e.deadlines) > 0 {
			wait = min(wait, e.deadlines[0].due.Sub(now))
		}
		e.mu.Unlock()
		for _, en := range due {
			e.expireSoon(en)
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return nil
		case <-e.alarm:
		case <-timer.C:
		}
	}
}

func (e *Engine) expireSoon(en *entry) {
	e.later(time.Minute, func(ctx context.Context) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(rand.Int64N(int64(jitter)))):
		}
		winner, err := e.settle(ctx, en.Ref, e.now(), hitl.Content{Outcome: hitl.Expired}, system, "deadline")
		if err != nil {
			e.log.Error("expiry not stored, trying again", "interaction", en.summary.Key, "error", err)
			e.mu.Lock()
			if e.open[en.Ref] == en && en.index < 0 {
				en.due = e.now().Add(time.Second)
				heap.Push(&e.deadlines, en)
				signal(e.alarm)
			}
			e.mu.Unlock()
			return
		}
		if winner.Outcome != hitl.Expired {
			return // somebody was faster
		}
		e.log.Warn("expired: nobody decided in time", "interaction", en.summary.Key, "kind", en.summary.Kind, "tool", en.summary.ToolName)
	})
}
