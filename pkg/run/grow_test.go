package run

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

// It changes what the whole process shares, so nothing else runs beside it.
func TestTheHeapGrowsFurtherWhileSomebodyReads(t *testing.T) {
	now := func() int {
		v := debug.SetGCPercent(100)
		debug.SetGCPercent(v)
		return v
	}
	for _, before := range []int{100, 50, 800, -1} {
		was := debug.SetGCPercent(before)
		first, second := Growing(), Growing()
		meanwhile := max(before, growing)
		if before < 0 {
			meanwhile = before
		}
		require.Equal(t, meanwhile, now())
		first()
		first()
		require.Equal(t, meanwhile, now(), "the other one reads on")
		second()
		require.Equal(t, before, now())
		debug.SetGCPercent(was)
	}
}
