package agent_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/services/agent"
)

// Workers that share a directory each have a part of their own, and who starts
// after one has ended goes on in its place.
func TestWorkersShareADataDirectory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cred, err := bus.LoadCredentials(w.creds())
	require.NoError(t, err)
	client, err := bus.Connect(t.Context(), cred, bus.Options{})
	require.NoError(t, err)
	defer client.Close()
	dir := t.TempDir()
	next := func() *agent.Agent {
		a, err := agent.New(agent.Options{Client: client, DataDir: dir, SharedData: true})
		require.NoError(t, err)
		return a
	}
	parts := func() (out []string) {
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		for _, e := range entries {
			out = append(out, filepath.Base(e.Name()))
		}
		return out
	}
	first, second := next(), next()
	require.Equal(t, []string{"worker-1", "worker-2"}, parts())
	require.NoError(t, first.Close())
	third := next()
	require.Equal(t, []string{"worker-1", "worker-2"}, parts(), "the place of the first is taken")
	require.NoError(t, second.Close())
	require.NoError(t, third.Close())
}
