package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A second instance on the same data refuses, and leaves the first one and the
// files of its clients as they are.
func TestASecondInstanceChangesNothing(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.up()
	creds := filepath.Join(h.data, "creds", "owner-cli.json")
	before, err := os.ReadFile(creds)
	require.NoError(t, err)
	r := h.run("up", "--listen", "127.0.0.1:0", "--nats-port", "14223", "--durability", "relaxed")
	require.NotZero(t, r.code)
	require.Contains(t, r.stderr, "already runs a server")
	after, err := os.ReadFile(creds)
	require.NoError(t, err)
	require.Equal(t, string(before), string(after))
	require.Empty(t, h.pending(), "the terminal still reaches the first")
}
