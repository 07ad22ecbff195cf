package stat

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestQuantile(t *testing.T) {
	t.Parallel()
	var hundred []int
	for i := 100; i > 0; i-- {
		hundred = append(hundred, i)
	}
	for _, r := range []struct {
		name    string
		samples []int
		q       float64
		want    int
	}{
		{"none", nil, 0.5, 0},
		{"one", []int{7}, 0.99, 7},
		{"middle of three", []int{9, 1, 5}, 0.5, 5},
		{"lower middle of four", []int{4, 3, 2, 1}, 0.5, 2},
		{"median of a hundred", hundred, 0.5, 50},
		{"p99 of a hundred", hundred, 0.99, 99},
		{"the largest", hundred, 1, 100},
		{"the smallest", hundred, 0, 1},
	} {
		t.Run(r.name, func(t *testing.T) {
			require.Equal(t, r.want, Quantile(r.samples, r.q))
		})
	}
	require.Equal(t, 100, hundred[0], "the samples stay in their order")
}

func TestOverRounds(t *testing.T) {
	t.Parallel()
	// One round that something else disturbed does not move the figures.
	require.Equal(t, Dist{P50: 2, P99: 20}, OverRounds([]Dist{{P50: 1, P99: 20}, {P50: 900, P99: 9000}, {P50: 2, P99: 10}}))
	require.Equal(t, Dist{}, OverRounds(nil))
	require.Equal(t, Dist{P50: 2, P99: 3}, DistOf([]time.Duration{3, 1, 2}))
}
