package roster

import (
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
	require.False(t, r.Beat(a, []string{"claude", "demo"}, start))
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
	require.True(t, r.Beat(a, []string{"demo"}, in(17)), "it is back")
	require.False(t, r.Unreachable(a))

	// Silence while nobody listened does not count.
	late, gone = r.Sweep(in(100), in(95))
	require.Empty(t, late)
	require.Empty(t, gone)
	_, gone = r.Sweep(in(200), in(95))
	require.ElementsMatch(t, []Key{a, b}, gone)
	require.Empty(t, r.Runtimes())
}
