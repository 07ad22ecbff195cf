// Package stat boils samples of times down to what a report shows.
package stat

import (
	"cmp"
	"slices"
	"time"
)

// Quantile is the value below or at which the share q of the samples lies (the
// nearest rank); 0 of none. The samples need no order.
func Quantile[T cmp.Ordered](samples []T, q float64) T {
	var zero T
	if len(samples) == 0 {
		return zero
	}
	s := slices.Clone(samples)
	slices.Sort(s)
	rank := int(q * float64(len(s)))
	if float64(rank) < q*float64(len(s)) {
		rank++
	}
	return s[min(max(rank, 1), len(s))-1]
}

// Median is the middle value; of an even number the lower of the two.
func Median[T cmp.Ordered](samples []T) T { return Quantile(samples, 0.5) }

// Dist is what is kept of one row's samples of one round.
type Dist struct {
	P50 time.Duration `json:"p50_ns"`
	P99 time.Duration `json:"p99_ns"`
}

// DistOf is what is kept of samples.
func DistOf(samples []time.Duration) Dist {
	return Dist{P50: Median(samples), P99: Quantile(samples, 0.99)}
}

// OverRounds is the median round of each figure.
func OverRounds(rounds []Dist) Dist {
	var p50, p99 []time.Duration
	for _, d := range rounds {
		p50, p99 = append(p50, d.P50), append(p99, d.P99)
	}
	return Dist{P50: Median(p50), P99: Median(p99)}
}
