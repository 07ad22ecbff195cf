package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/cmd/banksman/bench/internal/report"
	"github.com/banksman/banksman/cmd/banksman/bench/internal/stat"
)

func TestWhatFailsInARowIsReportedAndTheOthersGoOn(t *testing.T) {
	t.Parallel()
	var said []string
	r := &run{Options: Options{Progress: func(s string) { said = append(said, s) }}, report: &report.Report{}}
	require.NoError(t, r.failed(t.Context(), nil, "row"))
	require.Empty(t, r.report.Failures)
	require.NoError(t, r.failed(t.Context(), errors.New("lost one"), "row"))
	require.Equal(t, []string{"row: lost one"}, r.report.Failures)
	require.Equal(t, []string{"FAILED: row: lost one"}, said)
	ended, end := context.WithCancel(t.Context())
	end()
	require.Error(t, r.failed(ended, errors.New("interrupted"), "row"))
}

// A ratio is made inside a round; a round in which one of the two failed counts
// for neither.
func TestRowsAreComparedRoundByRound(t *testing.T) {
	t.Parallel()
	of := func(rounds []int, p50 ...time.Duration) *series {
		s := &series{rounds: rounds}
		for _, d := range p50 {
			s.trip, s.rate = append(s.trip, stat.Dist{P50: d}), append(s.rate, float64(d))
		}
		return s
	}
	p50, rate := of([]int{0, 2}, 10, 30).to(of([]int{0, 1, 2}, 5, 1, 10))
	require.Equal(t, []float64{2, 3}, p50)
	require.Equal(t, []float64{2, 3}, rate)
	p50, _ = of([]int{1}, 10).to(nil)
	require.Empty(t, p50)
}
