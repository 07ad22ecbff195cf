// Command banksman-notifier is the notifier as a process of its own.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/services/notifier"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "banksman-notifier:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	creds := flag.String("creds", "", "credential `file` of a notifier (required)")
	config := flag.String("config", "", "configuration `file` of channels and people, YAML or JSON (default: one log channel)")
	var o notifier.Options
	flag.StringVar(&o.BaseURL, "base-url", "", "`URL` that people use, for links (default: alerts have none)")
	var level slog.Level
	flag.TextVar(&level, "log", slog.LevelInfo, "log `level`: debug, info, warn or error")
	flag.Parse()
	o.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	switch {
	case flag.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	case *creds == "":
		return errors.New("--creds: missing")
	}
	if o.Credentials, err = bus.LoadCredentials(*creds); err != nil {
		return fmt.Errorf("--creds: %w", err)
	}
	if *config != "" {
		if o.Config, err = notifier.LoadConfig(*config); err != nil {
			return fmt.Errorf("--config: %w", err)
		}
	}
	start, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	n, err := notifier.New(start, o)
	if err != nil {
		return err
	}
	return n.Run(ctx)
}
