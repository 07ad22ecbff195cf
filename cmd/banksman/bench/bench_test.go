package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if isPart(os.Args) { // the test binary is the parts' binary too
		os.Exit(partMain(context.Background(), os.Args[2:]))
	}
	goleak.VerifyTestMain(m)
}

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
			require.Equal(t, r.want, quantile(r.samples, r.q))
		})
	}
	require.Equal(t, 100, hundred[0], "the samples stay in their order")
}

func TestOverRounds(t *testing.T) {
	t.Parallel()
	// One round that something else disturbed does not move the figures.
	require.Equal(t, Dist{P50: 2, P99: 20}, overRounds([]Dist{{P50: 1, P99: 20}, {P50: 900, P99: 9000}, {P50: 2, P99: 10}}))
	require.Equal(t, Dist{}, overRounds(nil))
	require.Equal(t, Dist{P50: 2, P99: 3}, distOf([]time.Duration{3, 1, 2}))
}

func TestGoals(t *testing.T) {
	t.Parallel()
	row := Row{
		Durability: "always", ToFloor: 9, ToFloorAndDisk: 2,
		Show: Dist{P99: 10 * time.Millisecond}, Answer: Dist{P99: 5*time.Millisecond - 1},
	}
	met := func() (got []bool) {
		for _, g := range goals(row) {
			got = append(got, g.Met)
		}
		return got
	}
	require.Equal(t, []bool{true, false, true}, met(), "a flush is part of the floor; limits of times are exclusive")
	row.Durability = "relaxed"
	require.Equal(t, []bool{false, false, true}, met(), "nothing is flushed")
}

func TestCheckFindsLostAndDoubled(t *testing.T) {
	t.Parallel()
	ask := timing{Key: "k", Decision: "d"}
	for _, r := range []struct {
		name     string
		asks     []timing
		receipts []string
		ends     []string
		text     string
	}{
		{"one decision everywhere", []timing{ask}, []string{"d"}, []string{"d"}, ""},
		{"lost at the asker", []timing{{Err: "no decision"}}, nil, nil, "no decision"},
		{"lost receipt", []timing{ask}, nil, []string{"d"}, "receipts"},
		{"two receipts", []timing{ask}, []string{"d", "e"}, []string{"d"}, "receipts"},
		{"another decision", []timing{ask}, []string{"d"}, []string{"e"}, "ends"},
		{"two ends", []timing{ask}, []string{"d"}, []string{"d", "d"}, "ends"},
		{"one key twice", []timing{ask, ask}, []string{"d"}, []string{"d"}, "asked twice"},
	} {
		t.Run(r.name, func(t *testing.T) {
			rs := &readers{accepted: map[string][]string{"k": r.receipts}, closed: map[string][]string{"k": r.ends}}
			err := rs.check(r.asks)
			if r.text == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, r.text)
			}
		})
	}
}

// TestRound makes a whole run of few asks, with all processes. It asserts no
// time.
func TestRound(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "report.json")
	var out, errs bytes.Buffer
	code := command(t.Context(), []string{"--rounds", "1", "--n", "4", "--in-flight", "1,9", "--dir", dir, "--json", file}, &out, &errs)
	require.Zero(t, code, errs.String())
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	var r Report
	require.NoError(t, json.Unmarshal(raw, &r))
	require.Len(t, r.Floor, 2)
	require.Len(t, r.Rows, 8)
	for _, x := range r.Rows {
		require.Positive(t, x.Show.P50, x)
		require.Positive(t, x.Answer.P50, x)
		require.Positive(t, x.ToFloor, x)
		require.GreaterOrEqual(t, x.Trip.P99, x.Trip.P50, x)
	}
	require.Equal(t, "always", r.Rows[0].Durability, "the default comes first")
	// 10 of each row warm up.
	require.Equal(t, 4*(10+4+10+36), r.Decisions)
	require.Contains(t, out.String(), "240 asks, each with exactly one decision")
	require.Equal(t, 8, strings.Count(out.String(), "| always |")+strings.Count(out.String(), "| relaxed |"))
	left, err := filepath.Glob(filepath.Join(dir, "banksman-bench-*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestFlags(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"--in-flight", "0"}, {"--in-flight", "1,x"}, {"--in-flight", "1025"}, {"--rounds", "x"}, {"word"},
	} {
		var out, errs bytes.Buffer
		require.Equal(t, 2, command(t.Context(), args, &out, &errs), args)
		require.Empty(t, out.String())
	}
	var out, errs bytes.Buffer
	require.Equal(t, 1, command(t.Context(), []string{"--rounds", "0"}, &out, &errs))
	require.Contains(t, errs.String(), "at least 1")
}
