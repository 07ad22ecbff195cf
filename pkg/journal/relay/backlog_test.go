package relay_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/journal/relay"
)

// Owners wait while gateways are far behind, and not for ever: who takes in the last
// message sees none behind it, or sees nothing any more.
func TestABacklogIsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b relay.Backlog
		require.False(t, b.Behind())
		b.Saw(512)
		require.False(t, b.Behind())
		b.Saw(513)
		require.True(t, b.Behind())
		time.Sleep(199 * time.Millisecond) // of the bubble's clock
		require.True(t, b.Behind())
		time.Sleep(time.Millisecond)
		require.False(t, b.Behind())
		b.Saw(100_000)
		require.True(t, b.Behind())
		b.Saw(0)
		require.False(t, b.Behind())
	})
}
