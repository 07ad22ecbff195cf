package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/banksman/banksman/cmd/banksman/bench/internal/report"
)

func TestMain(m *testing.M) {
	if isPart(os.Args) { // the test binary is the parts' binary too
		os.Exit(partMain(context.Background(), os.Args[2:]))
	}
	goleak.VerifyTestMain(m)
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
	var r report.Report
	require.NoError(t, json.Unmarshal(raw, &r))
	require.Len(t, r.Floor, 2)
	require.Len(t, r.Rows, 24)
	for _, x := range r.Rows {
		require.Positive(t, x.Trip.P50, x)
		require.GreaterOrEqual(t, x.Trip.P99, x.Trip.P50, x)
		require.Positive(t, x.ToFloor, x)
		require.Positive(t, x.Rate, x)
		require.Equal(t, x.What == report.WholeRoad, x.Show.P50 > 0 && x.Answer.P50 > 0, x)
	}
	require.Equal(t, "always", r.Rows[0].Durability, "the default comes first")
	require.Len(t, r.Crowds, 2)
	for _, c := range r.Crowds {
		require.Equal(t, crowdTimes, c.Times)
		require.Positive(t, c.Settled)
	}
	// 20 of each row warm up.
	require.Equal(t, 12*(20+4+20+18)+2*crowdTimes, r.Decisions)
	for _, title := range []string{"Floor", report.Embedded, report.Process, report.Cluster, "Everybody", "Goals"} {
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

// What only the measurements use stays out of the program.
func TestTheProgramHasNoPeersClient(t *testing.T) {
	t.Parallel()
	list := func(pkg string) string {
		out, err := exec.Command("go", "list", "-deps", pkg).Output()
		require.NoError(t, err)
		return string(out)
	}
	for _, client := range []string{"github.com/redis/go-redis", "github.com/jackc/pgx"} {
		require.NotContains(t, list("github.com/banksman/banksman/cmd/banksman"), client)
		require.Contains(t, list("github.com/banksman/banksman/cmd/banksman/bench"), client, "the test looks for the right thing")
	}
}
