package journal

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Between two signs of life a process may be late, and is not taken for dead.
func TestSignsOfLifeAreFrequent(t *testing.T) {
	t.Parallel()
	require.LessOrEqual(t, 3*tellEvery, AckWait, "one is missed, and the next comes in time")
	require.LessOrEqual(t, AckWait, 2*time.Second, "people wait for it after a kill")
	require.Greater(t, HoldLimit, AckWait)
}
