// Command lifecycle measures what a start costs: it makes a store with many
// open interactions and then many settled ones on top, and starts the real
// server and the real gateway on it. docs/benchmarks.md explains the figures.
// No time makes it fail; a wrong number of open interactions does.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "lifecycle:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string) (err error) {
	fs := flag.NewFlagSet("lifecycle", flag.ContinueOnError)
	var o options
	fs.IntVar(&o.open, "open", 100_000, "open interactions")
	fs.IntVar(&o.settled, "settled", 1_000_000, "settled interactions on top; measured without and with them")
	fs.IntVar(&o.rounds, "rounds", 3, "starts of the gateway in each case; the median counts")
	dir := fs.String("dir", "", "`directory` for the store (default: the temp directory); a million takes some 10 GB")
	keep := fs.String("store", "", "make the store here and keep it, or use the one that is here")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 0 || o.open < 1 || o.settled < 0 || o.rounds < 1 {
		return errors.New("want --open and --rounds of at least 1, --settled of at least 0, and nothing else")
	}
	work, err := os.MkdirTemp(*dir, "banksman-lifecycle-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	o.bin, o.data = filepath.Join(work, "bin"), filepath.Join(work, "data")
	if *keep != "" {
		if o.data, err = filepath.Abs(*keep); err != nil {
			return err
		}
	}
	if err := build(ctx, o.bin); err != nil {
		return err
	}
	rows, err := measure(ctx, o)
	for _, r := range rows {
		r.print(os.Stdout)
	}
	return err
}
