package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/banksman/banksman/cmd/banksman/bench/internal/road"
)

const (
	echoSubject = "bench.echo"
	replyBytes  = 120
	tripsLimit  = 2 * time.Minute
)

// floor is bare request-reply: this process, a server without accounts in
// another one, and who replies in a third.
type floor struct {
	server, echo *process
	conn         *nats.Conn
}

func startFloor(ctx context.Context, dir string) (*floor, error) {
	f := &floor{}
	var err error
	if f.server, err = start(ctx, partConfig{Part: partBare, Dir: dir}); err != nil {
		return nil, err
	}
	if f.echo, err = start(ctx, partConfig{Part: partEcho, URL: f.server.hello.URL}); err != nil {
		return nil, errors.Join(err, f.stop())
	}
	if f.conn, err = nats.Connect(f.server.hello.URL); err != nil {
		return nil, errors.Join(fmt.Errorf("floor: %w", err), f.stop())
	}
	return f, nil
}

func (f *floor) stop() error {
	if f.conn != nil {
		f.conn.Close()
	}
	return errors.Join(f.echo.stop(), f.server.stop())
}

// measure makes n round trips, so many at once, after some to warm up.
func (f *floor) measure(ctx context.Context, n, inFlight int) (took []time.Duration, rate float64, err error) {
	body := make([]byte, road.Bytes)
	trip := func(ctx context.Context, _ int) error {
		m, err := f.conn.RequestWithContext(ctx, echoSubject, body)
		if err == nil && len(m.Data) != replyBytes {
			err = errors.New("another reply than expected")
		}
		return err
	}
	if _, _, err := trips(ctx, warmUp(inFlight), inFlight, trip); err != nil {
		return nil, 0, fmt.Errorf("floor: %w", err)
	}
	if took, rate, err = trips(ctx, n, inFlight, trip); err != nil {
		return nil, 0, fmt.Errorf("floor: %w", err)
	}
	return took, rate, nil
}

// trips calls trip n times, so many at once, each with a number of its own.
func trips(ctx context.Context, n, inFlight int, trip func(context.Context, int) error) ([]time.Duration, float64, error) {
	ctx, cancel := context.WithTimeout(ctx, tripsLimit)
	defer cancel()
	took := make([]time.Duration, n)
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, inFlight)
	began := time.Now()
	for k := range inFlight {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				at := time.Now()
				if err := trip(ctx, int(i)); err != nil {
					errs[k] = err
					cancel()
					return
				}
				took[i] = time.Since(at)
			}
		})
	}
	wg.Wait()
	return took, float64(n) / time.Since(began).Seconds(), errors.Join(errs...)
}

// fsyncs is how long it takes to append 1 KiB to a file below dir and have it
// on the disk, n times.
func fsyncs(dir string, n int) (took []time.Duration, err error) {
	f, err := os.OpenFile(filepath.Join(dir, "fsync"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	body := make([]byte, road.Bytes)
	for range n {
		at := time.Now()
		if _, err := f.Write(body); err != nil {
			return nil, err
		}
		if err := f.Sync(); err != nil {
			return nil, err
		}
		took = append(took, time.Since(at))
	}
	return took, nil
}
