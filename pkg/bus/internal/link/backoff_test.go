package link

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// There is room in a moment for who is refused because too much waits: the next try
// comes at once, and however often that happens never late. Another trouble in
// between has its own, longer pauses.
func TestWhoIsRefusedForNowComesBackAtOnce(t *testing.T) {
	t.Parallel()
	for range 200 {
		var b Backoff
		require.Less(t, b.Next(&storeError{codeTooMany, "too many requests"}), time.Millisecond)
		require.GreaterOrEqual(t, b.Next(ErrUnavailable), 25*time.Millisecond)
		for range 20 {
			require.Less(t, b.Next(&storeError{codeTooMany, "too many requests"}), mostSoon)
		}
	}
}
