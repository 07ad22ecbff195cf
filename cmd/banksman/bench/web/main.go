package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/banksman/banksman/cmd/banksman/bench/internal/report"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if isPart(os.Args) {
		os.Exit(partMain(ctx, os.Args[2:]))
	}
	if err := command(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "bench-web:", err)
		}
		os.Exit(1)
	}
}

// options say how much is measured.
type options struct {
	rounds, few, many     int
	events, bursts, cards int
	dir                   string
	browser               bool
}

func command(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	fs := flag.NewFlagSet("bench-web", flag.ContinueOnError)
	fs.SetOutput(stderr)
	var o options
	fs.IntVar(&o.rounds, "rounds", 3, "rounds; every row is measured once in each")
	fs.IntVar(&o.few, "few", 1000, "sockets of the rows with few")
	fs.IntVar(&o.many, "many", 10_000, "sockets of the rows with many; each needs a file descriptor in three processes")
	fs.IntVar(&o.events, "events", 20, "events a row and round with few sockets; half as many with many")
	fs.IntVar(&o.bursts, "bursts", 10, "bursts a round")
	fs.IntVar(&o.cards, "cards", 50, "cards painted a round")
	fs.BoolVar(&o.browser, "browser", true, "the row of a real Chromium")
	fs.StringVar(&o.dir, "dir", "", "`directory` for the streams (default: the temp directory)")
	markdown := fs.Bool("markdown", false, "write Markdown, as docs/benchmarks.md has it")
	file := fs.String("json", "", "write the report as JSON to this `file`")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 0 || min(o.rounds, o.few, o.many, o.events, o.bursts, o.cards) < 1 {
		return errors.New("want numbers of at least 1, and nothing else")
	}
	found, err := run(ctx, o, func(s string) { fmt.Fprintln(stderr, s) })
	if err != nil {
		return err
	}
	found.write(stdout, *markdown)
	if *file != "" {
		raw, err := json.MarshalIndent(found, "", "  ")
		if err == nil {
			err = os.WriteFile(*file, append(raw, '\n'), 0o644)
		}
		if err != nil {
			return err
		}
	}
	if len(found.Failures) > 0 {
		return errors.New("not everything could be measured")
	}
	return nil
}

// run measures. Everything it started has ended and what it wrote is gone when it
// returns.
func run(ctx context.Context, o options, progress func(string)) (found *result, err error) {
	dir, err := os.MkdirTemp(o.dir, "banksman-bench-web-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	began := time.Now()
	found = &result{Date: began.UTC().Truncate(time.Second), Host: report.HostOf(dir, ""), LoadBefore: report.LoadAverage()}
	var few, many []size
	var cards []painted
	for i := range o.rounds {
		at := time.Now()
		for _, part := range []struct {
			n   int
			row func(*pair, *size) error
			to  *[]size
		}{
			{o.few, func(p *pair, s *size) error {
				return errors.Join(p.fan(ctx, s, o.events, o.bursts), p.besideOne(ctx, s, 5*o.events))
			}, &few},
			{o.many, func(p *pair, s *size) error {
				return errors.Join(p.fan(ctx, s, max(1, o.events/2), 0), p.storm(ctx, s))
			}, &many},
		} {
			s, err := one(ctx, dir, part.n, part.row)
			if err := found.note(ctx, fmt.Sprintf("round %d, %d sockets", i+1, part.n), err); err != nil {
				return nil, err
			}
			*part.to = append(*part.to, s)
		}
		if o.browser {
			ms, err := paint(ctx, dir, o.cards)
			if err := found.note(ctx, fmt.Sprintf("round %d, Chromium", i+1), err); err != nil {
				return nil, err
			}
			if len(ms[0]) > 0 {
				cards = append(cards, ms)
			}
		}
		found.Load = append(found.Load, report.LoadAverage())
		progress(fmt.Sprintf("round %d of %d took %v, load average %s", i+1, o.rounds, time.Since(at).Round(time.Second), report.LoadAverage()))
	}
	found.Took = time.Since(began).Round(time.Second)
	found.summarize(few, many, cards)
	return found, nil
}

// one measures a number of sockets on a fresh installation.
func one(ctx context.Context, dir string, n int, more func(*pair, *size) error) (s size, err error) {
	p, err := startPair(ctx, dir, n)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	s.n = n
	if err := p.idle(ctx, &s); err != nil {
		return s, err
	}
	return s, more(p, &s)
}
