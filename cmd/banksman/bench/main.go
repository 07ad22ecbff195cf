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
	"time"
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
	o := Options{InFlight: []int{1, 64, 1024}}
	quick := fs.Bool("quick", false, "a short run: 2 rounds of 60, 1 and 64 in flight, a crowd of 200")
	fs.IntVar(&o.Rounds, "rounds", 3, "rounds; every row is measured once in each, one after the other")
	fs.IntVar(&o.N, "n", 200, "measured asks per row and round, where one is in flight; at least twice as many elsewhere")
	fs.Var((*numbers)(&o.InFlight), "in-flight", "`numbers` of asks that wait at once")
	fs.StringVar(&o.Dir, "dir", "", "`directory` for the streams; its file system counts (default: the temp directory)")
	fs.BoolVar(&o.Cluster, "cluster", true, "rows with three servers")
	fs.BoolVar(&o.Peers, "peers", true, "rows of Redis and PostgreSQL; Debian's packages are installed if they are missing")
	fs.IntVar(&o.People, "people", 1000, "how many decide one interaction at once; 0: no such rows")
	fs.DurationVar(&o.Limit, "limit", 18*time.Minute, "no round begins that would probably end later than this; 0: none")
	markdown := fs.Bool("markdown", false, "write Markdown, as docs/benchmarks.md has it")
	file := fs.String("json", "", "write the report as JSON to this `file`")
	if err := fs.Parse(args); err != nil || fs.NArg() > 0 {
		return 2
	}
	if *quick {
		o.Rounds, o.N, o.InFlight, o.People = 2, 60, []int{1, 64}, min(o.People, 200)
	}
	o.Logger = slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	o.Progress = func(s string) { fmt.Fprintln(stderr, s) }
	found, err := Run(ctx, o)
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	if *markdown {
		found.Markdown(stdout)
	} else {
		found.Text(stdout)
	}
	code := 0
	if len(found.Failures) > 0 {
		code = 1
	}
	if *file == "" {
		return code
	}
	raw, err := json.MarshalIndent(found, "", "  ")
	if err == nil {
		err = os.WriteFile(*file, append(raw, '\n'), 0o644)
	}
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	return code
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
