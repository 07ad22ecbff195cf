package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if isPart(os.Args) {
		os.Exit(partMain(ctx, os.Args[2:]))
	}
	os.Exit(command(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// command measures and reports; it returns the exit code.
func command(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.SetOutput(stderr)
	o := Options{InFlight: []int{1, 64}}
	quick := fs.Bool("quick", false, "a short run of about 20 s: 2 rounds of 60")
	fs.IntVar(&o.Rounds, "rounds", 5, "rounds; every row is measured once in each, one after the other")
	fs.IntVar(&o.N, "n", 300, "measured asks per row and round, where one is in flight; twice as many elsewhere")
	fs.Var((*numbers)(&o.InFlight), "in-flight", "`numbers` of asks that wait at once (1024 is possible)")
	fs.StringVar(&o.Dir, "dir", "", "`directory` for the streams; its file system counts (default: the temp directory)")
	file := fs.String("json", "", "write the report as JSON to this `file`")
	if err := fs.Parse(args); err != nil || fs.NArg() > 0 {
		return 2
	}
	if *quick {
		o.Rounds, o.N = 2, 60
	}
	o.Logger = slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	o.Progress = func(s string) { fmt.Fprintln(stderr, s) }
	report, err := Run(ctx, o)
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	report.Text(stdout)
	report.Markdown(stdout)
	if *file == "" {
		return 0
	}
	raw, err := json.MarshalIndent(report, "", "  ")
	if err == nil {
		err = os.WriteFile(*file, append(raw, '\n'), 0o644)
	}
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	return 0
}

// numbers is a flag of positive numbers between commas.
type numbers []int

func (l *numbers) String() string {
	text := make([]string, len(*l))
	for i, n := range *l {
		text[i] = strconv.Itoa(n)
	}
	return strings.Join(text, ",")
}

func (l *numbers) Set(v string) error {
	*l = nil
	for text := range strings.SplitSeq(v, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 1 || n > 1024 {
			return fmt.Errorf("want numbers from 1 to 1024 between commas")
		}
		*l = append(*l, n)
	}
	return nil
}
