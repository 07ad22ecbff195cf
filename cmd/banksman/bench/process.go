package main

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

	"github.com/banksman/banksman/cmd/banksman/bench/internal/road"
)

const (
	startLimit = 60 * time.Second
	stopLimit  = 20 * time.Second
)

// process is a part as its parent sees it. It ends when its input is closed,
// which also happens when the parent dies.
type process struct {
	name  string
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Reader
	hello partHello
}

// start runs a part and waits until it says hello.
func start(ctx context.Context, cfg partConfig) (*process, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	arg, err := json.Marshal(cfg)
	if err != nil {
		return nil, err
	}
	p := &process{name: cfg.Part, cmd: exec.Command(exe, partWord, string(arg))}
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
	if err := p.read(ctx, &p.hello); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", p.name, err), p.stop())
	}
	return p, nil
}

// read takes the part's next line. When ctx ends, the part is killed, because
// nothing else ends the read.
func (p *process) read(ctx context.Context, v any) error {
	defer context.AfterFunc(ctx, func() { _ = p.cmd.Process.Kill() })()
	line, err := p.lines.ReadBytes('\n')
	if err != nil {
		return errors.Join(ctx.Err(), fmt.Errorf("no word from it: %w", err))
	}
	return json.Unmarshal(line, v)
}

// run has an asking part do a job.
func (p *process) run(ctx context.Context, j road.Job) ([]road.Timing, error) {
	if err := json.NewEncoder(p.in).Encode(j); err != nil {
		return nil, fmt.Errorf("%s: %w", p.name, err)
	}
	var got []road.Timing
	if err := p.read(ctx, &got); err != nil {
		return nil, fmt.Errorf("%s: %w", p.name, err)
	}
	return got, nil
}

// stop ends the part and waits for it. Of nil it does nothing.
func (p *process) stop() error {
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
