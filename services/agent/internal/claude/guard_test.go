package claude

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	m "github.com/banksman/banksman/pkg/hitltest/modelapi"
	"github.com/banksman/banksman/services/agent/internal/claude/protocol"
)

// drive starts a driver process and returns once it hangs.
func drive(t *testing.T, o Options, prompt, allowID string) (driver *exec.Cmd, cli, guard int) {
	t.Helper()
	b, err := json.Marshal(driverOrder{
		Executable: o.Executable, Dir: o.Dir, Env: o.Env, Guard: []string{self(t), GuardCommand},
		Prompt: prompt, AllowID: allowID,
	})
	require.NoError(t, err)
	driver = exec.Command(self(t), "__driver", string(b))
	var stderr bytes.Buffer
	driver.Stderr = &stderr
	out, err := driver.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, driver.Start())
	t.Cleanup(func() {
		_ = driver.Process.Kill()
		_ = driver.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err, "driver: %s", &stderr)
	_, err = fmt.Sscan(line, &cli, &guard)
	require.NoError(t, err)
	return driver, cli, guard
}

func isGone(pid int) bool {
	// A zombie is dead too; whoever is its parent now may take its time.
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return strings.HasPrefix(rest, "Z")
}

func requireGone(t *testing.T, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		require.Eventually(t, func() bool { return isGone(pid) }, patience, 2*time.Millisecond, "process %d still runs", pid)
	}
}

// kill -9 of the driver while an ask is open: the CLI dies, with its background
// tools, and the model hears nothing more, least of all a denial. The model's
// script has no step for such a request, so any would be a fault.
func TestDriverKilledWhileAsking(t *testing.T) {
	t.Parallel()
	api := m.New(t,
		m.Step{UserText: "go", Reply: []m.Block{m.ToolUse("toolu_1", "Bash", `{"command":"echo $$ > tool.pid && exec sleep 600","run_in_background":true}`)}},
		m.Step{Results: []m.Result{{ToolUseID: "toolu_1", Any: true}}, Reply: []m.Block{m.ToolUse("toolu_2", "Bash", `{"command":"touch never.txt"}`)}})
	o := real(t, api)
	driver, cli, guard := drive(t, o, "go", "toolu_1")
	require.NotEqual(t, cli, guard)
	var tool int
	require.Eventually(t, func() bool {
		b, err := os.ReadFile(filepath.Join(o.Dir, "tool.pid"))
		if err == nil {
			tool, err = strconv.Atoi(strings.TrimSpace(string(b)))
		}
		return err == nil
	}, patience, 5*time.Millisecond)
	require.False(t, isGone(tool))

	require.NoError(t, driver.Process.Kill())
	requireGone(t, cli, guard, tool)
	require.Len(t, api.Requests(), 2)
	require.NoFileExists(t, filepath.Join(o.Dir, "never.txt"))
}

// The same against a process that notices the end of its input at once, many
// times over: the window of a plain pipe is narrow.
func TestDriverKilledNeverEndsTheInput_D1_07_invariant4(t *testing.T) {
	t.Parallel()
	for range 12 {
		o, dir := fake(t, "")
		driver, cli, guard := drive(t, o, "", "")
		require.NoError(t, driver.Process.Kill())
		requireGone(t, cli, guard)
		require.NoFileExists(t, filepath.Join(dir, "eof"))
	}
}

// When the guard itself is killed the CLI goes with it, and again sees no end.
func TestGuardKilled(t *testing.T) {
	t.Parallel()
	o, dir := fake(t, askLine("r1", "Bash", `{"command":"ls"}`))
	s := start(t, o)
	a := next[protocol.Ask](s, nil)
	require.NoError(t, syscall.Kill(s.cmd.Process.Pid, syscall.SIGKILL))
	x := next[protocol.Exited](s, nil)
	require.Equal(t, 137, x.Code)
	require.Equal(t, []string{"r1"}, x.Open)
	requireGone(t, s.Info().PID)
	require.NoFileExists(t, filepath.Join(dir, "eof"))
	require.ErrorIs(t, s.Allow(a.RequestID, nil, nil), ErrExited)
}

func TestKill(t *testing.T) {
	t.Parallel()
	for name, guard := range map[string][]string{"guarded": nil, "bare": {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, dir := fake(t, askLine("r1", "Bash", `{"command":"ls"}`))
			o.Guard = guard
			s := start(t, o)
			next[protocol.Ask](s, nil)
			s.Kill()
			require.Equal(t, 137, next[protocol.Exited](s, nil).Code)
			s.Wait()
			requireGone(t, s.Info().PID)
			require.NoFileExists(t, filepath.Join(dir, "eof"))
			s.Kill() // again is fine
		})
	}
}

// A graceful end has to reach the CLI through the guard, which holds the input
// open too.
func TestCloseEndsTheInput(t *testing.T) {
	t.Parallel()
	for name, guard := range map[string][]string{"guarded": nil, "bare": {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, dir := fake(t, "")
			o.Guard = guard
			s := start(t, o)
			require.NoError(t, s.Close(s.ctx()))
			require.Zero(t, s.Wait().Code)
			require.FileExists(t, filepath.Join(dir, "eof"))
		})
	}
}

func TestGuardNeedsADriver(t *testing.T) {
	t.Parallel()
	out, err := exec.Command(self(t), GuardCommand, "/bin/true").CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, exitUsage, exit.ExitCode())
	require.Contains(t, string(out), "started by the product itself")
}
