package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/banksman/banksman/cmd/banksman/soak/internal/rig"

	"github.com/banksman/banksman/pkg/natsd"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if rig.IsPart(os.Args) {
		os.Exit(rig.PartMain(ctx, os.Args))
	}
	os.Exit(command(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// command soaks and reports; it returns the exit code.
func command(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("soak", flag.ContinueOnError)
	fs.SetOutput(stderr)
	o := Options{}
	fs.Uint64Var(&o.Seed, "seed", uint64(time.Now().Unix()), "decides what is asked, decided and killed (default: the time)")
	fs.IntVar(&o.Interactions, "n", 20000, "interactions")
	fs.IntVar(&o.Concurrency, "at-a-time", 64, "interactions at one time")
	fs.DurationVar(&o.Every, "every", 4*time.Second, "mean `time` between two faults; 0 for none")
	fs.BoolVar(&o.Pause, "pause", true, "some faults pause a process instead of killing it")
	durability := fs.String("durability", string(natsd.DurabilityAlways), "always, or relaxed: flush before each acknowledgement, or every two minutes")
	fs.StringVar(&o.Dir, "dir", "", "`directory` for the streams (default: the temp directory)")
	level := slog.LevelError
	fs.TextVar(&level, "log", level, "log `level` of the clients: debug, info, warn or error")
	if err := fs.Parse(args); err != nil || fs.NArg() > 0 {
		return 2
	}
	o.Durability = natsd.Durability(*durability)
	o.Logger = slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	o.Progress = func(s string) { fmt.Fprintf(stderr, "%s %s\n", time.Now().Format(time.TimeOnly), s) }
	rep, err := Run(ctx, o)
	if err != nil {
		fmt.Fprintln(stderr, "soak: this run proves nothing:", err)
		return 1
	}
	rep.Text(stdout)
	rep.Markdown(stdout)
	if len(rep.Errors) > 0 {
		return 1
	}
	return 0
}
