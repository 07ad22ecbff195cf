package journal

import (
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// working is the word for a message that is still in hand.
const working = "+WPI"

// tellEvery is how often the server hears it; several times in AckWait, so that
// a busy process is not taken for a dead one.
const tellEvery = AckWait / 5

// held are the messages of a durable that this process has taken and not
// answered. While it lives the server is told so, and gives them to nobody else;
// after its end they soon go to another process.
type held struct {
	nc   *nats.Conn
	mu   sync.Mutex
	msgs map[string]hold // by the subject of their answers
}

type hold struct{ since, until time.Time }

// add notes a message that has come.
func (h *held) add(m *nats.Msg) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.msgs[m.Reply]; !ok {
		now := time.Now()
		h.msgs[m.Reply] = hold{now, now.Add(HoldLimit)}
	}
}

// begin gives the work on a message its time. One whose wait was too long is
// somebody else's as well by then, which does no harm.
func (h *held) begin(m *nats.Msg) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if in, ok := h.msgs[m.Reply]; ok {
		h.msgs[m.Reply] = hold{in.since, time.Now().Add(HoldLimit)}
	}
}

// drop forgets one that is answered.
func (h *held) drop(m *nats.Msg) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.msgs, m.Reply)
}

// tell says of all of them that they are in hand, until stop is closed.
func (h *held) tell(stop <-chan struct{}) {
	tick := time.NewTicker(tellEvery)
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
func (h *held) overdue(now time.Time) (replies []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for reply, in := range h.msgs {
		switch {
		case now.After(in.until):
			delete(h.msgs, reply)
		case now.Sub(in.since) >= tellEvery:
			replies = append(replies, reply)
		}
	}
	return replies
}
