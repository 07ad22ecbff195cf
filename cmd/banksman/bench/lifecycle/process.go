package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// patience bounds a start, and a stop: nothing that works takes that long.
const patience = 5 * time.Minute

// build makes the programs that are measured.
func build(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-o", dir+string(filepath.Separator),
		"github.com/banksman/banksman/services/gateway/cmd/banksman-gateway", "github.com/nats-io/nats-server/v2")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	return nil
}

// process is a started program. Its log is read until it says that it is ready,
// and thrown away from then on.
type process struct {
	name  string
	cmd   *exec.Cmd
	ended chan struct{} // closed when it and its log have ended
	took  time.Duration // from its start to ready
	ready string        // the line that said so
}

// start runs a program and waits for a line of its log that has mark in it.
func start(ctx context.Context, mark, name string, args ...string) (*process, error) {
	p := &process{name: filepath.Base(name), cmd: exec.Command(name, args...), ended: make(chan struct{})}
	r, w := io.Pipe()
	p.cmd.Stdout, p.cmd.Stderr = w, w
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the parent
	began := time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	type word struct {
		line string
		at   time.Time
	}
	ready := make(chan word, 1)
	var last string // of a program that ends before it is ready
	logged := make(chan struct{})
	go func() {
		defer close(logged)
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, 1<<20)
		found := false
		for lines.Scan() {
			if !found && strings.Contains(lines.Text(), mark) {
				found = true
				ready <- word{lines.Text(), time.Now()}
			}
			last = lines.Text()
		}
		_, _ = io.Copy(io.Discard, r) // a line that is too long
	}()
	go func() { // ends with the process, which stop waits for
		_ = p.cmd.Wait() // its state says it
		_ = w.Close()
		<-logged
		close(p.ended)
	}()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case got := <-ready:
		p.took, p.ready = got.at.Sub(began), got.line
		return p, nil
	case <-p.ended:
		return nil, fmt.Errorf("%s ended before it was ready: %s", p.name, last)
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), p.stop(syscall.SIGKILL))
	case <-limit.C:
		return nil, errors.Join(fmt.Errorf("%s is not ready after %s", p.name, patience), p.stop(syscall.SIGKILL))
	}
}

// stop ends the process with a signal and waits for it. Of nil it does nothing.
func (p *process) stop(sig syscall.Signal) error {
	if p == nil {
		return nil
	}
	_ = p.cmd.Process.Signal(sig) // it may have ended by itself
	select {
	case <-p.ended:
		return nil
	case <-time.After(patience):
		_ = p.cmd.Process.Kill()
		<-p.ended
		return fmt.Errorf("%s did not end", p.name)
	}
}

// memory is the resident memory now and at its highest, in bytes.
func (p *process) memory() (now, highest int64) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, 0
	}
	for line := range strings.Lines(string(raw)) {
		name, value, _ := strings.Cut(line, ":")
		kb, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		switch name {
		case "VmRSS":
			now = kb << 10
		case "VmHWM":
			highest = kb << 10
		}
	}
	return now, highest
}

// cpu is the processor time it has used.
func (p *process) cpu() time.Duration {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(raw), ") ") // the name may have spaces
	f := strings.Fields(rest)
	if len(f) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	return time.Duration(user+system) * (time.Second / 100) // Linux's USER_HZ
}
