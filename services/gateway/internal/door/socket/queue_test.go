package socket

import (
	"bytes"
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
