package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/banksman/banksman/cmd/banksman/bench/internal/proc"
	"github.com/banksman/banksman/cmd/banksman/bench/internal/road"
)

// startLimit bounds what has to happen before a part works.
const startLimit = 60 * time.Second

// process is a part as its parent sees it.
type process struct {
	*proc.Process
	hello partHello
}

// start runs a part and waits until it says hello.
func start(ctx context.Context, cfg partConfig) (*process, error) {
	arg, err := json.Marshal(cfg)
	if err != nil {
		return nil, err
	}
	p := &process{}
	if p.Process, err = proc.Start(ctx, cfg.Part, []string{partWord, string(arg)}, &p.hello); err != nil {
		return nil, err
	}
	return p, nil
}

// run has an asking part do a job.
func (p *process) run(ctx context.Context, j road.Job) (got []road.Timing, err error) {
	err = p.Call(ctx, j, &got)
	return got, err
}

// stop ends the part and waits for it. Of nil it does nothing.
func (p *process) stop() error {
	if p == nil {
		return nil
	}
	return p.Stop()
}
