package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
)

const (
	// coalesce is how long deltas are gathered before they are sent.
	coalesce = 50 * time.Millisecond
	// queueLimit is how many bytes may wait to be stored before a run has to
	// wait, too.
	queueLimit = 16 << 20
)

// sink is where a session's stream goes. *bus.Hold is one.
type sink interface {
	Event(ctx context.Context, ev hitl.Event) error
	Live(ev hitl.Event) error
	State(ctx context.Context, st *hitl.SessionState) error
}

// item is one thing to publish; exactly one field is set.
type item struct {
	event *hitl.Event
	state *hitl.SessionState
	delta *delta
	mark  chan struct{} // closed when everything before is out
}

// delta is text that grows until its block is whole.
type delta struct {
	kind, id, parent string
	text             string
}

func (it *item) size() int {
	switch {
	case it.event != nil:
		return len(it.event.Data) + 64
	case it.delta != nil:
		return len(it.delta.text) + 64
	}
	return 64
}

// publisher sends a session's stream in order, from one goroutine.
type publisher struct {
	log  *slog.Logger
	lost func(error) // called when another worker has the session

	mu     sync.Mutex
	queue  []item
	bytes  int
	closed bool          // nothing more is taken
	news   chan struct{} // has one element when the queue grew or was closed
	room   chan struct{} // closed and replaced when the queue shrank
	ended  chan struct{} // closed when run ends

	// Of run alone: parts of the conversation that the owner's quota left out, when
	// the log was last told so, and a state that is to be sent again.
	missed int
	told   time.Time
	again  *hitl.SessionState
}

var errNotStored = errors.New("the session's stream has ended")

func newPublisher(log *slog.Logger, lost func(error)) *publisher {
	return &publisher{log: log, lost: lost, news: make(chan struct{}, 1), room: make(chan struct{}), ended: make(chan struct{})}
}

// push never waits. After close it does nothing.
func (p *publisher) push(it item) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.queue = append(p.queue, it)
	p.bytes += it.size()
	p.wake()
}

func (p *publisher) wake() {
	select {
	case p.news <- struct{}{}:
	default:
	}
}

// waitRoom returns when the queue is short enough, or ctx ends.
func (p *publisher) waitRoom(ctx context.Context) {
	for {
		p.mu.Lock()
		full, room := p.bytes > queueLimit && !p.closed, p.room
		p.mu.Unlock()
		if !full {
			return
		}
		select {
		case <-room:
		case <-ctx.Done():
			return
		}
	}
}

// flush returns nil when everything pushed before is out.
func (p *publisher) flush(ctx context.Context) error {
	mark := make(chan struct{})
	p.push(item{mark: mark})
	select {
	case <-mark:
		return nil
	case <-p.ended:
		return errNotStored
	case <-ctx.Done():
		return ctx.Err()
	}
}

// close lets run end once the queue is empty.
func (p *publisher) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.wake()
}

func (p *publisher) next() (it item, ok, closed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.queue) == 0 {
		return item{}, false, p.closed
	}
	it = p.queue[0]
	p.queue[0] = item{}
	p.queue = p.queue[1:]
	p.bytes -= it.size()
	close(p.room)
	p.room = make(chan struct{})
	return it, true, false
}

// run publishes until close and the end of the queue, or until ctx ends.
func (p *publisher) run(ctx context.Context, to sink) {
	defer p.abandon()
	var deltas []delta
	var due <-chan time.Time   // set while deltas wait
	var retry <-chan time.Time // set while a state waits that was over the quota
	send := func() {
		for _, d := range deltas {
			p.live(to, d)
		}
		deltas, due = nil, nil
	}
	for {
		if p.again == nil {
			retry = nil
		} else if retry == nil {
			retry = time.After(statePause)
		}
		it, ok, closed := p.next()
		switch {
		case closed && p.again == nil:
			send()
			return
		case closed:
			send()
			select {
			case <-retry:
				retry, it = nil, item{state: p.again}
			case <-ctx.Done():
				return
			}
		case !ok:
			select {
			case <-p.news:
			case <-due:
				send()
			case <-retry:
				retry = nil
				if !p.publish(ctx, to, item{state: p.again}) {
					return
				}
			case <-ctx.Done():
				return
			}
			continue
		case it.delta != nil:
			deltas = gather(deltas, *it.delta)
			if due == nil {
				due = time.After(coalesce)
			}
			select { // a steady stream must not keep them back
			case <-due:
				send()
			default:
			}
			continue
		}
		send()
		if !p.publish(ctx, to, it) {
			return
		}
	}
}

// abandon releases whoever waits.
func (p *publisher) abandon() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.queue, p.bytes = nil, 0
	close(p.room)
	p.room = make(chan struct{})
	close(p.ended)
}

func gather(deltas []delta, d delta) []delta {
	if n := len(deltas) - 1; n >= 0 && deltas[n].kind == d.kind && deltas[n].id == d.id {
		deltas[n].text += d.text
		return deltas
	}
	return append(deltas, d)
}

func (p *publisher) live(to sink, d delta) {
	data := map[string]any{"text": d.text}
	if d.kind == hitl.EventTextDelta {
		data["block_id"] = d.id
	} else {
		data["tool_call_id"] = d.id
	}
	if d.parent != "" {
		data["parent_tool_call_id"] = d.parent
	}
	raw, err := hitl.Marshal(data)
	if err == nil {
		err = to.Live(hitl.Event{Type: d.kind, Data: raw})
	}
	if err != nil {
		p.log.Debug("delta not sent", "error", err) // the whole block follows
	}
}

// publish reports false when nothing more can be published.
func (p *publisher) publish(ctx context.Context, to sink, it item) bool {
	var err error
	switch {
	case it.mark != nil:
		close(it.mark)
	case it.event != nil:
		if err = p.tellMissed(ctx, to); err == nil {
			err = to.Event(ctx, *it.event)
		}
	case it.state != nil:
		p.again = nil // the newest is the one that counts
		err = to.State(ctx, it.state)
	}
	switch {
	case err == nil:
		return true
	case errors.Is(err, bus.ErrStale):
		p.lost(err)
		return false
	case ctx.Err() != nil || errors.Is(err, bus.ErrClosed):
		return false
	}
	if errors.Is(err, bus.ErrOverQuota) {
		p.overQuota(it, err)
		return true
	}
	// The bus has tried what there is to try; the next one may pass.
	p.log.Error("not published", "error", err)
	return true
}

// noteEvery is how often the log is told that the quota is used up.
const noteEvery = time.Minute

// statePause is how long a state waits that is over the quota.
const statePause = 10 * time.Second

// overQuota leaves a part of the conversation out: the session goes on without it.
// A state, though, is tried again: people must hear that a session is dead.
func (p *publisher) overQuota(it item, err error) {
	if it.event != nil {
		p.missed++
	}
	if it.state != nil {
		p.again = it.state
	}
	if now := time.Now(); now.Sub(p.told) >= noteEvery {
		p.told = now
		p.log.Warn("the session goes on, but what it says is not stored", "missing", p.missed, "error", err)
	}
}

// tellMissed says in the conversation that a part of it is missing, once there is
// room again.
func (p *publisher) tellMissed(ctx context.Context, to sink) error {
	if p.missed == 0 {
		return nil
	}
	data, err := hitl.Marshal(map[string]any{
		"message": fmt.Sprintf("%d parts of this conversation are missing here: this worker's quota of conversation was used up", p.missed),
	})
	if err == nil {
		err = to.Event(ctx, hitl.Event{Type: hitl.EventError, Data: data})
	}
	if err == nil {
		p.missed = 0
	}
	return err
}
