package hitltest

import (
	"bufio"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// Child is a process of this test binary.
type Child struct {
	*exec.Cmd
	Out *bufio.Reader // what it prints after "ready"
}

// Again starts this test binary once more, with env besides its own environment;
// TestMain has to do something else for it and to print "ready". The child is
// killed when the test ends.
func Again(t *testing.T, env ...string) *Child {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { // it may have ended before
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	c := &Child{cmd, bufio.NewReader(out)}
	line, err := c.Out.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ready\n", line)
	return c
}
