package rig

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The seed alone decides what fails.
func TestSeedDecidesTheFaults(t *testing.T) {
	t.Parallel()
	a, b := NewFaults(7, time.Second, true), NewFaults(7, time.Second, true)
	kinds := map[string]bool{}
	for range 300 {
		x := a.next()
		require.Equal(t, x, b.next())
		kinds[x.What] = true
		require.LessOrEqual(t, len(x.Nodes), 2)
	}
	require.Len(t, kinds, 7)
	none := NewFaults(7, time.Second, false)
	for range 300 {
		require.False(t, none.next().Pause)
	}
}

// Time with a fault in the way does not count as time with every part up.
func TestUptime(t *testing.T) {
	t.Parallel()
	c := Cluster{troubles: [][2]int64{{10, 20}, {30, 50}}}
	for _, x := range []struct{ from, to, up int64 }{
		{0, 100, 70}, {0, 10, 10}, {12, 18, 0}, {15, 40, 10}, {50, 60, 10}, {60, 50, 0}, {15, 16, 0},
	} {
		require.EqualValues(t, x.up, c.Up(x.from, x.to), "%v", x)
	}
	for _, x := range []struct{ from, to, calm int64 }{
		{0, 100, 50}, {0, 60, 10}, {12, 18, 0}, {15, 40, 10}, {22, 29, 7}, {50, 60, 10}, {60, 50, 0}, {0, 10, 10},
	} {
		require.EqualValues(t, x.calm, c.Calm(x.from, x.to), "%v", x)
	}
}
