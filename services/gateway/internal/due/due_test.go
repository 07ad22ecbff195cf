package due

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestQueue(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_000_000, 0)
	in := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	var q Queue[string]
	require.Equal(t, time.Hour, q.Next(start, time.Hour))
	_, first := q.Add("later", in(20))
	require.True(t, first)
	soon, first := q.Add("soon", in(10))
	require.True(t, first)
	far, first := q.Add("far", in(1_000_000))
	require.False(t, first)
	require.Equal(t, 10*time.Second, q.Next(start, time.Hour))
	require.Empty(t, q.Take(in(9)))
	require.Equal(t, []string{"soon", "later"}, q.Take(in(20)), "what is due at the very moment is due")
	require.False(t, soon.Waits())
	q.Remove(soon) // out already
	q.Remove(nil)
	require.Equal(t, time.Hour, q.Next(start, time.Hour), "far times are waited for in steps")
	require.Negative(t, q.Next(in(2_000_000), time.Hour))
	q.Remove(far)
	require.Zero(t, q.Len())
}
