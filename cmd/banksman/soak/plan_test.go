package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/cmd/banksman/soak/internal/rig"
)

// The seed alone decides what is asked and by whom it is decided.
func TestSeedDecidesThePlan(t *testing.T) {
	t.Parallel()
	lives := map[lifePlan]bool{}
	for n := range 2 * lifeEvery {
		require.Equal(t, newScenario(7, n), newScenario(7, n))
		if s := newScenario(7, n); s.Life != nil {
			lives[*s.Life] = true
			require.Less(t, s.Life.Back, rig.OrphanAfter-2*time.Second, "it is back in time")
			require.Empty(t, s.Asks)
		}
	}
	require.Len(t, lives, 5, "two that stay away, two that are back, and those that live")
	require.NotEqual(t, newScenario(7, 1).Request.Key, newScenario(8, 1).Request.Key)
}
