// Command banksman-gateway is the gateway as a process of its own.
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

	"github.com/banksman/banksman/services/gateway"
)

// startLimit bounds connecting and checking the streams.
const startLimit = time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "banksman-gateway:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	o, link, err := parse(args, os.Stderr)
	if err != nil {
		return err
	}
	start, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	g, err := gateway.New(start, o)
	if err != nil {
		return err
	}
	if link {
		url, err := g.Login(start)
		if err != nil {
			return err
		}
		fmt.Println(url)
	}
	return g.Run(ctx)
}
