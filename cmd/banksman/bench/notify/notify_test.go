package main

import (
	"bytes"
	"context"
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	if isPart(os.Args) { // the test binary is the parts' binary too
		os.Exit(partMain(context.Background(), os.Args[2:]))
	}
	os.Exit(m.Run())
}

// A small run: every row is there but the one of killed replicas, which TestReplicasUnderKill9
// shows, and a flood is few messages. It asserts no time.
func TestRound(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, command(t.Context(), []string{
		"--rounds", "1", "--n", "5", "--interactions", "0", "--addresses", "20", "--idle", "100ms", "--flood", "60", "--minute", "2s", "--dir", t.TempDir(),
	}, &out), out.String())
	require.Len(t, regexp.MustCompile(`(?m)^\| (notifier|floor).* \| (always|relaxed) \| (1|64) \| \d+\.\d\d \| \d+\.\d\d \|$`).FindAllString(out.String(), -1), 8, out.String())
	require.Regexp(t, `20 recipients, 200 routes`, out.String())
	require.Regexp(t, `60 interactions of one session, two replicas: [123] messages`, out.String())
	require.Error(t, command(t.Context(), []string{"--rounds", "0"}, &out))
}
