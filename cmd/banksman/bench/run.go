package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/banksman/banksman/pkg/natsd"
)

// Options say how much is measured.
type Options struct {
	Rounds   int
	N        int   // asks per row and round at one in flight, twice as many elsewhere
	InFlight []int // how many wait at once
	Dir      string
	Logger   *slog.Logger
	Progress func(string)
}

// perFlight is how many asks a row of a round has.
func (o *Options) perFlight(k int) int {
	if k == 1 {
		return o.N
	}
	return max(2*o.N, 4*k)
}

// run is what is measured, round by round.
type run struct {
	Options
	dir    string
	floor  *floor
	stacks []*stack
	report *Report

	core map[int]*series // of the floor, by asks in flight
	rows map[*stack]map[int]*series
	disk []Dist
}

// series is a row over the rounds.
type series struct {
	trip, show, answer []Dist
	rate               []float64
	cuts               int
}

func (s *series) add(x *sample) {
	s.trip = append(s.trip, distOf(x.trip))
	s.show = append(s.show, distOf(x.show))
	s.answer = append(s.answer, distOf(x.answer))
	s.rate = append(s.rate, x.rate)
	s.cuts += x.cuts
}

// Run measures. Everything it started has ended and what it wrote is gone when
// it returns. An error means that a decision was lost or doubled, or that the
// product did not work.
func Run(ctx context.Context, o Options) (report *Report, err error) {
	if o.Rounds < 1 || o.N < 1 {
		return nil, errors.New("rounds and n must be at least 1")
	}
	r := &run{Options: o, core: map[int]*series{}, rows: map[*stack]map[int]*series{}}
	if r.dir, err = os.MkdirTemp(o.Dir, "banksman-bench-"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	r.report = &Report{Date: time.Now().UTC().Truncate(time.Second), Rounds: o.Rounds, N: o.N, LoadBefore: loadAverage()}
	if r.floor, err = startFloor(ctx, r.dir+"/floor"); err != nil {
		return nil, err
	}
	r.report.Host = hostOf(r.dir, r.floor.conn.ConnectedServerVersion())
	for _, d := range []natsd.Durability{natsd.DurabilityAlways, natsd.DurabilityRelaxed} {
		for _, p := range []string{separate, oneAll} {
			s, err := startStack(ctx, r.dir, d, p)
			if err != nil {
				return nil, err
			}
			r.stacks = append(r.stacks, s)
			r.rows[s] = map[int]*series{}
		}
	}
	for i := range o.Rounds {
		if err := r.round(ctx); err != nil {
			return nil, fmt.Errorf("round %d: %w", i+1, err)
		}
		load := loadAverage()
		r.report.Load = append(r.report.Load, load)
		o.Progress(fmt.Sprintf("round %d of %d, load average %s", i+1, o.Rounds, load))
	}
	r.summarize()
	return r.report, nil
}

func (r *run) stop() error {
	var errs []error
	for _, s := range r.stacks {
		errs = append(errs, s.stop())
	}
	if r.floor != nil {
		errs = append(errs, r.floor.stop())
	}
	return errors.Join(append(errs, os.RemoveAll(r.dir))...)
}

// round measures every row once, with the floor first.
func (r *run) round(ctx context.Context) error {
	disk, err := fsyncs(r.dir, 100)
	if err != nil {
		return fmt.Errorf("fsync floor: %w", err)
	}
	r.disk = append(r.disk, distOf(disk))
	for _, k := range r.InFlight {
		took, rate, err := r.floor.measure(ctx, r.perFlight(k), k)
		if err != nil {
			return err
		}
		seriesOf(r.core, k).add(&sample{trip: took, rate: rate})
		for _, s := range r.stacks {
			x, err := s.measure(ctx, r.perFlight(k), k)
			if err != nil {
				return err
			}
			seriesOf(r.rows[s], k).add(x)
		}
	}
	return nil
}

func seriesOf(m map[int]*series, k int) *series {
	if m[k] == nil {
		m[k] = &series{}
	}
	return m[k]
}

// summarize makes the report of the rounds: medians of what each round gave,
// ratios to the floor of the same round.
func (r *run) summarize() {
	r.report.FSync = overRounds(r.disk)
	for _, k := range r.InFlight {
		c := r.core[k]
		r.report.Floor = append(r.report.Floor, FloorRow{InFlight: k, Trip: overRounds(c.trip), Rate: median(c.rate)})
	}
	for _, s := range r.stacks {
		for _, k := range r.InFlight {
			x := r.rows[s][k]
			var core, disk []float64
			for i, d := range x.trip {
				floor := r.core[k].trip[i].P50
				core = append(core, float64(d.P50)/float64(floor))
				disk = append(disk, float64(d.P50)/float64(floor+2*r.disk[i].P50))
			}
			row := Row{
				Durability: string(s.durability), Processes: s.processes, InFlight: k, Trip: overRounds(x.trip),
				Show: overRounds(x.show), Answer: overRounds(x.answer), Rate: median(x.rate),
				Cuts: x.cuts, ToFloor: median(core), ToFloorAndDisk: median(disk),
			}
			r.report.Rows = append(r.report.Rows, row)
			if k == 1 {
				r.report.Goals = append(r.report.Goals, goals(row)...)
			}
		}
	}
	r.report.Decisions = 0
	for _, s := range r.stacks {
		r.report.Decisions += s.asked
	}
}
