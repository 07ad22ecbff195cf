package socket

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/auth"
	"github.com/banksman/banksman/services/gateway/internal/door/act"
	"github.com/banksman/banksman/services/gateway/internal/door/terminal"
	"github.com/banksman/banksman/services/gateway/internal/visit"
)

// closeWait bounds how long shutting down waits for the peers' goodbye.
const closeWait = 3 * time.Second

const goingAway = "the server goes away"

// Options wire a Hub. All but BaseURL are required.
type Options struct {
	Desk      *act.Desk
	Auth      *auth.Store
	Visits    *visit.Log
	Terminals *terminal.Desk
	Logger    *slog.Logger
	BaseURL   *url.URL // whose origin may connect, beside the request's own host
	Origins   []string // others that may
	Limits    Limits   // with their defaults
}

// Hub holds the sockets. A socket at rest costs one goroutine: pings, time
// limits and session checks of all of them are kept by two goroutines here.
type Hub struct {
	o    Options
	ctx  context.Context // of every socket; ends when shutting down is over
	stop context.CancelFunc
	wg   sync.WaitGroup // every goroutine of every socket

	writers writers
	slow    atomic.Int64 // sockets cut because their reader was too slow

	mu      sync.Mutex
	sockets map[*socket]struct{}
	persons map[string]int // signed-in sockets by person
	// Readers elsewhere of what is told to everybody.
	listeners map[*listener]struct{}
	closing   bool
	encMu     sync.Mutex
	// The frame of the newest update, encoded once for all who watch it.
	encFor   *wire.Event
	encFrame []byte
	pages    snapshotPages
}

// NewHub makes a hub; Run keeps it.
func NewHub(o Options) *Hub {
	h := &Hub{o: o, sockets: map[*socket]struct{}{}, persons: map[string]int{}, listeners: map[*listener]struct{}{}}
	h.ctx, h.stop = context.WithCancel(context.Background())
	h.writers = writers{wg: &h.wg, most: runtime.GOMAXPROCS(0)}
	return h
}

// Accept upgrades a request. It returns at once, so that the server's own
// buffers for the request are given back.
func (h *Hub) Accept(w http.ResponseWriter, r *http.Request) {
	opts := &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled}
	opts.OriginPatterns = slices.Clone(h.o.Origins)
	if u := h.o.BaseURL; u != nil {
		opts.OriginPatterns = append(opts.OriginPatterns, u.Scheme+"://"+u.Host)
	}
	buffers := &smallBuffers{ResponseWriter: w}
	conn, err := websocket.Accept(buffers, r, opts)
	if err != nil {
		h.o.Logger.Debug("handshake refused", "error", err)
		return // Accept has answered
	}
	s := newSocket(h, conn, buffers.raw, r)
	h.mu.Lock()
	if h.closing {
		h.mu.Unlock()
		goodbye(conn, buffers.raw, wire.CloseRestart, goingAway)
		return
	}
	h.sockets[s] = struct{}{}
	h.wg.Add(1)
	h.mu.Unlock()
	go s.serve()
}

// enter counts a socket of a person in; false when there are too many.
func (h *Hub) enter(person string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.persons[person] >= h.o.Limits.Sockets {
		return false
	}
	h.persons[person]++
	return true
}

func (h *Hub) left(person string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.persons[person]--; h.persons[person] <= 0 {
		delete(h.persons, person)
	}
}

func (h *Hub) remove(s *socket) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.sockets, s)
}

func (h *Hub) all() []*socket {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := make([]*socket, 0, len(h.sockets))
	for s := range h.sockets {
		list = append(list, s)
	}
	return list
}

// Stats is how many sockets are open, how many bytes wait for their readers, and
// how many were cut so far because those were too slow.
func (h *Hub) Stats() (open, queued int, slow int64) {
	all := h.all()
	for _, s := range all {
		s.mu.Lock()
		queued += s.owed + s.bulk
		s.mu.Unlock()
	}
	return len(all), queued, h.slow.Load()
}

// Run keeps the sockets until ctx ends, tells them then that the server goes
// away, and returns when all are gone, which is bounded.
func (h *Hub) Run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { h.pulse(ctx) })
	wg.Go(func() { h.recheck(ctx) })
	<-ctx.Done()
	wg.Wait()
	h.shutdown()
}

func (h *Hub) shutdown() {
	h.mu.Lock()
	h.closing = true
	h.mu.Unlock()
	for _, s := range h.all() {
		s.finish(wire.CloseRestart, goingAway)
	}
	done := make(chan struct{})
	go func() {
		h.wg.Wait()
		close(done)
	}()
	late := time.AfterFunc(closeWait, func() { // whoever does not say goodbye
		h.stop()
		for _, s := range h.all() {
			s.cut()
		}
	})
	<-done
	late.Stop()
	h.stop()
}

// pulse keeps the time limits of all sockets.
func (h *Hub) pulse(ctx context.Context) {
	t := time.NewTicker(h.o.Limits.Tick)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-t.C:
			ping, err := hitl.Marshal(wire.Ping{Type: wire.TypePing, ServerTime: now.UTC()})
			if err != nil {
				return // a Ping always encodes
			}
			for _, s := range h.all() {
				s.pulse(now, ping)
			}
		}
	}
}

// recheck asks from time to time whether what is open may still be.
func (h *Hub) recheck(ctx context.Context) {
	t := time.NewTicker(h.o.Limits.Recheck)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			h.inspect(ctx)
		}
	}
}

// inspect ends what is open of sessions that are no more, and what was opened with rights
// that are not its person's any more: of those nobody may have been told.
func (h *Hub) inspect(ctx context.Context) {
	type reader struct {
		sess   *auth.Session
		socket *socket   // or
		stream *listener // else
	}
	var open []reader
	for _, s := range h.all() {
		if sess := s.signedIn(); sess != nil {
			open = append(open, reader{sess: sess, socket: s})
		}
	}
	h.mu.Lock()
	for l := range h.listeners {
		open = append(open, reader{sess: l.sess, stream: l})
	}
	h.mu.Unlock()
	asked := map[string]*auth.Session{} // by hash; nil: ended, or nobody knows
	for _, r := range open {
		now, known := asked[r.sess.Hash]
		if !known {
			var gone bool
			if now, gone = h.check(ctx, r.sess.Hash); gone {
				h.drop(r.sess.Hash)
			} else if r.socket != nil {
				h.o.Visits.Note(ctx, r.sess, r.sess.From, r.socket.agent)
			}
			asked[r.sess.Hash] = now
		}
		switch {
		case now == nil || now.Rights.Same(r.sess.Rights):
		case r.socket != nil:
			r.socket.finish(wire.CloseRestart, "what you may do has changed")
		default:
			r.stream.ended()
		}
	}
}

// check is a session as it is now, nil if that cannot be said or it is certainly no more.
func (h *Hub) check(ctx context.Context, hash string) (now *auth.Session, gone bool) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	now, err := h.o.Auth.CheckHash(ctx, hash)
	return now, errors.Is(err, auth.ErrUnknown)
}

// drop closes the sockets and the event streams of a session, also those that are only
// about to be its.
func (h *Hub) drop(hash string) {
	h.mu.Lock()
	for l := range h.listeners {
		if l.sess.Hash == hash {
			l.ended()
		}
	}
	h.mu.Unlock()
	for _, s := range h.all() {
		s.mu.Lock()
		if s.hash == hash {
			s.end(wire.CloseBadAuth, "the session has ended: sign in again")
		}
		s.mu.Unlock()
	}
}

// From is the address a request came from. Behind a proxy that is not trusted it is the
// proxy's, see package forwarded.
func From(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// broadcast sends a frame to the people who are signed in and fit.
func (h *Hub) broadcast(v any, to func(*auth.Session) bool) {
	frame, err := hitl.Marshal(v)
	if err != nil {
		h.o.Logger.Error("frame not encoded", "error", err)
		return
	}
	for _, s := range h.all() {
		if sess := s.signedIn(); sess != nil && to(sess) {
			s.push(frame)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for l := range h.listeners {
		if to(l.sess) {
			l.f(frame)
		}
	}
}

// listener is a reader of frames that is no socket.
type listener struct {
	sess  *auth.Session
	f     func(frame []byte)
	ended func()
}

// Listen calls f, which must not block, with the frames about people that a
// session gets, and ended when the session is over before its time or has other rights,
// until stop. ended must not block and may be called more than once, and after stop.
// Not ok: the session has ended since it was checked.
func (h *Hub) Listen(ctx context.Context, sess *auth.Session, f func(frame []byte), ended func()) (stop func(), ok bool) {
	l := &listener{sess, f, ended}
	h.mu.Lock()
	h.listeners[l] = struct{}{}
	h.mu.Unlock()
	stop = func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.listeners, l)
	}
	// Once more, now that the end is told: it may have come in between.
	if _, gone := h.check(ctx, sess.Hash); gone {
		stop()
		return nil, false
	}
	return stop, true
}

// Welcome encodes what a reader gets first: hello, then the snapshot in pages
// or what it missed.
func (h *Hub) Welcome(w api.Watch, sess *auth.Session) ([][]byte, error) {
	hello, err := hitl.Marshal(wire.Hello{
		Type: wire.TypeHello, Protocol: wire.Protocol, Cursor: w.Cursor, ServerTime: time.Now().UTC(),
		Principal: sess.Person, Recovered: w.Recovered, Runtimes: h.o.Desk.Engine.Runtimes(), DefaultCwd: h.o.Desk.DefaultCwd,
		AskCommand: h.o.Desk.AskCommand,
	})
	frames := w.Missed
	if err == nil && !w.Recovered {
		frames, err = h.pages.of(w)
	}
	if err != nil {
		return nil, fmt.Errorf("socket: encode the welcome: %w", err)
	}
	return append([][]byte{hello}, frames...), nil
}

// Notice tells whom it concerns what happened to the tokens.
func (h *Hub) Notice(n auth.Notice) {
	switch {
	case n.SignedIn != nil:
		name := n.SignedIn.Person.Name
		if n.SignedIn.Name != "" {
			name = n.SignedIn.Name
		}
		frame := wire.SignedIn{Type: wire.TypeSignedIn, Principal: n.SignedIn.Person, Name: name, Via: n.SignedIn.Via, At: n.SignedIn.CreatedAt}
		h.broadcast(frame, func(s *auth.Session) bool {
			return isPerson(s) && (s.Rights.Manages() || s.Person.ID == n.SignedIn.Person.ID)
		})
	case n.Ended != "":
		h.drop(n.Ended)
	case n.Waiting != nil:
		if h.o.Terminals.Alone(h.ctx) {
			h.broadcast(wire.CLILogin{Type: wire.TypeCLILogin, CLIRequest: *n.Waiting}, terminal.IsOwner)
		}
	case n.Settled != "":
		h.broadcast(wire.CLILoginSettled{Type: wire.TypeCLILoginSettled, Code: n.Settled}, terminal.IsOwner)
	}
}

// RulesChanged tells people that rules have changed.
func (h *Hub) RulesChanged() {
	h.broadcast(wire.RulesChanged{Type: wire.TypeRulesChanged}, isPerson)
}

func isPerson(s *auth.Session) bool { return s.Person.Kind == "person" }

// encode returns the frame of an update's events. The engine calls all
// watchers of one update in turn, so remembering one frame is enough.
func (h *Hub) encode(u api.Update) []byte {
	h.encMu.Lock()
	defer h.encMu.Unlock()
	if h.encFor == &u.Events[0] {
		return h.encFrame
	}
	frame, err := hitl.Marshal(wire.Events{
		Type: wire.TypeEvent, SessionID: plainID(u.SessionKey), SessionKey: u.SessionKey,
		Cursor: u.Cursor, Events: u.Events,
	})
	if err != nil {
		h.o.Logger.Error("events not encoded", "session", u.SessionKey, "error", err)
		return nil
	}
	h.encFor, h.encFrame = &u.Events[0], frame
	return frame
}

// plainID is the session's own part of its key.
func plainID(key string) string { return key[strings.LastIndexByte(key, '.')+1:] }

// jitter spreads pings so that 10,000 sockets do not answer at once.
func jitter(d time.Duration) time.Duration { return d - d/5 + rand.N(2*d/5+1) }
