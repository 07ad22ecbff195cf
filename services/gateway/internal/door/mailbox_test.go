package door

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/services/gateway/internal/door/socket"
)

// What the gateway says in one breath is more than a queue: a reader over HTTP that
// keeps up is not cut for it, one that does not is.
func TestOnlyAReaderOverHTTPThatStallsIsCut(t *testing.T) {
	t.Parallel()
	box := func() *mailbox[int] {
		return newMailbox[int](socket.Limits{Queue: 256 << 10, Patience: time.Minute})
	}
	m := box()
	m.put(1, 140<<10, "")
	m.put(2, 140<<10, "")
	list, ok := m.take()
	require.True(t, ok)
	require.Len(t, list, 2)
	m = box()
	m.put(1, 140<<10, "")
	m.moved = m.moved.Add(-2 * time.Minute)
	m.put(2, 140<<10, "")
	_, ok = m.take()
	require.False(t, ok, "nothing got through for too long")
	m = box()
	m.put(1, 140<<10, "")
	m.moved = m.moved.Add(-2 * time.Minute)
	m.through()
	m.put(2, 140<<10, "")
	_, ok = m.take()
	require.True(t, ok, "something got through")
	m = box()
	for i := range 2 * maxBurst {
		m.put(i, 140<<10, "")
	}
	_, ok = m.take()
	require.False(t, ok, "and there is an end to it")
}

// A burst in one session costs a reader over HTTP one state.
func TestANewerStateStandsForTheOlderOverHTTPToo(t *testing.T) {
	t.Parallel()
	m := newMailbox[int](socket.Limits{Queue: 1000, Patience: time.Minute})
	m.put(0, 400, "")
	for i := range 100 {
		m.put(i, 400, "one")
	}
	m.put(7, 100, "two")
	require.Equal(t, 900, m.owed)
	list, ok := m.take()
	require.True(t, ok)
	var got []int
	for _, l := range list {
		got = append(got, l.what)
	}
	require.Equal(t, []int{0, 99, 7}, got)
}
