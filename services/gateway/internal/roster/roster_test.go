package roster

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRoster(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_000_000, 0)
	in := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	r := New(15*time.Second, time.Minute)
	a, b := Key{"t", "pool", "a"}, Key{"t", "other", "b"}
	beat := func(k Key, at time.Time, runtimes ...string) bool {
		back, ok := r.Beat(k, runtimes, at)
		require.True(t, ok)
		return back
	}
	require.False(t, beat(a, start, "claude", "demo"))
	r.Expect(b, start)
	require.Equal(t, []string{"claude", "demo"}, r.Runtimes())
	require.True(t, r.Serves("t", "pool", "demo"))
	require.False(t, r.Serves("t", "other", "demo"), "a worker that others only tell of runs nothing yet")
	require.False(t, r.Serves("t", "pool", "codex"))

	late, gone := r.Sweep(in(16), start)
	require.ElementsMatch(t, []Key{a, b}, late)
	require.Empty(t, gone)
	require.True(t, r.Unreachable(a))
	require.False(t, r.Serves("t", "pool", "demo"))
	require.True(t, beat(a, in(17), "demo"), "it is back")
	require.False(t, r.Unreachable(a))

	// Silence while nobody listened does not count.
	late, gone = r.Sweep(in(100), in(95))
	require.Empty(t, late)
	require.Empty(t, gone)
	_, gone = r.Sweep(in(200), in(95))
	require.ElementsMatch(t, []Key{a, b}, gone)
	require.Empty(t, r.Runtimes())
}

// A name costs its sender nothing: an owner has so many and no more, until some are
// gone, and nobody else has fewer for it.
func TestTheWorkersOfAnOwnerAreBounded(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_000_000, 0)
	r := New(15*time.Second, time.Minute)
	taken := 0
	for i := range 20_000 {
		if _, ok := r.Beat(Key{"t", "loud", fmt.Sprint(i)}, nil, start); ok {
			taken++
		}
	}
	require.Equal(t, MaxWorkers, taken)
	_, ok := r.Beat(Key{"t", "loud", "0"}, nil, start.Add(30*time.Second))
	require.True(t, ok, "one that is known")
	_, ok = r.Beat(Key{"t", "quiet", "w"}, nil, start.Add(30*time.Second))
	require.True(t, ok)
	n, _ := r.Count()
	require.Equal(t, MaxWorkers+1, n)
	r.Expect(Key{"t", "loud", "told of"}, start.Add(30*time.Second))
	_, ok = r.Beat(Key{"t", "loud", "told of"}, nil, start.Add(30*time.Second))
	require.True(t, ok, "one that runs a session is heard")
	_, gone := r.Sweep(start.Add(61*time.Second), start)
	require.Len(t, gone, MaxWorkers-1)
	_, ok = r.Beat(Key{"t", "loud", "new"}, nil, start.Add(61*time.Second))
	require.True(t, ok)
	r.Sweep(start.Add(time.Hour), start)
	require.Empty(t, r.owned)
}
