package socket

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// A burst in one session costs a reader one state, not one for each change, so
// that nobody who reads is cut for the server's own repetition.
func TestNewerStateStandsForTheOlder(t *testing.T) {
	t.Parallel()
	s := &socket{h: &Hub{}, writing: true} // as if a writer were busy
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
