package claude

import (
	"sync"

	"github.com/banksman/banksman/services/agent/internal/claude/protocol"
)

// item is one piece of work for the dispatcher.
type item struct {
	event  protocol.Event
	refuse *protocol.Refusal
	size   int
}

// queue stands between the reader, which must go on reading so that replies
// arrive, and OnEvent, which may wait for such a reply.
type queue struct {
	mu     sync.Mutex
	cond   *sync.Cond
	items  []item
	size   int
	closed bool
}

func newQueue() *queue {
	q := &queue{}
	q.cond = sync.NewCond(&q.mu)
	return q
}

// push never waits; see waitRoom.
func (q *queue) push(it item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.items = append(q.items, it)
	q.size += it.size
	q.cond.Broadcast()
}

// waitRoom waits until the queue is below its limit.
func (q *queue) waitRoom() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.size > queueLimit && !q.closed {
		q.cond.Wait()
	}
}

// pop waits for an item; false means that the queue is closed and empty.
func (q *queue) pop() (item, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.items) == 0 && !q.closed {
		q.cond.Wait()
	}
	if len(q.items) == 0 {
		return item{}, false
	}
	it := q.items[0]
	q.items[0] = item{}
	q.items = q.items[1:]
	q.size -= it.size
	q.cond.Broadcast()
	return it, true
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.cond.Broadcast()
}
