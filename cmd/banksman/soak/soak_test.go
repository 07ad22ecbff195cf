package main

import (
	"bytes"
	"context"
	"os"
	"testing"

	"github.com/banksman/banksman/cmd/banksman/soak/internal/rig"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if rig.IsPart(os.Args) { // the test binary is the parts' binary too
		os.Exit(rig.PartMain(context.Background(), os.Args))
	}
	goleak.VerifyTestMain(m,
		// The embedded server's own, which outlive its shutdown by a moment.
		goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server.(*fileStore).flushLoop"),
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*fileStore).syncBlocks"),
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.startSystemInfo"),
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server/pse.updateUsage"),
	)
}

// The short form of make soak: three servers, three gateways, a process each,
// killed and paused while clients ask, decide, withdraw and read, and workers that ask
// are killed. The first three faults of this seed kill a server and gateways and pause a
// server.
func TestSoak_B04_B06_B37_B50_invariant1_invariant3_invariant6_invariant7_invariant8_invariant9(t *testing.T) {
	var out, errs bytes.Buffer
	code := command(t.Context(), []string{"-seed", "3", "-n", "200", "-at-a-time", "24", "-every", "1s", "-dir", t.TempDir()}, &out, &errs)
	t.Log(out.String())
	require.Zero(t, code, errs.String())
	require.Contains(t, out.String(), "every history has an order")
	for _, seen := range []string{
		`killed: node +[1-9]`, `killed: gateway +[1-9]`, `fault: \w+ paused +[1-9]`,
		`ask: unknown +[1-9]`, `decide: no receipt +[1-9]`, `attempts of unknown outcome +[1-9]`, // invariant 7
		`decide: duplicate +[1-9]`, `decide: already_decided +[1-9]`, // invariant 6
		`worker: killed +[1-9]`, `worker: came back +[1-9]`, `record: orphaned +[1-9]`, // B-37
		`record: cancelled +[1-9]`, `record: expired +[1-9]`, `left open on purpose +[1-9]`,
		`\| waits \| \d+: told of a decision [1-9]`, `\| seed \| 3 \|`,
	} {
		require.Regexp(t, seen, out.String())
	}
}

func TestBadFlags(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	require.Equal(t, 2, command(t.Context(), []string{"-nonsense"}, &out, &errs))
	require.Equal(t, 1, command(t.Context(), []string{"-n", "0"}, &out, &errs))
	require.Contains(t, errs.String(), "must be at least 1")
	require.Empty(t, out.String())
}
