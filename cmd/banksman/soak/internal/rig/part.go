package rig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/natsd"
	"github.com/banksman/banksman/services/gateway"
)

// The parts that run as processes of their own.
const (
	PartNode    = "node"    // a server of the cluster
	PartGateway = "gateway" // a gateway on it
	PartWorker  = "worker"  // asks one request; see Job
)

// partWord as the first argument makes the binary a part.
const partWord = "soak-part"

// IsPart reports whether a command line is that of a part.
func IsPart(args []string) bool { return len(args) > 2 && args[1] == partWord }

// partConfig tells a part what it is; it is the argument after partWord.
type partConfig struct {
	Part   string        `json:"part"`
	Config string        `json:"config,omitempty"` // of a node
	Creds  string        `json:"creds,omitempty"`  // of a gateway or a worker
	Addr   string        `json:"addr,omitempty"`   // where a gateway listens
	Orphan time.Duration `json:"orphan,omitempty"` // after which a gateway gives up a silent worker
	Job    *Job          `json:"job,omitempty"`    // of a worker
}

// ready is the line a part writes once it works.
const ready = "ready"

// PartMain is the main of a part. args is the whole command line. It ends with its input: whoever started it is
// gone then.
func PartMain(ctx context.Context, args []string) int {
	var cfg partConfig
	err := json.Unmarshal([]byte(args[2]), &cfg)
	if err == nil {
		err = runPart(ctx, cfg, os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "soak: %s: %v\n", cfg.Part, err)
		return 1
	}
	return 0
}

func runPart(ctx context.Context, cfg partConfig, in io.Reader, out io.Writer) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // a part that fails leaves it behind: the process ends then
		defer cancel()
		_, _ = io.Copy(io.Discard, in)
	}()
	switch cfg.Part {
	case PartNode:
		s, err := natsd.Start(ctx, natsd.StartOptions{ConfigFile: cfg.Config, Logger: log})
		if err != nil {
			return err
		}
		defer s.Shutdown()
		if _, err := fmt.Fprintln(out, ready); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.Done():
			return errors.New("the server stopped by itself")
		case err := <-s.Broken():
			return err
		}
	case PartGateway:
		return runGateway(ctx, cfg, log, out)
	case PartWorker:
		return runWorker(ctx, cfg, log, out)
	}
	return errors.New("unknown part")
}

func runGateway(ctx context.Context, cfg partConfig, log *slog.Logger, out io.Writer) error {
	creds, err := bus.LoadCredentials(cfg.Creds)
	if err != nil {
		return err
	}
	g, err := gateway.New(ctx, gateway.Options{Logger: log, Credentials: creds, Addr: cfg.Addr, OrphanAfter: cfg.Orphan})
	if err != nil {
		return err
	}
	done := make(chan error, 1) // one result, never closed
	go func() { done <- g.Run(ctx) }()
	select {
	case <-g.Ready():
	case err := <-done:
		return err
	}
	if _, err := fmt.Fprintln(out, ready); err != nil {
		return err
	}
	return <-done
}
