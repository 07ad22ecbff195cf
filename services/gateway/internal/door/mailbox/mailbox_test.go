package mailbox

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What the gateway says in one breath is more than a queue: a reader over HTTP that
// keeps up is not cut for it, one that does not is.
func TestOnlyAReaderOverHTTPThatStallsIsCut(t *testing.T) {
	t.Parallel()
	box := func() *Box[int] {
		return New[int](256<<10, time.Minute)
	}
	m := box()
	m.Put(1, 140<<10, "")
	m.Put(2, 140<<10, "")
	list, ok := m.Take()
	require.True(t, ok)
	require.Len(t, list, 2)
	m = box()
	m.Put(1, 140<<10, "")
	m.moved = m.moved.Add(-2 * time.Minute)
	m.Put(2, 140<<10, "")
	_, ok = m.Take()
	require.False(t, ok, "nothing got through for too long")
	m = box()
	m.Put(1, 140<<10, "")
	m.moved = m.moved.Add(-2 * time.Minute)
	m.Through()
	m.Put(2, 140<<10, "")
	_, ok = m.Take()
	require.True(t, ok, "something got through")
	m = box()
	m.moved = m.moved.Add(-2 * time.Minute)
	m.Put(1, 140<<10, "")
	m.Put(2, 140<<10, "")
	_, ok = m.Take()
	require.True(t, ok, "it was quiet before")
	m = box()
	for i := range 2 * maxBurst {
		m.Put(i, 140<<10, "")
	}
	_, ok = m.Take()
	require.False(t, ok, "and there is an end to it")
}

// A burst in one session costs a reader over HTTP one state.
func TestANewerStateStandsForTheOlderOverHTTPToo(t *testing.T) {
	t.Parallel()
	m := New[int](1000, time.Minute)
	m.Put(0, 400, "")
	for i := range 100 {
		m.Put(i, 400, "one")
	}
	m.Put(7, 100, "two")
	require.Equal(t, 900, m.owed)
	list, ok := m.Take()
	require.True(t, ok)
	var got []int
	for _, l := range list {
		got = append(got, l.What)
	}
	require.Equal(t, []int{0, 99, 7}, got)
}
