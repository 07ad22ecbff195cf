package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if isPart(os.Args) { // the test binary is the parts' binary too
		os.Exit(partMain(context.Background(), os.Args[2:]))
	}
	goleak.VerifyTestMain(m,
		goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server.(*fileStore).flushLoop"),
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*fileStore).syncBlocks"),
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.startSystemInfo"),
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server/pse.updateUsage"),
	)
}

// A whole run with few sockets, without the browser: every row is there, every
// delivery is counted once, and nothing is left behind. It asserts no time.
func TestRound(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "report.json")
	var out, errs bytes.Buffer
	require.NoError(t, command(t.Context(), []string{
		"--rounds", "1", "--few", "21", "--many", "40", "--events", "2", "--bursts", "1", "--browser=false", "--markdown", "--dir", dir, "--json", file,
	}, &out, &errs), errs.String())
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	var r result
	require.NoError(t, json.Unmarshal(raw, &r))
	require.Empty(t, r.Failures)
	// Few: 2 events and a burst of 20, at the gateway and at the floor, and twice
	// 10 events beside one socket. Many: an event at both, what waits after the
	// storm, and an event after it.
	require.Equal(t, 21*(2*(2+20)+2*10)+40*(2*1+waiting+1), r.Checked)
	for _, title := range []string{"Idle sockets", "One event to all", "A burst of 20 events", "One socket that stalls", "Everybody comes back at once", "Goals"} {
		require.Contains(t, out.String(), "### "+title)
	}
	for _, tb := range r.Tables {
		for _, row := range tb.Rows {
			require.Len(t, row, len(tb.Rows[0]), tb.Title)
		}
		if tb.Title == "Everybody comes back at once" {
			require.Equal(t, []string{"40", "0", "0"}, tb.Rows[1][3:], "all went on, nothing lost, nothing doubled")
		}
	}
	left, err := filepath.Glob(filepath.Join(dir, "banksman-bench-web-*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestFlags(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--rounds", "0"}, {"--many", "x"}, {"word"}} {
		var out, errs bytes.Buffer
		require.Error(t, command(t.Context(), args, &out, &errs), args)
		require.Empty(t, out.String())
	}
}
