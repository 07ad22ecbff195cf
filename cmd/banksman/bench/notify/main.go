package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/banksman/banksman/cmd/banksman/bench/internal/report"
	"github.com/banksman/banksman/cmd/banksman/bench/internal/stat"
	"github.com/banksman/banksman/pkg/natsd"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	if isPart(os.Args) {
		code := partMain(ctx, os.Args[2:])
		stop()
		os.Exit(code)
	}
	err := command(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench-notify:", err)
		os.Exit(1)
	}
}

type options struct {
	rounds, n, interactions, rate, addresses, flood int
	idle, minute                                    time.Duration
	dir                                             string
}

func command(ctx context.Context, args []string, out io.Writer) (err error) {
	fs := flag.NewFlagSet("bench-notify", flag.ContinueOnError)
	var o options
	fs.IntVar(&o.rounds, "rounds", 3, "rounds of the times; notifier and floor take turns")
	fs.IntVar(&o.n, "n", 300, "interactions of a round, where one is told at a time; twice as many at 64")
	fs.IntVar(&o.interactions, "interactions", 10_000, "interactions while replicas are killed; 0: none")
	fs.IntVar(&o.rate, "rate", 150, "of them a second")
	fs.IntVar(&o.addresses, "addresses", 1000, "addresses of the idle notifier; 0: none")
	fs.DurationVar(&o.idle, "idle", 30*time.Second, "how long it is idle")
	fs.IntVar(&o.flood, "flood", 1000, "interactions of the flood; 0: none")
	fs.DurationVar(&o.minute, "minute", time.Minute, "how long the messages of the flood are counted")
	fs.StringVar(&o.dir, "dir", "", "`directory` for everything (default: the temp directory)")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 0 || min(o.rounds, o.n, o.rate) < 1 || min(o.interactions, o.addresses, o.flood) < 0 {
		return errors.New("want --rounds, --n and --rate of at least 1, no negative number, and nothing else")
	}
	root, err := os.MkdirTemp(o.dir, "banksman-bench-notify-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(root)) }()
	host := report.HostOf(root, "")
	fmt.Fprintf(out, "%s, %s, %d cores, %s, %s, %s. Load average %s before.\n", time.Now().UTC().Format(time.RFC3339), host.CPU, host.Cores, host.OS, host.Go,
		host.FileSystem, report.LoadAverage())
	return errors.Join(o.times(ctx, root, out), o.killing(ctx, root, out), o.idling(ctx, root, out), o.flooding(ctx, root, out))
}

// in runs do in a fresh installation.
func in(ctx context.Context, root string, d natsd.Durability, do func(*lab) error) (err error) {
	l, err := newLab(ctx, root, d)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	return do(l)
}

// warm is how many come before those that count.
const warm = 20

var loads = []int{1, 64}

func (o options) times(ctx context.Context, root string, out io.Writer) error {
	fmt.Fprint(out, "\n| event published -> provider has the request | durability | at once | p50 ms | p99 ms |\n|---|---|---|---|---|\n")
	for _, d := range []natsd.Durability{natsd.DurabilityAlways, natsd.DurabilityRelaxed} {
		rounds := map[string][]stat.Dist{}
		body := ""
		for range o.rounds {
			for _, who := range []string{partNotifier, partFloor} {
				err := in(ctx, root, d, func(l *lab) error {
					if err := o.begin(ctx, l, who, body); err != nil {
						return err
					}
					for _, at := range loads {
						if _, err := l.trips(ctx, max(warm, at), at); err != nil {
							return err
						}
						n := o.n
						if at > 1 {
							n *= 2
						}
						took, err := l.trips(ctx, n, at)
						if err != nil {
							return err
						}
						row := fmt.Sprint(who, at)
						rounds[row] = append(rounds[row], stat.DistOf(took))
					}
					t, err := l.got(ctx, 0, 0, false)
					body = t.Body
					return err
				})
				if err != nil {
					return fmt.Errorf("%s, %s: %w", who, d, err)
				}
			}
		}
		for _, who := range []string{partNotifier, partFloor} {
			for _, at := range loads {
				s := stat.OverRounds(rounds[fmt.Sprint(who, at)])
				name := "notifier, signed webhook"
				if who == partFloor {
					name = "floor: a consumer that posts the same body"
				}
				fmt.Fprintf(out, "| %s | %s | %d | %s | %s |\n", name, d, at, ms(s.P50), ms(s.P99))
			}
		}
	}
	return nil
}

func (o options) begin(ctx context.Context, l *lab, who, body string) error {
	if who == partNotifier {
		_, err := l.notifiers(ctx, 1, direct)
		return err
	}
	p, err := start(ctx, partConfig{Part: partFloor, Dir: l.dir, URL: l.provider.hello.URL, Body: body})
	if err == nil {
		l.others = append(l.others, p)
	}
	return err
}

func ms(d time.Duration) string { return fmt.Sprintf("%.2f", float64(d)/float64(time.Millisecond)) }

func (o options) killing(ctx context.Context, root string, out io.Writer) error {
	if o.interactions == 0 {
		return nil
	}
	seed := uint64(time.Now().UnixNano())
	return in(ctx, root, natsd.DurabilityAlways, func(l *lab) error {
		k, err := l.kill(ctx, o.interactions, o.rate, time.Second, rand.New(rand.NewPCG(seed, 0)))
		if err != nil {
			return fmt.Errorf("killing (seed %d): %w", seed, err)
		}
		fmt.Fprintf(out, "\nThree replicas, %d killed with kill -9 while %d interactions opened, in %v: %d missed, %d told by two messages; %d requests, %d of them a repetition under the same id.\n",
			k.Kills, k.N, k.Took.Round(time.Second), k.Missed, k.Doubled, k.Requests, k.Repeat)
		if k.Missed > 0 || k.Doubled > 0 {
			return fmt.Errorf("%d were missed and %d doubled", k.Missed, k.Doubled)
		}
		return nil
	})
}

func (o options) idling(ctx context.Context, root string, out io.Writer) error {
	if o.addresses == 0 {
		return nil
	}
	fmt.Fprintf(out, "\n| idle notifier | resident MB | processor in %v |\n|---|---|---|\n", o.idle)
	for _, c := range [][2]int{{1, 1}, {o.addresses, 1}, {o.addresses, 200}} {
		err := in(ctx, root, natsd.DurabilityAlways, func(l *lab) error {
			i, err := l.rest(ctx, c[0], c[1], o.idle)
			if err == nil {
				fmt.Fprintf(out, "| %d recipients, %d routes | %.1f | %v |\n", i.Addresses, i.Routes, float64(i.Memory)/1e6, i.CPU)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// most is how many messages a person gets in a minute who has not said otherwise.
const most = 3

func (o options) flooding(ctx context.Context, root string, out io.Writer) error {
	if o.flood == 0 {
		return nil
	}
	return in(ctx, root, natsd.DurabilityAlways, func(l *lab) error {
		n, err := l.flood(ctx, o.flood, o.minute)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "\nA flood of %d interactions of one session, two replicas: %d messages to one person in the first %v. Load average %s at the end.\n", o.flood, n, o.minute, report.LoadAverage())
		if n > most {
			return fmt.Errorf("the flood became %d messages, at most %d are right", n, most)
		}
		return nil
	})
}
