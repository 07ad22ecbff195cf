package up

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// What the empty inbox says has to work where the product runs, however it was begun.
func TestTheCommandThatAsksIsOneThatWorksHere(t *testing.T) {
	dir := t.TempDir()
	write := func(path string) string {
		t.Helper()
		path = filepath.Join(dir, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"), 0o700))
		return path
	}
	installed, built := write("on the path/banksman"), write("bin/banksman")
	made := write("go-build123/b001/exe/banksman")
	write("source/cmd/banksman/main.go")
	source := filepath.Join(dir, "source")
	t.Setenv("PATH", filepath.Dir(installed))
	require.Equal(t, "banksman", program(installed, dir))
	require.Equal(t, built, program(built, dir), "another one is on the path")
	require.Equal(t, "go run -C "+source+" ./cmd/banksman", program(made, source))
	require.Equal(t, made, program(made, dir), "not begun in the sources: its path works as long as it runs")
	t.Setenv("PATH", "")
	require.Equal(t, "'"+installed+"'", program(installed, dir))
	odd := "it's $HOME \"x\""
	out, err := exec.Command("/bin/sh", "-c", "printf %s "+quoted(odd)).Output()
	require.NoError(t, err)
	require.Equal(t, odd, string(out))
}
