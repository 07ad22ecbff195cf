// Package proc runs the parts of a measurement: the same binary again, each a
// process of its own that ends with its standard input.
package proc

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

const (
	startLimit = 60 * time.Second
	stopLimit  = 20 * time.Second
)

// Process is a part as its parent sees it. It ends when its input is closed,
// which also happens when the parent dies.
type Process struct {
	name  string
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Reader
}

// Start runs this binary with arguments and waits until it says hello.
func Start(ctx context.Context, name string, args []string, hello any) (*Process, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &Process{name: name, cmd: exec.Command(exe, args...)}
	p.cmd.Stderr = os.Stderr
	p.cmd.SysProcAttr = ownGroup()
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.lines = bufio.NewReaderSize(out, 1<<20)
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", p.name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := p.read(ctx, hello); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", p.name, err), p.Stop())
	}
	return p, nil
}

// read takes the part's next line. When ctx ends, the part is killed, because
// nothing else ends the read.
func (p *Process) read(ctx context.Context, v any) error {
	defer context.AfterFunc(ctx, func() { _ = p.cmd.Process.Kill() })()
	line, err := p.lines.ReadBytes('\n')
	if err != nil {
		return errors.Join(ctx.Err(), fmt.Errorf("no word from it: %w", err))
	}
	return json.Unmarshal(line, v)
}

// Call has the part do something, and reads what it answers.
func (p *Process) Call(ctx context.Context, job, answer any) error {
	if err := json.NewEncoder(p.in).Encode(job); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	if err := p.read(ctx, answer); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	return nil
}

// PID is the part's process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Kill ends the part with a signal that it cannot catch, and waits for its end.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended by itself
	_ = p.cmd.Wait()         // says that it was killed
	_ = p.in.Close()
}

// Stop ends the part and waits for it. Of nil it does nothing.
func (p *Process) Stop() error {
	if p == nil {
		return nil
	}
	_ = p.in.Close() // closed already if the part was stopped before
	late := time.AfterFunc(stopLimit, func() { _ = p.cmd.Process.Kill() })
	defer late.Stop()
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	return nil
}
