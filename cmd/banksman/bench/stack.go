package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/banksman/banksman/cmd/banksman/bench/internal/report"
	"github.com/banksman/banksman/cmd/banksman/bench/internal/road"
	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/natsd"
)

// setup is one way the product runs.
type setup struct {
	road, servers string
	durability    natsd.Durability
	gateways      int // of the whole road; 1 but for a crowd
}

// stack is the product, running.
type stack struct {
	setup
	dir     string
	procs   []*process // in the order of their start
	fronts  []*process // the gateways among them
	jobs    *process   // asks, where the asker is not here
	asker   *bus.Client
	conn    *nats.Conn // with a gateway's rights, to look into the record
	records *journal.JetStream
	asked   int
}

// startStack runs a stack on fresh streams, below dir.
func startStack(ctx context.Context, dir string, c setup) (s *stack, err error) {
	s = &stack{setup: c}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s, %s, %s: %w", c.road, c.servers, c.durability, errors.Join(err, s.stop()))
		}
	}()
	if s.dir, err = os.MkdirTemp(dir, "stack-"); err != nil {
		return s, err
	}
	if err := s.startParts(ctx); err != nil {
		return s, err
	}
	cred, err := credentials(s.dir, bus.RoleGateway)
	if err != nil {
		return s, err
	}
	auth, err := cred.Auth()
	if err != nil {
		return s, err
	}
	if s.conn, err = nats.Connect(cred.URLs[0], auth); err != nil {
		return s, err
	}
	s.records = journal.New(s.conn, journal.Options{Keys: cred.PublicDecisionKeys()})
	return s, nil
}

func (s *stack) startParts(ctx context.Context) error {
	one := func(cfg partConfig) (*process, error) {
		cfg.Dir, cfg.Durability = s.dir, s.durability
		p, err := start(ctx, cfg)
		if err == nil {
			s.procs = append(s.procs, p)
		}
		return p, err
	}
	whole, front := partWhole, partGateway
	if s.road == report.BusOnly {
		whole, front = partBus, partDecider
	}
	switch s.servers {
	case report.Embedded:
		p, err := one(partConfig{Part: whole})
		if err != nil {
			return err
		}
		s.fronts, s.jobs = []*process{p}, p
		return nil
	case report.Cluster:
		procs, err := startCluster(ctx, s.dir, s.durability)
		s.procs = procs
		if err != nil {
			return err
		}
	default:
		if _, err := one(partConfig{Part: partServer}); err != nil {
			return err
		}
	}
	for range s.gateways {
		p, err := one(partConfig{Part: front})
		if err != nil {
			return err
		}
		s.fronts = append(s.fronts, p)
	}
	var err error
	s.asker, err = connectOwner(ctx, s.dir, nil)
	return err
}

// stop ends everything and removes the streams.
func (s *stack) stop() error {
	if s.asker != nil {
		s.asker.Close()
	}
	if s.conn != nil {
		s.conn.Close()
	}
	var errs []error
	for _, p := range slices.Backward(s.procs) {
		errs = append(errs, p.stop())
	}
	if s.dir != "" {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	return errors.Join(errs...)
}

// sample is what one row of one round gave.
type sample struct {
	trip, show, answer []time.Duration
	rate               float64
	asked              int
	cuts               int // sockets that were cut as too slow
}

// warmUp is how many asks come before those that count.
func warmUp(inFlight int) int { return min(max(20, inFlight), 256) }

// measure asks n times, so many at once, and checks that each ask got its one
// decision. What warms up is not in the sample.
func (s *stack) measure(ctx context.Context, n, inFlight int) (all *sample, err error) {
	all = &sample{}
	before := s.asked
	var busy time.Duration
	for left := n; left > 0; {
		b, m, err := s.batch(ctx, left, inFlight)
		if err != nil {
			return nil, fmt.Errorf("%s, %s, %s, %d in flight: %w", s.road, s.servers, s.durability, inFlight, err)
		}
		left -= m
		busy += b.busy
		all.cuts += b.cuts
		all.trip = append(all.trip, b.trip...)
		all.show = append(all.show, b.show...)
		all.answer = append(all.answer, b.answer...)
	}
	all.rate = float64(n) / busy.Seconds()
	all.asked = s.asked - before
	return all, nil
}

type batch struct {
	sample
	busy time.Duration
}

// batch is as much of n as fresh sockets may answer without being slowed down.
func (s *stack) batch(ctx context.Context, n, inFlight int) (b batch, m int, err error) {
	warm := warmUp(inFlight)
	j := road.Job{InFlight: inFlight, Shards: 1}
	var rs *road.Readers
	if m = n; s.road == report.WholeRoad {
		j.Shards = min((inFlight+road.SocketSlots-1)/road.SocketSlots, road.MaxSockets)
		m = min(n, j.Shards*road.AnswersPerSocket-warm)
		if rs, err = road.Open(ctx, s.fronts[0].hello.Addr, s.fronts[0].hello.Token, j.Shards); err != nil {
			return b, 0, err
		}
		defer rs.Close()
	}
	var asks []road.Timing
	for _, j.N = range []int{warm, m} {
		j.Name = fmt.Sprintf("job%d", s.asked)
		s.asked += j.N
		if asks, err = s.ask(ctx, j); err != nil {
			return b, 0, err
		}
		// What comes after a decision ends before the next figures begin.
		if rs == nil {
			err = road.Check(asks)
		} else {
			err = errors.Join(rs.Settled(ctx, answered(asks)), rs.Check(asks))
		}
		if err == nil {
			err = s.idle(ctx)
		}
		if err != nil {
			return b, 0, err
		}
	}
	var sights map[string]road.Sight
	if rs != nil {
		sights, b.cuts = rs.Seen()
	}
	first, last := asks[0].Start, asks[0].End
	for _, t := range asks {
		first, last = min(first, t.Start), max(last, t.End)
		at := sights[t.Key]
		b.trip = append(b.trip, t.Took)
		if at.Answered == 0 || at.Again {
			continue // nobody to see it, or a cut came between
		}
		b.show = append(b.show, time.Duration(at.Seen-t.Start))
		b.answer = append(b.answer, time.Duration(t.End-at.Answered))
	}
	b.busy = time.Duration(last - first)
	return b, m, nil
}

func answered(asks []road.Timing) []road.Timing {
	var out []road.Timing
	for _, t := range asks {
		if t.Err == "" {
			out = append(out, t)
		}
	}
	return out
}

func (s *stack) ask(ctx context.Context, j road.Job) ([]road.Timing, error) {
	if s.jobs != nil {
		return s.jobs.run(ctx, j)
	}
	return road.AskAll(ctx, s.asker, j), nil
}

// idle waits until nothing is left to do, and counts the record.
func (s *stack) idle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, road.SettleLimit)
	defer cancel()
	for {
		pos, err := s.records.Position(ctx, journal.Decisions)
		if err != nil {
			return err
		}
		if pos.Last != uint64(s.asked) {
			return fmt.Errorf("the record has %d decisions of %d asks", pos.Last, s.asked)
		}
		done, err := s.quiet(ctx, pos.Last)
		if err != nil || done {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not everything that follows the decisions was done: %w", ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// quiet reports whether everything is taken in and what follows the decisions
// is done.
func (s *stack) quiet(ctx context.Context, decisions uint64) (bool, error) {
	requests, err := s.records.Position(ctx, journal.Requests)
	if err != nil {
		return false, err
	}
	intake, swept, err := s.records.Floors(ctx)
	if s.road == report.BusOnly { // nobody sweeps
		swept = decisions
	}
	return intake == requests.Last && swept == decisions, err
}
