package projection

import (
	"context"
	"slices"

	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/card"
	"github.com/banksman/banksman/services/gateway/internal/cursor"
)

// touch marks a session so that its state goes out with the next flush.
// Called with the lock held.
func (p *Projection) touch(key subject.Session) {
	if _, ok := p.dirty[key]; !ok {
		p.dirty[key] = nil
	}
	signal(p.flush)
}

// Flush sends the state of the sessions that changed, until ctx ends. A burst
// of changes to one session leaves as one frame.
func (p *Projection) Flush(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.flush:
		}
		p.mu.Lock()
		for key, closed := range p.dirty {
			s := p.sessions[key]
			if s == nil {
				s = p.sessionOf(key, key.ID, key.Tenant, key.Owner)
			}
			st := p.state(s)
			st.Type, st.Cursor, st.Closed = wire.TypeProcessState, p.pos.String(), closed
			p.publish(api.Update{SessionKey: key.String(), All: card.Encode(st), Stored: true, Whole: len(closed) == 0})
			for _, en := range s.pending {
				en.fresh = false
			}
			p.rest(s)
		}
		clear(p.dirty)
		p.mu.Unlock()
	}
}

// publish hands an update to the watchers. Called with the lock held.
func (p *Projection) publish(u api.Update) {
	if u.Stored {
		u.Cursor = p.pos.String()
		for i := range u.Events {
			u.Events[i].Cursor = u.Cursor
		}
	}
	if u.All != nil {
		p.ring = append(p.ring, api.Update{Cursor: u.Cursor, All: u.All})
		if len(p.ring) > ringSize {
			drop := len(p.ring) - ringSize*3/4
			p.ringFrom, _ = cursor.Parse(p.ring[drop-1].Cursor)
			p.ring = append([]api.Update(nil), p.ring[drop:]...)
		}
	}
	for _, w := range p.watchers {
		w.fn(u)
	}
}

// watcher is told of every update. Many are told in the order in which they came:
// what belongs to each of them lies in memory in that order, more or less, and at
// 10,000 sockets that is what an update costs.
type watcher struct {
	id int
	fn func(api.Update)
}

// Watch is what api.Engine's Watch promises.
func (p *Projection) Watch(from string, fn func(api.Update)) api.Watch {
	w := p.watch(from, fn)
	inOrder(w.Snapshot)
	return w
}

func (p *Projection) watch(from string, fn func(api.Update)) api.Watch {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := api.Watch{Cursor: p.pos.String()}
	if c, ok := cursor.Parse(from); ok && c.Covers(p.ringFrom) && p.pos.Covers(c) {
		w.Recovered = true
		for _, u := range p.ring {
			// Several frames may have one cursor, and a client may hold it after
			// the first: frames are whole states, so sending one again is harmless.
			if u.After(from) || u.Cursor == from {
				w.Missed = append(w.Missed, u.All)
			}
		}
	} else {
		w.Snapshot = p.allStates()
	}
	id := p.nextWatch
	p.nextWatch++
	p.watchers = append(p.watchers, watcher{id, fn})
	w.Stop = func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		i, here := slices.BinarySearchFunc(p.watchers, id, func(w watcher, id int) int { return w.id - id })
		if here { // Stop may be called again
			p.watchers = slices.Delete(p.watchers, i, i+1)
		}
	}
	return w
}

// advance wakes who waits for the position. Called with the lock held.
func (p *Projection) advance() {
	if p.moved != nil {
		close(p.moved)
		p.moved = nil
	}
}

// Reach is what api.Engine's Reach promises.
func (p *Projection) Reach(ctx context.Context, from string) {
	c, ok := cursor.Parse(from)
	for ok {
		moved := p.until(c)
		if moved == nil {
			return
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return
		}
	}
}

// Behind is nil where all is applied that the events had; else it is closed when the
// next thing is, and to be asked for again.
func (p *Projection) Behind(events journal.Position) <-chan struct{} {
	to := p.Position()
	to.Events, to.Transcripts = int64(events.Last), 0
	return p.until(to)
}

// until is nil at c and behind it, and in other streams.
func (p *Projection) until(c cursor.Position) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !c.SameEpoch(p.pos) || p.pos.Covers(c) {
		return nil
	}
	if p.moved == nil {
		p.moved = make(chan struct{})
	}
	return p.moved
}

// Position is how far the streams were applied.
func (p *Projection) Position() cursor.Position {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pos
}
