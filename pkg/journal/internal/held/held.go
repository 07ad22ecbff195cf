// Package held tells the server of the messages that a process has in hand.
package held

import (
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// working is the word for a message that is still in hand.
const working = "+WPI"

// Set are the messages of a durable that this process has taken and not
// answered. While it lives the server is told so, and gives them to nobody else;
// after its end they soon go to another process.
type Set struct {
	nc           *nats.Conn
	every, limit time.Duration

	mu   sync.Mutex
	msgs map[string]hold // by the subject of their answers
}

type hold struct{ since, until time.Time }

// New makes an empty Set. The server hears of a message at each every, while it
// waits for its turn for at most limit, and again while it is worked on.
func New(nc *nats.Conn, every, limit time.Duration) *Set {
	return &Set{nc: nc, every: every, limit: limit, msgs: map[string]hold{}}
}

// Add notes a message that has come.
func (h *Set) Add(m *nats.Msg) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.msgs[m.Reply]; !ok {
		now := time.Now()
		h.msgs[m.Reply] = hold{now, now.Add(h.limit)}
	}
}

// Begin gives the work on a message its time. One whose wait was too long is
// somebody else's as well by then, which does no harm.
func (h *Set) Begin(m *nats.Msg) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if in, ok := h.msgs[m.Reply]; ok {
		h.msgs[m.Reply] = hold{in.since, time.Now().Add(h.limit)}
	}
}

// Drop forgets one that is answered.
func (h *Set) Drop(m *nats.Msg) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.msgs, m.Reply)
}

// Tell says of all of them that they are in hand, until stop is closed.
func (h *Set) Tell(stop <-chan struct{}) {
	tick := time.NewTicker(h.every)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		for _, reply := range h.overdue(time.Now()) {
			_ = h.nc.Publish(reply, []byte(working)) // unheard, the message goes to another process
		}
	}
}

// overdue are those of which the server should hear again. Most messages are
// answered before.
func (h *Set) overdue(now time.Time) (replies []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for reply, in := range h.msgs {
		switch {
		case now.After(in.until):
			delete(h.msgs, reply)
		case now.Sub(in.since) >= h.every:
			replies = append(replies, reply)
		}
	}
	return replies
}
