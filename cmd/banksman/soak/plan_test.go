package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The seed alone decides what is asked and by whom it is decided.
func TestSeedDecidesThePlan(t *testing.T) {
	t.Parallel()
	for n := range 50 {
		require.Equal(t, newScenario(7, n), newScenario(7, n))
	}
	require.NotEqual(t, newScenario(7, 1).Request.Key, newScenario(8, 1).Request.Key)
}
