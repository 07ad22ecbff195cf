package e2e

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// patience bounds every wait for something that must happen.
const patience = 60 * time.Second

// process is a started program whose output is kept.
type process struct {
	t    *testing.T
	name string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended

	mu    sync.Mutex
	lines []string
	heard chan struct{} // closed and replaced at every line
}

// start runs a program in a process group of its own. It is killed when the
// test ends.
func start(t *testing.T, env []string, name string, args ...string) *process {
	t.Helper()
	return startWith(t, env, "", name, args...)
}

// startWith is start with a standard input.
func startWith(t *testing.T, env []string, stdin, name string, args ...string) *process {
	t.Helper()
	p := &process{t: t, name: name, done: make(chan struct{}), heard: make(chan struct{})}
	if !filepath.IsAbs(name) {
		name = filepath.Join(bin, name)
	}
	p.cmd = exec.Command(name, args...)
	p.cmd.Env = env
	p.cmd.Stdin = strings.NewReader(stdin)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	r, w := io.Pipe()
	p.cmd.Stdout, p.cmd.Stderr = w, w
	require.NoError(t, p.cmd.Start())
	read := make(chan struct{})
	go func() {
		defer close(read)
		s := bufio.NewScanner(r)
		s.Buffer(nil, 8<<20)
		for s.Scan() {
			p.mu.Lock()
			p.lines = append(p.lines, s.Text())
			close(p.heard)
			p.heard = make(chan struct{})
			p.mu.Unlock()
		}
		_, _ = io.Copy(io.Discard, r)
	}()
	go func() {
		_ = p.cmd.Wait() // the state is in cmd.ProcessState
		_ = w.Close()
		<-read
		close(p.done)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("output of %s:\n%s", p.name, p.output())
		}
	})
	return p
}

func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines, "\n")
}

// line waits for a line of output that matches and returns its submatches.
func (p *process) line(re string) []string {
	p.t.Helper()
	rx := regexp.MustCompile(re)
	limit := time.After(patience)
	for from := 0; ; {
		p.mu.Lock()
		for ; from < len(p.lines); from++ {
			if m := rx.FindStringSubmatch(p.lines[from]); m != nil {
				p.mu.Unlock()
				return m
			}
		}
		heard := p.heard
		p.mu.Unlock()
		select {
		case <-heard:
		case <-p.done:
			p.t.Fatalf("%s ended without a line like %s:\n%s", p.name, re, p.output())
		case <-limit:
			p.t.Fatalf("%s wrote no line like %s:\n%s", p.name, re, p.output())
		}
	}
}

// kill ends the whole process group at once, as a crash would.
func (p *process) kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // gone is fine
	p.wait()
}

// interrupt is Ctrl-C.
func (p *process) interrupt() {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(os.Interrupt))
	p.wait()
}

// wait returns the exit code.
func (p *process) wait() int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		p.t.Errorf("%s did not end:\n%s", p.name, p.output())
		_ = p.cmd.Process.Kill()
		<-p.done
	}
	return p.cmd.ProcessState.ExitCode()
}

// result is what a command printed.
type result struct {
	code           int
	stdout, stderr string
}

// command runs a program to its end.
func command(t *testing.T, env []string, stdin, name string, args ...string) result {
	t.Helper()
	cmd := exec.Command(filepath.Join(bin, name), args...)
	cmd.Env = env
	cmd.Stdin = strings.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.WaitDelay = time.Second
	timer := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}
