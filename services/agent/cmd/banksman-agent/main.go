// Command banksman-agent is the agent worker as a process of its own.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/metrics"
	"github.com/banksman/banksman/pkg/status"
	"github.com/banksman/banksman/pkg/telemetry"
	"github.com/banksman/banksman/services/agent"
	"github.com/banksman/banksman/services/agent/settings"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == agent.GuardCommand {
		os.Exit(agent.RunGuard(os.Args[2:]))
	}
	o, err := settings.Parse(os.Args[1:], os.Environ(), os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		fmt.Fprintln(os.Stderr, "banksman-agent:", err)
		os.Exit(2) // as banksman config check does
	case o.Check:
		fmt.Println("ok")
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err = run(ctx, &o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "banksman-agent:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o *settings.Agent) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	o.Guard = []string{exe, agent.GuardCommand}
	if o.DefaultCwd == "" {
		if o.DefaultCwd, err = os.Getwd(); err != nil {
			return err
		}
	}
	traces, err := telemetry.Start(ctx, "banksman-agent", o.Traces, o.Logger)
	if err != nil {
		return err
	}
	defer traces.Close()
	o.Tracer = traces.Provider()
	if o.Client, err = bus.Connect(ctx, o.Credentials, bus.Options{Name: "banksman-agent", Logger: o.Logger, Tracer: o.Tracer}); err != nil {
		return err
	}
	defer o.Client.Close()
	a, err := agent.New(o.Options)
	if err != nil {
		return err
	}
	return status.Beside(ctx, o.Status, status.Options{
		Logger: o.Logger, Ready: a.Health, Metrics: metrics.Handler("banksman-agent", a.Metrics()),
	}, a.Run)
}
