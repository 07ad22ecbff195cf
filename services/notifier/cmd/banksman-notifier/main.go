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
	o, err := settings.Parse(os.Args[1:], os.Environ(), os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		fmt.Fprintln(os.Stderr, "banksman-notifier:", err)
		os.Exit(2) // as banksman config check does
	case o.Check:
		fmt.Println("ok")
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err = run(ctx, &o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "banksman-notifier:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o *settings.Notifier) error {
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
