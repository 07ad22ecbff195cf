// Command banksman-notifier is the notifier as a process of its own.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/banksman/banksman/pkg/metrics"
	"github.com/banksman/banksman/pkg/status"
	"github.com/banksman/banksman/pkg/telemetry"
	"github.com/banksman/banksman/services/notifier"
	"github.com/banksman/banksman/services/notifier/settings"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "banksman-notifier:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	o, err := settings.Parse(args, os.Environ(), os.Stderr)
	if err != nil || o.Check {
		return err
	}
	traces, err := telemetry.Start(ctx, "banksman-notifier", o.Traces, o.Logger)
	if err != nil {
		return err
	}
	defer traces.Close()
	o.Tracer = traces.Provider()
	start, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	n, err := notifier.New(start, o.Options)
	if err != nil {
		return err
	}
	return status.Beside(ctx, o.Status, status.Options{
		Logger: o.Logger, Ready: n.Health, Metrics: metrics.Handler("banksman-notifier", n.Metrics()),
	}, n.Run)
}
