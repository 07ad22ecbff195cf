package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/banksman/banksman/cmd/banksman/bench/internal/peer"
	"github.com/banksman/banksman/cmd/banksman/bench/internal/report"
	"github.com/banksman/banksman/cmd/banksman/bench/internal/stat"
	"github.com/banksman/banksman/pkg/natsd"
)

// Options say how much is measured.
type Options struct {
	Rounds   int
	N        int   // asks per row and round at one in flight, twice as many elsewhere
	InFlight []int // how many wait at once
	Dir      string
	Cluster  bool          // rows with three servers
	Peers    bool          // rows of Redis and PostgreSQL
	People   int           // who decide one interaction at once; 0: no such rows
	Limit    time.Duration // no round begins that would probably end later; 0: none
	Logger   *slog.Logger
	Progress func(string)
}

// perFlight is how many asks a row of a round has.
func (o *Options) perFlight(k int) int {
	if k == 1 {
		return o.N
	}
	return max(2*o.N, 2*k)
}

// crowdTimes is how many interactions a crowd decides in a round.
const crowdTimes = 3

// crowdGateways are the numbers of gateways that a crowd is at.
var crowdGateways = []int{1, 3}

// line is what is measured in one go: a row for each number in flight.
type line struct {
	what, servers string
	durability    natsd.Durability
	begin         func(ctx context.Context, round int) (system, error)
}

// system is something that runs and can be asked.
type system interface {
	measure(ctx context.Context, n, inFlight int) (*sample, error)
	stop() error
}

// run is what is measured, round by round.
type run struct {
	Options
	dir    string
	floor  *floor
	peers  []*peer.Server
	lines  []line
	report *report.Report

	rows   map[rowID]*series
	crowds map[int][]crowdTurn // by gateways
	disk   []stat.Dist
}

type rowID struct{ line, inFlight int }

// series is a row over the rounds, with the floors that were measured just
// before it.
type series struct {
	rounds             []int // that gave something, ascending
	trip, show, answer []stat.Dist
	rate               []float64
	core, disk         []stat.Dist
	coreRate           []float64
	cuts               int
}

// Run measures. Everything it started has ended and what it wrote is gone when
// it returns. What failed in a row is in the report, and the other rows go on;
// an error means that there is none.
func Run(ctx context.Context, o Options) (found *report.Report, err error) {
	if o.Rounds < 1 || o.N < 1 {
		return nil, errors.New("rounds and n must be at least 1")
	}
	r := &run{Options: o, rows: map[rowID]*series{}, crowds: map[int][]crowdTurn{}}
	if r.dir, err = os.MkdirTemp(o.Dir, "banksman-bench-"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	// What runs as another user finds its own directory below, and nothing else.
	if err := os.Chmod(r.dir, 0o711); err != nil {
		return nil, err
	}
	began := time.Now()
	r.report = &report.Report{Date: began.UTC().Truncate(time.Second), N: o.N, LoadBefore: report.LoadAverage()}
	if r.floor, err = startFloor(ctx, r.dir+"/floor"); err != nil {
		return nil, err
	}
	r.report.Host = report.HostOf(r.dir, r.floor.conn.ConnectedServerVersion())
	if o.Peers {
		if err := r.startPeers(ctx); err != nil {
			return nil, err
		}
	}
	r.plan()
	for i := range o.Rounds {
		at := time.Now()
		if err := r.round(ctx, i); err != nil {
			return nil, fmt.Errorf("round %d: %w", i+1, err)
		}
		load := report.LoadAverage()
		r.report.Load = append(r.report.Load, load)
		o.Progress(fmt.Sprintf("round %d of %d took %v, load average %s", i+1, o.Rounds, time.Since(at).Round(time.Second), load))
		if o.Limit > 0 && i+1 < o.Rounds && time.Since(began)+time.Since(at) > o.Limit {
			o.Progress(fmt.Sprintf("no further round would end within %v", o.Limit))
			break
		}
	}
	r.report.Took = time.Since(began).Round(time.Second)
	r.summarize()
	return r.report, nil
}

func (r *run) stop() error {
	var errs []error
	for _, p := range r.peers {
		errs = append(errs, p.Stop())
	}
	if r.floor != nil {
		errs = append(errs, r.floor.stop())
	}
	return errors.Join(append(errs, os.RemoveAll(r.dir))...)
}

// plan lists the lines in the order of the tables.
func (r *run) plan() {
	kinds := []string{report.Embedded, report.Process}
	if r.Cluster {
		kinds = append(kinds, report.Cluster)
	}
	both := []natsd.Durability{natsd.DurabilityAlways, natsd.DurabilityRelaxed}
	for _, servers := range kinds {
		for _, what := range []string{report.WholeRoad, report.BusOnly} {
			for _, d := range both {
				r.lines = append(r.lines, line{what, servers, d, func(ctx context.Context, _ int) (system, error) {
					return startStack(ctx, r.dir, setup{what, servers, d, 1})
				}})
			}
		}
	}
	for _, d := range both {
		for _, s := range r.peers {
			r.lines = append(r.lines, line{s.Version, report.Process, d, func(ctx context.Context, round int) (system, error) {
				return startPeer(ctx, s, d, fmt.Sprintf("%d-%s", round, d))
			}})
		}
	}
}

// round measures every row once. Lines take turns with nothing else of ours at
// work, each beside floors of its own.
func (r *run) round(ctx context.Context, round int) error {
	for i, l := range r.lines {
		if err := r.failed(ctx, r.turn(ctx, round, i, l), fmt.Sprintf("%s, %s, %s", l.what, l.servers, l.durability)); err != nil {
			return err
		}
	}
	if r.People == 0 {
		return nil
	}
	for _, gateways := range crowdGateways {
		t, err := crowds(ctx, r.dir, gateways, r.People, crowdTimes)
		if err == nil {
			r.crowds[gateways] = append(r.crowds[gateways], t)
			r.report.Decisions += crowdTimes
		} else if err := r.failed(ctx, err, "crowd"); err != nil {
			return err
		}
	}
	return nil
}

// failed notes what failed in a row, unless everything is to end.
func (r *run) failed(ctx context.Context, err error, row string) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	r.report.Failures = append(r.report.Failures, fmt.Sprintf("%s: %v", row, err))
	r.Progress("FAILED: " + r.report.Failures[len(r.report.Failures)-1])
	return nil
}

func (r *run) turn(ctx context.Context, round, i int, l line) (err error) {
	sys, err := l.begin(ctx, round)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sys.stop()) }()
	for _, k := range r.InFlight {
		raw, err := fsyncs(r.dir, 100)
		if err != nil {
			return fmt.Errorf("fsync floor: %w", err)
		}
		disk := stat.DistOf(raw)
		core, coreRate, err := r.floor.measure(ctx, r.perFlight(k), k)
		if err != nil {
			return err
		}
		x, err := sys.measure(ctx, r.perFlight(k), k)
		if err != nil {
			return err
		}
		s := r.rows[rowID{i, k}]
		if s == nil {
			s = &series{}
			r.rows[rowID{i, k}] = s
		}
		s.add(x)
		s.rounds = append(s.rounds, round)
		s.core, s.coreRate = append(s.core, stat.DistOf(core)), append(s.coreRate, coreRate)
		s.disk = append(s.disk, disk)
		r.disk = append(r.disk, disk)
		r.report.Decisions += x.asked
	}
	r.Progress(fmt.Sprintf("  %s, %s, %s", l.what, l.servers, l.durability))
	return nil
}

func (s *series) add(x *sample) {
	s.trip = append(s.trip, stat.DistOf(x.trip))
	s.show = append(s.show, stat.DistOf(x.show))
	s.answer = append(s.answer, stat.DistOf(x.answer))
	s.rate = append(s.rate, x.rate)
	s.cuts += x.cuts
}

// summarize makes the report of the rounds: medians of what each round gave,
// ratios to what was measured in the same round.
func (r *run) summarize() {
	r.report.Rounds = len(r.report.Load)
	r.report.FSync = stat.OverRounds(r.disk)
	for _, k := range r.InFlight {
		var core []stat.Dist
		var rate []float64
		for i := range r.lines {
			if s := r.rows[rowID{i, k}]; s != nil {
				core, rate = append(core, s.core...), append(rate, s.coreRate...)
			}
		}
		r.report.Floor = append(r.report.Floor, report.FloorRow{InFlight: k, Trip: stat.OverRounds(core), Rate: stat.Median(rate)})
	}
	for i, l := range r.lines {
		for _, k := range r.InFlight {
			if s := r.rows[rowID{i, k}]; s != nil {
				r.report.Rows = append(r.report.Rows, s.row(l, k))
			}
		}
	}
	r.compare()
	if r.People > 0 {
		for _, g := range crowdGateways {
			if r.crowds[g] == nil {
				continue
			}
			r.report.Crowds = append(r.report.Crowds, crowdRow(g, r.People, r.crowds[g]))
		}
	}
	r.report.Judge()
}

func (s *series) row(l line, inFlight int) report.Row {
	var core, disk []float64
	for i, d := range s.trip {
		core = append(core, float64(d.P50)/float64(s.core[i].P50))
		disk = append(disk, float64(d.P50)/float64(s.core[i].P50+2*s.disk[i].P50))
	}
	return report.Row{
		What: l.what, Servers: l.servers, Durability: string(l.durability), InFlight: inFlight,
		Trip: stat.OverRounds(s.trip), Show: stat.OverRounds(s.show), Answer: stat.OverRounds(s.answer),
		Rate: stat.Median(s.rate), Cuts: s.cuts, ToFloor: stat.Median(core), ToFloorAndDisk: stat.Median(disk),
	}
}

// compare holds the bus against each peer of the same process split and the
// same durability.
func (r *run) compare() {
	for i, ours := range r.lines {
		if ours.what != report.BusOnly || ours.servers != report.Process {
			continue
		}
		for j, theirs := range r.lines {
			if theirs.what == report.BusOnly || theirs.what == report.WholeRoad || theirs.durability != ours.durability {
				continue
			}
			for _, k := range r.InFlight {
				p50, rate := r.rows[rowID{i, k}].to(r.rows[rowID{j, k}])
				if len(p50) == 0 {
					continue
				}
				r.report.Peers = append(r.report.Peers, report.PeerRow{
					Peer: theirs.what, Durability: string(ours.durability), InFlight: k,
					P50: stat.Median(p50), Rate: stat.Median(rate),
				})
			}
		}
	}
}

// to divides a row by another, round by round.
func (s *series) to(o *series) (p50, rate []float64) {
	if s == nil || o == nil {
		return nil, nil
	}
	for i, round := range s.rounds {
		if j := slices.Index(o.rounds, round); j >= 0 {
			p50 = append(p50, float64(s.trip[i].P50)/float64(o.trip[j].P50))
			rate = append(rate, s.rate[i]/o.rate[j])
		}
	}
	return p50, rate
}
