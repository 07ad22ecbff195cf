package socket

import (
	"bytes"
	"encoding/binary"
	"math"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/coder/websocket"
)

// maxBatch is how much that waits leaves in one message, in bytes.
const maxBatch = 128 << 10

// perWriter is how many sockets may wait for each writer before one more starts.
const perWriter = 8

// writers are the goroutines that write to all sockets that have something to
// say, one after the other: what goes to everybody costs no goroutine for each.
// There are none while nothing waits. One that comes to a socket whose kernel
// buffer is full stays with it, alone, and another takes its place, so that a slow
// reader holds up nobody.
type writers struct {
	wg   *sync.WaitGroup
	most int // how many work at once, without those that are alone

	mu    sync.Mutex
	ready []*socket // from first on
	first int
	busy  int // writers that are not alone
}

// add has a socket written to. It is called by somebody whom wg counts.
func (ws *writers) add(s *socket) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.ready = append(ws.ready, s)
	ws.hire()
}

// hire starts a writer if there are too few. Called with the lock held.
func (ws *writers) hire() {
	if ws.busy < ws.most && len(ws.ready)-ws.first > ws.busy*perWriter {
		ws.busy++
		ws.wg.Add(1)
		go ws.work()
	}
}

// next is the socket that has waited longest; nil ends a writer.
func (ws *writers) next() *socket {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.first == len(ws.ready) {
		ws.busy--
		return nil
	}
	s := ws.ready[ws.first]
	ws.ready[ws.first] = nil
	if ws.first++; ws.first == len(ws.ready) {
		ws.ready, ws.first = ws.ready[:0], 0
	}
	return s
}

func (ws *writers) work() {
	defer ws.wg.Done()
	w := &writer{all: ws}
	w.flush = w.push
	b, ok := messages.Get().(*bytes.Buffer)
	if !ok {
		b = new(bytes.Buffer)
	}
	w.message = b
	for !w.alone {
		s := ws.next()
		if s == nil {
			break
		}
		w.serve(s)
	}
	if b.Cap() <= maxPooled {
		messages.Put(b)
	}
}

// writer is one of them.
type writer struct {
	all     *writers
	alone   bool // stays with one socket until nothing waits there
	message *bytes.Buffer
	rest    []byte // of message, still to be written
	err     error
	flush   func(fd uintptr) bool // push
}

// leave makes the writer one socket's own, which it may wait for.
func (w *writer) leave() {
	if w.alone {
		return
	}
	w.alone = true
	w.all.mu.Lock()
	defer w.all.mu.Unlock()
	w.all.busy--
	w.all.hire()
}

// serve writes what waits in a socket: a message, or everything if it is alone.
func (w *writer) serve(s *socket) {
	s.mu.Lock()
	for {
		if s.ended {
			code, why := s.code, s.why
			s.mu.Unlock()
			if code != 0 {
				w.leave()
				goodbye(s.conn, s.raw, code, why)
			}
			s.cut()
			return
		}
		if len(s.queue) == 0 {
			s.writing = false
			s.mu.Unlock()
			return
		}
		n, owed, bulk := s.batch()
		batch := s.queue[:n]
		if s.queue = s.queue[n:]; len(s.queue) == 0 {
			s.queue = nil // what comes meanwhile has a place of its own
		}
		asks := slices.ContainsFunc(batch, func(o out) bool { return o.ping })
		if asks {
			s.pinged, s.behind = time.Now(), math.MaxInt // before its answer can come
		}
		s.mu.Unlock()

		err := w.send(s, batch)

		s.mu.Lock()
		if asks && !s.pinged.IsZero() {
			s.pinged = time.Now() // a slow line has only now taken it
		}
		s.owed -= owed
		s.bulk -= bulk
		if s.room != nil {
			close(s.room)
			s.room = nil
		}
		if err != nil && !s.ended {
			s.ended = true // without a code: there is nobody to tell
		}
		switch {
		case len(s.queue) > 0:
			s.moved = time.Now()
			if !w.alone && !s.ended {
				s.mu.Unlock()
				w.all.add(s) // the others first
				return
			}
		case cap(batch) == 1: // most say one thing at a time: its place is kept
			batch[0] = out{}
			s.queue = batch[:0]
		}
	}
}

// goodbye closes a connection with a code. It takes at most closeWait: Close
// waits for the peer's answer, and for the rest of a frame that never comes.
func goodbye(conn *websocket.Conn, raw net.Conn, code websocket.StatusCode, why string) {
	late := time.AfterFunc(closeWait, func() { _ = raw.Close() })
	defer late.Stop()
	_ = conn.Close(code, why) // the peer may be gone
}

// batch is how many of the waiting frames leave in the next message, and their
// bytes of each sort.
func (s *socket) batch() (n, owed, bulk int) {
	for i, o := range s.queue {
		if i > 0 && owed+bulk+len(o.frame) > maxBatch {
			break
		}
		n++
		if o.bulk {
			bulk += len(o.frame)
		} else {
			owed += len(o.frame)
		}
	}
	return n, owed, bulk
}

// messages are the writers' buffers; one that grew large is let go.
var messages = sync.Pool{New: func() any { return new(bytes.Buffer) }}

const maxPooled = 4 * maxBatch // bytes

// send writes one frame as it is and several as a JSON array, in one message.
//
// It writes to the connection itself and not through conn, which would hold a
// buffer of a frame's size for every socket at rest. What conn writes meanwhile,
// a goodbye or an answer to a ping, is one call as well, and the connection takes
// one after the other. pulse keeps the time limit, by cut: a context would cost
// every delivery a timer.
func (w *writer) send(s *socket, batch []out) error {
	if s.frames != nil {
		batch = slices.Clone(batch)
		for i := range batch {
			batch[i].frame = s.frames.Cut(batch[i].frame)
		}
		batch = slices.DeleteFunc(batch, func(o out) bool { return len(o.frame) == 0 })
		if len(batch) == 0 {
			return nil
		}
	}
	size := 0
	for _, o := range batch {
		size += len(o.frame)
	}
	array := len(batch) > 1
	if array {
		size += len(batch) + 1 // brackets and commas
	}
	b := w.message
	b.Reset()
	writeHeader(b, size)
	for i, o := range batch {
		switch {
		case array && i == 0:
			b.WriteByte('[')
		case array:
			b.WriteByte(',')
		}
		b.Write(o.frame)
	}
	if array {
		b.WriteByte(']')
	}
	if s.kernel == nil {
		w.leave()
		_, err := s.raw.Write(b.Bytes())
		return err
	}
	w.rest, w.err = b.Bytes(), nil
	err := s.kernel.Write(w.flush)
	w.rest = nil
	if err == nil {
		err = w.err
	}
	return err
}

// push gives the kernel what it takes of rest, and reports whether that is all.
// If not, it is called again once there is room. Nobody else writes to the
// connection until then.
func (w *writer) push(fd uintptr) bool {
	for len(w.rest) > 0 {
		n, err := writeNow(fd, w.rest)
		switch {
		case err == nil:
			w.rest = w.rest[n:]
		case again(err):
			w.leave()
			return false
		default:
			w.err = err
			return true
		}
	}
	return true
}

// writeHeader begins an unmasked text message of so many bytes (RFC 6455, 5.2).
func writeHeader(b *bytes.Buffer, size int) {
	const finalText = 0x81
	b.WriteByte(finalText)
	switch {
	case size < 126:
		b.WriteByte(byte(size))
	case size < 1<<16:
		b.WriteByte(126)
		b.Write(binary.BigEndian.AppendUint16(b.AvailableBuffer(), uint16(size)))
	default:
		b.WriteByte(127)
		b.Write(binary.BigEndian.AppendUint64(b.AvailableBuffer(), uint64(size)))
	}
}

// kernelOf is what a connection of the kernel's own is written to through; nil of
// any other, and where a write cannot be kept from waiting.
func kernelOf(c net.Conn) syscall.RawConn {
	sc, ok := c.(syscall.Conn)
	if !ok || !neverWaits {
		return nil
	}
	rc, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	return rc
}
