package peer

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestInstallSaysWhatIsMissingWhereItCannot(t *testing.T) {
	if redisServer() != "" && postgresProgram("postgres") != "" && postgresProgram("initdb") != "" {
		require.NoError(t, Install(t.Context(), func(string) { t.Fatal("nothing is missing") }))
	}
	t.Setenv("PATH", t.TempDir()) // no apt-get
	require.ErrorContains(t, install(t.Context(), []string{"redis-server", "postgresql"}, func(string) {}),
		"missing: redis-server postgresql (named as in Debian); there is no apt-get here")
}

// A package manager that fails ends the bench with its last words.
func TestInstallTellsWhyItFailed(t *testing.T) {
	dir := t.TempDir()
	script := "#!/bin/sh\necho \"no route to the mirror\"\nexit 100\n"
	for _, name := range []string{"apt-get", "sudo"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(script), 0o700))
	}
	t.Setenv("PATH", dir)
	err := install(t.Context(), []string{"redis-server"}, func(string) {})
	require.ErrorContains(t, err, "no route to the mirror")
	require.ErrorContains(t, err, "--peers=false")
}

func TestProgramTakesTheNewestVersion(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", t.TempDir())
	require.Empty(t, program("postgres", filepath.Join(dir, "*", "bin")))
	for _, v := range []string{"9", "17", "15"} {
		bin := filepath.Join(dir, v, "bin")
		require.NoError(t, os.MkdirAll(bin, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(bin, "postgres"), nil, 0o700))
	}
	require.Equal(t, filepath.Join(dir, "17", "bin", "postgres"), program("postgres", filepath.Join(dir, "*", "bin")))
}

func TestDecisionIsAsLargeAsTheFloorsReply(t *testing.T) {
	t.Parallel()
	require.Len(t, Decision("0-always-1048576"), 120)
	require.NotEqual(t, Decision("a"), Decision("b"))
}
