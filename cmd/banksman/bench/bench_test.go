package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/banksman/banksman/cmd/banksman/bench/internal/stat"
)

func TestMain(m *testing.M) {
	if isPart(os.Args) { // the test binary is the parts' binary too
		os.Exit(partMain(context.Background(), os.Args[2:]))
	}
	goleak.VerifyTestMain(m)
}

func TestGoals(t *testing.T) {
	t.Parallel()
	met := func(goals []Goal) (got []bool) {
		for _, g := range goals {
			got = append(got, g.Met)
		}
		return got
	}
	row := Row{
		What: wholeRoad, Servers: embedded, Durability: "always", InFlight: 1, ToFloor: 9, ToFloorAndDisk: 2,
		Show: stat.Dist{P99: 10 * time.Millisecond}, Answer: stat.Dist{P99: 5*time.Millisecond - 1},
	}
	require.Equal(t, []bool{true, false, true}, met(roadGoals(row)), "a flush is part of the floor; limits of times are exclusive")
	row.Durability = "relaxed"
	require.Equal(t, []bool{false, false, true}, met(roadGoals(row)), "nothing is flushed")
	row.Servers = cluster
	require.Equal(t, []bool{false, true}, met(roadGoals(row)), "the ratios are for one server")

	redis := PeerRow{Peer: "Redis 7", Durability: "always", InFlight: 64, P50: 1, Rate: 0.9}
	require.Equal(t, []bool{true, false}, met(peerGoals(redis)))
	postgres := PeerRow{Peer: "PostgreSQL 15", Durability: "always", InFlight: 64, P50: 0.61, Rate: 2}
	require.Equal(t, []bool{false, true}, met(peerGoals(postgres)))
	postgres.InFlight = 1
	require.Equal(t, []bool{false}, met(peerGoals(postgres)), "one asker has no rate to speak of")
	postgres.InFlight = 1024
	require.Empty(t, peerGoals(postgres))

	r := Report{
		Rows:   []Row{row, {What: busOnly, Servers: embedded, InFlight: 1}, {What: wholeRoad, Servers: embedded, InFlight: 64}},
		Crowds: []CrowdRow{{Settled: time.Second / 2, Slowest: time.Second}},
	}
	require.Equal(t, []bool{false, true, false}, met(r.goals()), "the slowest crowd counts")
}

// TestRound makes a whole run of few asks, with all processes but those of
// peers, whose packages it would have to install. It asserts no time.
func TestRound(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "report.json")
	var out, errs bytes.Buffer
	code := command(t.Context(), []string{
		"--rounds", "1", "--n", "4", "--in-flight", "1,9", "--people", "10", "--peers=false", "--markdown", "--dir", dir, "--json", file,
	}, &out, &errs)
	require.Zero(t, code, errs.String())
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	var r Report
	require.NoError(t, json.Unmarshal(raw, &r))
	require.Len(t, r.Floor, 2)
	require.Len(t, r.Rows, 24)
	for _, x := range r.Rows {
		require.Positive(t, x.Trip.P50, x)
		require.GreaterOrEqual(t, x.Trip.P99, x.Trip.P50, x)
		require.Positive(t, x.ToFloor, x)
		require.Positive(t, x.Rate, x)
		require.Equal(t, x.What == wholeRoad, x.Show.P50 > 0 && x.Answer.P50 > 0, x)
	}
	require.Equal(t, "always", r.Rows[0].Durability, "the default comes first")
	require.Len(t, r.Crowds, 2)
	for _, c := range r.Crowds {
		require.Equal(t, crowdTimes, c.Times)
		require.Positive(t, c.Settled)
	}
	// 20 of each row warm up.
	require.Equal(t, 12*(20+4+20+18)+2*crowdTimes, r.Decisions)
	for _, title := range []string{"Floor", embedded, process1, cluster, "Everybody", "Goals"} {
		require.Regexp(t, "(?m)^### .*"+title, out.String())
	}
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
