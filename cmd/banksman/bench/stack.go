package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/natsd"
)

// Processes of a stack.
const (
	separate = "separate"   // server, gateway, asker: one process each, TCP between them
	oneAll   = "all-in-one" // the three in one process, memory between them; as banksman up has it
)

// stack is the product, in one of the ways it runs.
type stack struct {
	processes     string
	durability    natsd.Durability
	dir           string
	server, front *process    // front has the gateway; server is nil in one process
	asker         *bus.Client // nil in one process
	asked         int
	conn          *nats.Conn // with a gateway's rights, to look into the record
	records       *journal.JetStream
}

func startStack(ctx context.Context, dir string, d natsd.Durability, processes string) (s *stack, err error) {
	s = &stack{processes: processes, durability: d, dir: filepath.Join(dir, string(d)+"-"+processes)}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s, %s: %w", processes, d, errors.Join(err, s.stop()))
		}
	}()
	if processes == oneAll {
		if s.front, err = start(ctx, partConfig{Part: partWhole, Dir: s.dir, Durability: d}); err != nil {
			return s, err
		}
	} else {
		if s.server, err = start(ctx, partConfig{Part: partServer, Dir: s.dir, Durability: d}); err != nil {
			return s, err
		}
		if s.front, err = start(ctx, partConfig{Part: partGateway, Dir: s.dir}); err != nil {
			return s, err
		}
		if s.asker, err = connectOwner(ctx, s.dir, nil); err != nil {
			return s, err
		}
	}
	c, err := credentials(s.dir, bus.RoleGateway)
	if err != nil {
		return s, err
	}
	auth, err := c.Auth()
	if err != nil {
		return s, err
	}
	if s.conn, err = nats.Connect(c.URLs[0], auth); err != nil {
		return s, err
	}
	s.records = journal.New(s.conn, journal.Options{Keys: c.PublicDecisionKeys()})
	return s, nil
}

func (s *stack) stop() error {
	if s.asker != nil {
		s.asker.Close()
	}
	if s.conn != nil {
		s.conn.Close()
	}
	return errors.Join(s.front.stop(), s.server.stop())
}

// sample is what one row of one round gave.
type sample struct {
	trip, show, answer []time.Duration
	rate               float64
	cuts               int // sockets that were cut as too slow
}

// measure asks n times, so many at once, and checks that each ask got its one
// decision. What warms up is not in the sample.
func (s *stack) measure(ctx context.Context, n, inFlight int) (*sample, error) {
	var all sample
	var busy time.Duration
	for left := n; left > 0; {
		took, m, err := s.batch(ctx, left, inFlight)
		if err != nil {
			return nil, fmt.Errorf("%s, %s, %d in flight: %w", s.processes, s.durability, inFlight, err)
		}
		left -= m
		busy += took.busy
		all.cuts += took.cuts
		all.trip = append(all.trip, took.trip...)
		all.show = append(all.show, took.show...)
		all.answer = append(all.answer, took.answer...)
	}
	all.rate = float64(n) / busy.Seconds()
	return &all, nil
}

type batch struct {
	sample
	busy time.Duration
}

// batch is as much of n as fresh sockets may answer without being slowed down.
func (s *stack) batch(ctx context.Context, n, inFlight int) (b batch, m int, err error) {
	sockets := min((inFlight+socketSlots-1)/socketSlots, maxSockets)
	warm := max(10, inFlight)
	m = min(n, sockets*answersPerSocket-warm)
	rs, err := openReaders(ctx, s.front.hello.Addr, s.front.hello.Token, sockets)
	if err != nil {
		return b, 0, err
	}
	defer rs.close()
	j := job{InFlight: inFlight, Shards: sockets}
	var asks []timing
	for _, j.N = range []int{warm, m} {
		j.Name = fmt.Sprintf("job%d", s.asked)
		s.asked += j.N
		if asks, err = s.ask(ctx, j); err != nil {
			return b, 0, err
		}
		// What comes after a decision ends before the next figures begin.
		err = errors.Join(rs.settled(ctx, answered(asks)), rs.check(asks))
		if err == nil {
			err = s.idle(ctx)
		}
		if err != nil {
			return b, 0, err
		}
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	sights := rs.sights
	b.cuts = rs.cuts
	first, last := asks[0].Start, asks[0].End
	for _, t := range asks {
		first, last = min(first, t.Start), max(last, t.End)
		at := sights[t.Key]
		b.trip = append(b.trip, t.Took)
		if at.answered == 0 || at.again {
			continue // a cut came between
		}
		b.show = append(b.show, time.Duration(at.seen-t.Start))
		b.answer = append(b.answer, time.Duration(t.End-at.answered))
	}
	b.busy = time.Duration(last - first)
	return b, m, nil
}

func answered(asks []timing) []timing {
	var out []timing
	for _, t := range asks {
		if t.Err == "" {
			out = append(out, t)
		}
	}
	return out
}

func (s *stack) ask(ctx context.Context, j job) ([]timing, error) {
	if s.asker == nil {
		return s.front.run(ctx, j)
	}
	return askAll(ctx, s.asker, j), nil
}

// idle waits until the gateway has nothing left to do, and counts the record.
func (s *stack) idle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	for {
		pos, err := s.records.Position(ctx, journal.Decisions)
		if err != nil {
			return err
		}
		if pos.Last != uint64(s.asked) {
			return fmt.Errorf("the record has %d decisions of %d asks", pos.Last, s.asked)
		}
		requests, err := s.records.Position(ctx, journal.Requests)
		if err != nil {
			return err
		}
		intake, swept, err := s.records.Floors(ctx)
		if err != nil {
			return err
		}
		if intake == requests.Last && swept == pos.Last {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the gateway has not swept %d decisions: %w", pos.Last-swept, ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}
