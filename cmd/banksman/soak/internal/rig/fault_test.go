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
