package socket

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/coder/websocket"

	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/auth"
	"github.com/banksman/banksman/services/gateway/internal/door/act"
	"github.com/banksman/banksman/services/gateway/internal/sight"
)

// Frame limits of what a client sends, in bytes.
const (
	maxFirstFrame = 64 << 10
	maxFrame      = 2 << 20
)

// maxBurst bounds what waits, in queues, however fast the reader is.
const maxBurst = 16

// inFlight bounds what one socket has under way at once.
const inFlight = 8

// out is an encoded frame that waits to be written.
type out struct {
	frame []byte
	// bulk marks a page of a snapshot or a replay, which has no part in the
	// limit for slow readers: its sender waits for room instead.
	bulk bool
	// whole, if not empty, is the session whose whole state this is: a newer
	// one takes its place in the queue.
	whole string
	// ping asks for an answer, in time from when it is written.
	ping bool
}

// socket is one connection. The goroutine of serve reads; it has a writer only
// while something waits to be written.
type socket struct {
	h      *Hub
	conn   *websocket.Conn
	raw    net.Conn        // below conn
	kernel syscall.RawConn // of raw; nil if it cannot be written to without waiting
	ctx    context.Context
	cancel context.CancelFunc

	mu      sync.Mutex
	queue   []out
	owed    int       // bytes of events that wait or are being written
	moved   time.Time // when something last got through, or began to wait
	bulk    int       // bytes of pages that wait or are being written
	room    chan struct{}
	writing bool
	held    bool // the snapshot comes first: nothing is written yet
	ended   bool
	closed  time.Time // when it ended with a code
	code    websocket.StatusCode
	why     string
	hash    string // of the token, from before it is checked: what it is for may end meanwhile
	session *auth.Session
	from    string        // the client's address
	agent   string        // and what it calls itself
	cookie  string        // the session token that came with the handshake
	frames  *sight.Frames // nil: the person sees everything; the writer's own
	subs    map[string]*subscription
	last    string // cursor of the newest update seen
	heard   time.Time
	pinged  time.Time // when a ping was written; zero: none is unanswered
	behind  int       // bytes that the peer had not taken when last looked at, since the ping
	asked   bool      // the auth frame came, in time: checking it has a limit of its own
	next    time.Time // of the next ping; before signing in, the time limit

	replays sync.Mutex    // one replay at a time
	slots   chan struct{} // what is under way
	tokens  float64       // of the rate limit; the reader's own
	filled  time.Time
}

func newSocket(h *Hub, conn *websocket.Conn, raw net.Conn, r *http.Request) *socket {
	conn.SetReadLimit(-1) // serve has limits with codes of their own
	now := time.Now()
	s := &socket{
		h: h, conn: conn, raw: raw, kernel: kernelOf(raw), from: From(r), agent: r.UserAgent(), cookie: Cookie(r), heard: now, next: now.Add(h.o.Limits.SignIn),
		tokens: h.o.Limits.Burst, filled: now,
	}
	s.ctx, s.cancel = context.WithCancel(h.ctx)
	return s
}

// serve signs the client in and hands the socket over to loop.
func (s *socket) serve() {
	defer s.h.wg.Done()
	watch, ok := s.signIn()
	if !ok {
		s.leave()
		return
	}
	s.h.wg.Go(func() { s.loop(watch) })
}

// loop reads until the socket ends. It is a goroutine of its own that calls
// nothing deep, because a stack that has grown stays with an idle socket.
func (s *socket) loop(watch api.Watch) {
	defer s.leave()
	defer s.h.left(s.session.Person.ID)
	defer watch.Stop()
	done := make(chan struct{})
	for {
		raw, ok := s.read(maxFrame)
		if !ok {
			return
		}
		if string(raw) == pong {
			continue
		}
		s.h.wg.Go(func() {
			s.handle(raw)
			done <- struct{}{}
		})
		<-done
	}
}

// pong is the frame that idle clients send, as most of them write it.
const pong = `{"type":"pong"}`

// leave ends what the reader had to do.
func (s *socket) leave() {
	s.mu.Lock()
	saying := s.ended && s.code != 0
	s.ended = true
	s.mu.Unlock()
	if !saying { // the peer is gone; else the writer says goodbye and cuts
		s.cut()
		_ = s.conn.CloseNow()
	}
	s.h.remove(s)
}

// cut ends everything that waits for the peer or for the socket.
func (s *socket) cut() {
	s.cancel()
	_ = s.raw.Close() // more than once does no harm
}

// read returns the next message. A message that is too large ends the socket.
func (s *socket) read(limit int64) ([]byte, bool) {
	// cut unblocks it; a context of its own would cost every idle socket memory.
	_, r, err := s.conn.Reader(context.Background())
	if err != nil {
		return nil, false
	}
	raw, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, false
	}
	if int64(len(raw)) > limit {
		s.finish(wire.CloseBadFrame, "the frame is too large")
		return nil, false
	}
	s.mu.Lock()
	ended := s.ended
	s.heard, s.pinged = time.Now(), time.Time{}
	s.mu.Unlock()
	return raw, !ended && s.pace()
}

// pace delays a client that sends too fast; nothing it sent is dropped.
func (s *socket) pace() bool {
	now := time.Now()
	l := s.h.o.Limits
	s.tokens = min(l.Burst, s.tokens+now.Sub(s.filled).Seconds()*l.Rate) - 1
	s.filled = now
	if s.tokens >= 0 {
		return true
	}
	t := time.NewTimer(time.Duration(-s.tokens / l.Rate * float64(time.Second)))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.ctx.Done():
		return false
	}
}

// signIn takes the first frame and answers it with hello and what is open.
func (s *socket) signIn() (api.Watch, bool) {
	none := api.Watch{}
	raw, ok := s.read(maxFirstFrame)
	if !ok {
		return none, false
	}
	var f wire.Client
	if inv := act.Decode(raw, "frame", &f); inv != nil {
		s.finish(wire.CloseBadFrame, "the first frame is not a JSON object")
		return none, false
	}
	if f.Type != wire.TypeAuth {
		s.finish(wire.CloseNoAuth, "the first frame must be auth")
		return none, false
	}
	if f.Token == "" || f.Token == CookieToken {
		f.Token = s.cookie
	}
	s.mu.Lock()
	s.asked, s.hash = true, auth.HashOf(f.Token)
	s.mu.Unlock()
	o := &s.h.o
	ctx, cancel := context.WithTimeout(s.ctx, o.Limits.SignIn)
	sess, err := o.Auth.Check(ctx, f.Token)
	cancel()
	switch {
	case errors.Is(err, auth.ErrUnknown):
		s.finish(wire.CloseBadAuth, "sign in again")
		return none, false
	case err != nil:
		o.Logger.Warn("session not checked", "error", err)
		s.finish(wire.CloseRestart, "the session cannot be checked now")
		return none, false
	}
	if !s.h.enter(sess.Person.ID) {
		s.finish(wire.CloseTooMany, "too many connections of one person")
		return none, false
	}
	sess.From = s.from
	s.mu.Lock()
	s.session, s.held = sess, true // hello comes before everything else
	s.frames = sight.NewFrames(sess.Rights, o.Desk.Place)
	s.next = time.Now().Add(jitter(o.Limits.Ping))
	s.mu.Unlock()
	select {
	case <-o.Desk.Engine.Ready():
	case <-s.ctx.Done():
		s.h.left(sess.Person.ID)
		return none, false
	}
	if s.frames != nil {
		f.Cursor = "" // what is hidden may have changed meanwhile: the whole again
	}
	s.reach(f.Cursor)
	w := o.Desk.Engine.Watch(f.Cursor, s.onUpdate)
	s.welcome(w, sess)
	return w, true
}

// reach gives the gateway time to come to what the client has seen on another
// one: a decided interaction must not be shown as open again, and nothing twice.
func (s *socket) reach(from string) {
	ctx, cancel := context.WithTimeout(s.ctx, s.h.o.Limits.Behind)
	defer cancel()
	s.h.o.Desk.Engine.Reach(ctx, from)
}

// welcome puts hello and the snapshot, or what was missed, before everything
// that came meanwhile.
func (s *socket) welcome(w api.Watch, sess *auth.Session) {
	frames, err := s.h.Welcome(w, sess)
	if err != nil {
		s.h.o.Logger.Error("snapshot not encoded", "error", err)
		s.finish(wire.CloseRestart, "the snapshot cannot be shown")
		return
	}
	var first []out
	for _, f := range frames {
		first = append(first, out{frame: f, bulk: true})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range first {
		s.bulk += len(o.frame)
	}
	s.queue = append(first, s.queue...)
	s.held = false
	if s.last == "" {
		s.last = w.Cursor
	}
	s.wake()
}

// onUpdate is called by the engine and must not block.
func (s *socket) onUpdate(u api.Update) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if u.Cursor != "" {
		s.last = u.Cursor
	}
	if u.All != nil {
		whole := ""
		if u.Whole {
			whole = u.SessionKey
		}
		s.add(u.All, whole)
	}
	if sub := s.subs[u.SessionKey]; sub != nil && len(u.Events) > 0 {
		if sub.replaying {
			s.hold(sub, u)
		} else {
			s.add(s.h.encode(u), "")
		}
	}
}

// push queues a frame that counts against the limit for slow readers.
func (s *socket) push(frame []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(frame, "")
}

// add is push with the lock held. whole names the session whose whole state
// the frame is, if it is one: what waits of the same session then need not be
// sent, so that a burst costs a slow reader one frame.
func (s *socket) add(frame []byte, whole string) {
	if s.ended || len(frame) == 0 {
		return
	}
	if whole != "" {
		s.queue = slices.DeleteFunc(s.queue, func(o out) bool {
			if o.whole == whole {
				s.owed -= len(o.frame)
			}
			return o.whole == whole
		})
	}
	// One frame alone is always taken, whatever its size. What the server says
	// at once is no sign of a slow reader; what does not get through is.
	if s.owed > 0 && s.stalls(len(frame)) {
		s.end(wire.CloseSlow, "read too slowly")
		return
	}
	s.owed += len(frame)
	s.queue = append(s.queue, out{frame: frame, whole: whole})
	s.wake()
}

// stalls reports whether the reader is too slow for what waits and more bytes.
// Called with the lock held.
func (s *socket) stalls(more int) bool {
	l := s.h.o.Limits
	total := s.owed + more
	return total > l.Queue && (total > maxBurst*l.Queue || time.Since(s.moved) > l.Patience)
}

// wake finds a writer unless there is one. Called with the lock held.
func (s *socket) wake() {
	if s.writing || s.held && !s.ended {
		return
	}
	s.writing, s.moved = true, time.Now()
	s.h.writers.add(s)
}

// finish ends the socket with a close code.
func (s *socket) finish(code int, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end(code, why)
}

func (s *socket) end(code int, why string) {
	if s.ended {
		return
	}
	if code == wire.CloseSlow {
		s.h.slow.Add(1)
	}
	s.ended, s.code, s.why, s.closed = true, websocket.StatusCode(code), why, time.Now()
	s.queue, s.subs = nil, nil
	s.wake()
}

// pulse keeps the socket's time limits.
func (s *socket) pulse(now time.Time, ping []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.h.o.Limits
	switch {
	case s.ended:
		// Behind a write that nobody reads no goodbye gets through.
		if s.writing && now.Sub(s.closed) > 2*closeWait {
			s.cut()
		}
	case s.writing && now.Sub(s.moved) > l.Write:
		s.ended = true // without a code, for the same reason
		s.cut()
	case s.session == nil:
		if now.After(s.next) && !s.asked {
			s.end(wire.CloseLate, "no auth frame in time")
		}
	case !now.Before(s.session.ExpiresAt):
		s.end(wire.CloseBadAuth, "the session has expired: sign in again")
	case s.held: // a ping would not be written
	case len(s.queue) > 0 && s.stalls(0): // one frame alone has the time of a write
		s.end(wire.CloseSlow, "read too slowly")
	case !s.pinged.IsZero():
		// What was written may wait in the kernel for long: a peer that takes it,
		// however slowly, has not come to the ping yet.
		n := untaken(s.kernel)
		if n > 0 && n < s.behind {
			s.pinged = now
		}
		s.behind = n
		if now.Sub(s.pinged) > l.Pong {
			s.end(wire.CloseStale, "no answer to a ping")
		}
	case now.After(s.next):
		s.next = now.Add(jitter(l.Ping))
		if s.add(ping, ""); !s.ended {
			s.queue[len(s.queue)-1].ping = true
		}
	}
}

func (s *socket) signedIn() *auth.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.session
}
