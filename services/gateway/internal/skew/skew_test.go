package skew

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSkewIsWhatIsCertain(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	sec := func(n int) time.Time { return at.Add(time.Duration(n) * time.Second) }
	for _, tc := range []struct {
		before, after, other time.Time
		want                 time.Duration
	}{
		{sec(0), sec(10), sec(5), 0}, // a slow call says nothing against a clock
		{sec(0), sec(0), sec(0), 0},
		{sec(8), sec(9), sec(5), 3 * time.Second},
		{sec(0), sec(1), sec(5), -4 * time.Second},
		{sec(0), sec(1), time.Time{}, 0},
	} {
		require.Equal(t, tc.want, of(tc.before, tc.after, tc.other))
	}
}
