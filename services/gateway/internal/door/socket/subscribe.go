package socket

import (
	"errors"
	"sync"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/cursor"
)

const (
	// pageBytes is the size of a page of a snapshot or a replay.
	pageBytes    = 64 << 10
	maxPageCount = 200 // sessions in a page
	// maxBulk is how many bytes of pages may wait in one socket.
	maxBulk = 512 << 10
	// pagesAge is how long an encoded snapshot serves for others.
	pagesAge = time.Second
)

// errEnded ends what a socket that is gone still had to do.
var errEnded = errors.New("the socket has ended")

// subscription is a session whose events a socket gets. While the stored part
// is replayed, what happens is held back; the two meet at a cursor, so that
// there is neither a gap nor a double.
type subscription struct {
	key       string
	replaying bool
	held      []api.Update
	heldBytes int
}

// hold keeps an update for later. Called with the lock held.
func (s *socket) hold(sub *subscription, u api.Update) {
	for i := range u.Events {
		sub.heldBytes += len(u.Events[i].Data) + 100
	}
	if len(sub.held) > 0 && sub.heldBytes > s.h.o.Limits.Queue {
		s.end(wire.CloseSlow, "read too slowly")
		return
	}
	sub.held = append(sub.held, u)
}

// subscribe begins a subscription, or begins it anew. Its receipt comes before
// its first events.
func (s *socket) subscribe(f *wire.Client) {
	if f.SessionID == "" {
		s.refuse(f, hitl.Invalid("session_id", "is missing"))
		return
	}
	key, err := s.h.o.Desk.Session(s.session, f.SessionID)
	if err != nil {
		status, text := s.h.o.Desk.Describe(err, "session")
		s.receipt(wire.Receipt{Ref: f.Ref, SessionID: f.SessionID, Receipt: hitl.Receipt{Status: status, Error: text}})
		return
	}
	sub := &subscription{key: key, replaying: true}
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return
	}
	if _, again := s.subs[key]; !again && len(s.subs) >= s.h.o.Limits.Watching {
		s.mu.Unlock()
		s.refuse(f, hitl.Invalid("session_id", "is one subscription too many: the limit is %d", s.h.o.Limits.Watching))
		return
	}
	if s.subs == nil {
		s.subs = map[string]*subscription{}
	}
	s.subs[key] = sub
	upto := s.last // everything later is held back from here on
	s.mu.Unlock()
	ref, from := f.Ref, f.From
	s.h.wg.Go(func() { s.replay(sub, ref, from, upto) })
}

func (s *socket) unsubscribe(f *wire.Client) {
	key, err := s.h.o.Desk.Engine.ResolveSession(f.SessionID)
	if err != nil {
		key = f.SessionID // a session that is forgotten can be left all the same
	}
	s.mu.Lock()
	delete(s.subs, key)
	s.mu.Unlock()
	if f.Ref != "" {
		s.receipt(wire.Receipt{Ref: f.Ref, SessionID: key, Receipt: hitl.Receipt{Status: hitl.Accepted}})
	}
}

// replay sends what is stored and then lets go of what was held back.
func (s *socket) replay(sub *subscription, ref, from, upto string) {
	s.replays.Lock()
	defer s.replays.Unlock()
	if from != "" {
		s.reach(from)
		s.mu.Lock()
		upto, sub.held, sub.heldBytes = s.last, nil, 0 // what was held is stored, or was live only
		s.mu.Unlock()
	}
	events, reset, err := s.h.o.Desk.Engine.Transcript(s.ctx, sub.key, from, upto)
	if err != nil {
		s.mu.Lock()
		if s.subs[sub.key] == sub {
			delete(s.subs, sub.key)
		}
		s.mu.Unlock()
		status, text := s.h.o.Desk.Describe(err, "session")
		s.receipt(wire.Receipt{Ref: ref, SessionID: sub.key, Receipt: hitl.Receipt{Status: status, Error: text}})
		return
	}
	if ref != "" {
		s.receipt(wire.Receipt{Ref: ref, SessionID: sub.key, Receipt: hitl.Receipt{Status: hitl.Accepted}})
	}
	reset = reset || from == ""
	told := upto // this far
	if !reset {
		told = cursor.Later(from, upto)
	}
	for _, page := range replayPages(sub.key, events, told, reset) {
		frame, err := hitl.Marshal(page)
		if err == nil {
			err = s.pushBulk(sub, frame)
		}
		if err != nil {
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.subs[sub.key] != sub {
		return
	}
	for _, u := range sub.held {
		if !u.Stored || u.After(upto) {
			s.add(s.h.encode(u), "")
		}
	}
	sub.replaying, sub.held = false, nil
}

// replayPages cuts events into frames. A cut never separates the events of one
// cursor: a client that stored it would miss the rest.
func replayPages(key string, events []wire.Event, upto string, reset bool) []wire.Events {
	page := func(ev []wire.Event, cursor string, more bool) wire.Events {
		if ev == nil {
			ev = []wire.Event{}
		}
		p := wire.Events{
			Type: wire.TypeEvent, SessionID: plainID(key), SessionKey: key, Cursor: cursor,
			Events: ev, Reset: reset, More: more,
		}
		reset = false
		return p
	}
	var pages []wire.Events
	start, size := 0, 0
	for i := range events {
		n := len(events[i].Data) + 100
		if size > 0 && size+n > pageBytes && events[i].Cursor != events[i-1].Cursor {
			pages = append(pages, page(events[start:i], events[i-1].Cursor, true))
			start, size = i, 0
		}
		size += n
	}
	return append(pages, page(events[start:], upto, false))
}

// pushBulk queues a page once there is room for it.
func (s *socket) pushBulk(sub *subscription, frame []byte) error {
	for {
		s.mu.Lock()
		if s.ended || s.subs[sub.key] != sub {
			s.mu.Unlock()
			return errEnded
		}
		if s.bulk == 0 || s.bulk+len(frame) <= maxBulk {
			s.bulk += len(frame)
			s.queue = append(s.queue, out{frame: frame, bulk: true})
			s.wake()
			s.mu.Unlock()
			return nil
		}
		if s.room == nil {
			s.room = make(chan struct{})
		}
		room := s.room
		s.mu.Unlock()
		select {
		case <-room:
		case <-s.ctx.Done():
			return errEnded
		}
	}
}

// snapshotPages encodes a snapshot once for all who come at about the same
// time: after a restart everybody does.
type snapshotPages struct {
	mu     sync.Mutex
	cursor string
	made   time.Time
	frames [][]byte
}

func (p *snapshotPages) of(w api.Watch) ([][]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frames != nil && p.cursor == w.Cursor && w.Cursor != "" && time.Since(p.made) < pagesAge {
		return p.frames, nil
	}
	frames, err := encodeSnapshot(w)
	if err != nil {
		return nil, err
	}
	p.cursor, p.made, p.frames = w.Cursor, time.Now(), frames
	return frames, nil
}

func encodeSnapshot(w api.Watch) ([][]byte, error) {
	var frames [][]byte
	page := func(list []wire.ProcessState, more bool) error {
		if list == nil {
			list = []wire.ProcessState{}
		}
		frame, err := hitl.Marshal(wire.ActiveProcesses{
			Type: wire.TypeActiveProcesses, Cursor: w.Cursor, Sessions: list, More: more,
		})
		frames = append(frames, frame)
		return err
	}
	start, size := 0, 0
	for i := range w.Snapshot {
		slim(&w.Snapshot[i])
		// An estimate is enough: a page has no hard limit.
		n := 1000 + 2000*len(w.Snapshot[i].PendingRequests)
		if i > start && (size+n > 4*pageBytes || i-start >= maxPageCount) {
			if err := page(w.Snapshot[start:i], true); err != nil {
				return nil, err
			}
			start, size = i, 0
		}
		size += n
	}
	err := page(w.Snapshot[start:], false)
	return frames, err
}

// slim takes the bodies out of a snapshot; clients fetch what they show. The
// lists are copied because the engine may share them.
func slim(p *wire.ProcessState) {
	list := make([]wire.Summary, len(p.PendingRequests))
	for i := range p.PendingRequests {
		list[i] = p.PendingRequests[i]
		list[i].Body = nil
	}
	p.PendingRequests, p.PendingRequest = list, nil
	if len(list) > 0 {
		p.PendingRequest = &list[0]
	}
}
