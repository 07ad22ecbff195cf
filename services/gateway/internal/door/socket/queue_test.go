package socket

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/auth"
)

// A burst in one session costs a reader one state, not one for each change, so
// that nobody who reads is cut for the server's own repetition.
func TestNewerStateStandsForTheOlder(t *testing.T) {
	t.Parallel()
	s := &socket{h: &Hub{}, writing: true} // as if a writer were busy, for long
	s.h.o.Limits.Queue = 1000
	frame := func(c byte) []byte { return bytes.Repeat([]byte{c}, 400) }
	s.add(frame('e'), "")
	for c := byte('0'); c <= '9'; c++ {
		s.add(frame(c), "one")
	}
	require.False(t, s.ended)
	require.Equal(t, 800, s.owed)
	require.Len(t, s.queue, 2)
	require.Equal(t, frame('e'), s.queue[0].frame, "events stay, and stay first")
	require.Equal(t, frame('9'), s.queue[1].frame)
	// Another session's state is another thing, and the limit still holds.
	s.add(frame('x'), "two")
	require.True(t, s.ended)
}

// What the server says in one breath is more than a queue: a reader that keeps
// up is not cut for it, one that does not is.
func TestOnlyAReaderThatStallsIsCut(t *testing.T) {
	t.Parallel()
	busy := func() *socket {
		s := &socket{h: &Hub{}, writing: true, moved: time.Now()}
		s.h.o.Limits.Queue, s.h.o.Limits.Patience = 1000, time.Minute
		return s
	}
	frame := bytes.Repeat([]byte{'x'}, 400)
	s := busy()
	for range 30 {
		s.add(frame, "")
	}
	require.False(t, s.ended, "a burst")
	s.moved = s.moved.Add(-2 * time.Minute)
	s.add(frame, "")
	require.True(t, s.ended, "nothing got through for too long")
	s = busy()
	for range maxBurst * 3 {
		s.add(frame, "")
	}
	require.True(t, s.ended, "and there is an end to it")
}

// A ping that waits behind what a slow line still has to take has not been asked yet:
// the time for its answer begins when it is written.
func TestAPingCountsFromWhenItIsWritten(t *testing.T) {
	t.Parallel()
	h := writersOf(1)
	s, peer := linked(t, h, func(c net.Conn) net.Conn { return c })
	now := time.Now()
	s.session = &auth.Session{ExpiresAt: now.Add(time.Hour)}
	s.writing, s.moved = true, now.Add(time.Hour) // a writer is busy with pages, and they get through
	s.pulse(now.Add(time.Second), []byte(`{"type":"ping"}`))
	require.Len(t, s.queue, 1)
	s.pulse(now.Add(time.Second+2*h.o.Limits.Pong), []byte(`{"type":"ping"}`))
	require.False(t, s.ended, "nobody was asked yet")
	require.Len(t, s.queue, 1)

	h.wg.Add(1)
	h.writers.add(s)
	h.wg.Done()
	_, text := nextFrame(t, peer)
	require.JSONEq(t, `{"type":"ping"}`, string(text))
	h.wg.Wait()
	s.pulse(time.Now().Add(h.o.Limits.Pong/2), nil)
	require.False(t, s.ended)
	s.writing = true // as if somebody else said the goodbye
	s.pulse(time.Now().Add(2*h.o.Limits.Pong), nil)
	require.True(t, s.ended, "and nobody answered")
	require.EqualValues(t, wire.CloseStale, s.code)
}

// What was written waits in the kernel where the line is slow. As long as the peer
// takes it, however slowly, it is not cut for a ping that it cannot have read yet.
func TestAPeerThatTakesWhatCameBeforeThePingIsNotStale(t *testing.T) {
	t.Parallel()
	h := writersOf(1)
	s, peer := linked(t, h, func(c net.Conn) net.Conn {
		require.NoError(t, c.(*net.TCPConn).SetWriteBuffer(4<<20))
		return c
	})
	require.NoError(t, peer.(*net.TCPConn).SetReadBuffer(32<<10))
	pong := h.o.Limits.Pong
	s.session = &auth.Session{ExpiresAt: time.Now().Add(1000 * time.Hour)}
	// A page that the peer does not read yet, and a ping behind it.
	page := bytes.Repeat([]byte{'x'}, 768<<10)
	s.push(page)
	h.wg.Wait()
	now := time.Now()
	s.pulse(now, []byte(`{"type":"ping"}`))
	h.wg.Wait() // the kernel has taken both
	s.mu.Lock()
	require.False(t, s.pinged.IsZero())
	s.mu.Unlock()
	require.Positive(t, untaken(s.kernel))
	ended := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.ended
	}
	s.writing = true // as if somebody else said the goodbye
	s.moved = now.Add(1000 * time.Hour)
	buf := make([]byte, 128<<10)
	for range 5 {
		before := untaken(s.kernel)
		_, err := io.ReadFull(peer, buf)
		require.NoError(t, err)
		require.Eventually(t, func() bool { return untaken(s.kernel) < before }, time.Minute, time.Millisecond)
		now = now.Add(pong - time.Second)
		s.pulse(now, nil)
		require.False(t, ended(), "it reads")
	}
	now = now.Add(pong + time.Second)
	s.pulse(now, nil)
	require.True(t, ended(), "it has stopped reading")
	require.EqualValues(t, wire.CloseStale, s.code)
}
