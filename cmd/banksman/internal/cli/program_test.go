package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a command tells people to run is not a path of the Go tool's own.
func TestGoRunIsKnownWhereverItBuilds(t *testing.T) {
	t.Parallel()
	for exe, want := range map[string]bool{
		filepath.Join(os.TempDir(), "go-build1/b001/exe/banksman"):     true,
		"/home/ada/.cache/go-build/cb/cbb71fc9b99eaea7598c-d/banksman": true,
		"/usr/local/bin/banksman":                                      false,
		"/srv/banksman-d/banksman":                                     false,
	} {
		require.Equal(t, want, byGoRun(exe), exe)
	}
}

func TestAskNamesTheDataThatItAskedIn(t *testing.T) {
	t.Parallel()
	dir, err := DefaultDataDir()
	require.NoError(t, err)
	require.Empty(t, (&command{data: dir}).atHome())
	require.Equal(t, " --data /srv/data", (&command{data: "/srv/data"}).atHome())
}
