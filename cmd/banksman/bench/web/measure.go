package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/banksman/banksman/cmd/banksman/bench/web/internal/herd"

	"github.com/banksman/banksman/cmd/banksman/bench/internal/proc"
	"github.com/banksman/banksman/cmd/banksman/bench/internal/stat"
)

// pair is the product and the floor beside it, with as many sockets each.
type pair struct {
	n     int
	site  *site
	floor *proc.Process
	at    hello // of the floor
	// The clients of each, a process each.
	ours, theirs *proc.Process
	tag          int
	bytes        int // of the product's last frame
}

// size is one round of a number of sockets. Figures of the product come before
// those of the floor.
type size struct {
	n          int
	rss        [2]float64 // bytes a socket
	goroutines [2]float64
	rate, p99  [2]float64 // deliveries/s; ms
	p50        [2]float64
	cpu        [2]float64 // us of the server's processor time a delivery
	burst      [2]float64 // deliveries/s
	writes     float64    // messages a socket, of a burst of the product
	bytes      int
	// Of the others, ms, beside one that reads and beside one that stalls.
	beside  [2]float64
	cut     time.Duration
	storm   herd.Word
	checked int // deliveries that were counted, none lost and none doubled
}

func call[T any](ctx context.Context, p *proc.Process, job any) (T, error) {
	var out T
	err := p.Call(ctx, job, &out)
	return out, err
}

func tell(ctx context.Context, p *proc.Process, j herd.Job) (herd.Word, error) {
	w, err := call[herd.Word](ctx, p, j)
	if err == nil && w.Error != "" {
		err = fmt.Errorf("%s: %s", j.Op, w.Error)
	}
	return w, err
}

func startPair(ctx context.Context, dir string, n int) (p *pair, err error) {
	p = &pair{n: n}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.stop())
		}
	}()
	if p.site, err = startSite(ctx, dir, n); err != nil {
		return p, err
	}
	if p.floor, err = proc.Start(ctx, partFloor, []string{partWord, partFloor, "-"}, &p.at); err != nil {
		return p, err
	}
	for _, load := range []**proc.Process{&p.ours, &p.theirs} {
		var none hello
		if *load, err = proc.Start(ctx, partLoad, []string{partWord, partLoad, "-"}, &none); err != nil {
			return p, err
		}
	}
	return p, nil
}

func (p *pair) stop() error {
	err := errors.Join(p.ours.Stop(), p.theirs.Stop(), p.floor.Stop())
	if p.site != nil {
		err = errors.Join(err, p.site.close())
	}
	return err
}

// idle opens the sockets and says what each costs at rest.
func (p *pair) idle(ctx context.Context, out *size) error {
	servers := []*proc.Process{p.site.gateway, p.floor}
	for i, job := range []herd.Job{
		{Op: "open", Addr: p.site.hello.Addr, Tokens: p.site.tokens(p.n)},
		{Op: "open", Addr: p.at.Addr, Raw: true, Tokens: make([]string, p.n)},
	} {
		before, err := call[use](ctx, servers[i], serverJob{})
		if err != nil {
			return err
		}
		if _, err := tell(ctx, []*proc.Process{p.ours, p.theirs}[i], job); err != nil {
			return err
		}
		after, err := p.calm(ctx, servers[i], before.Goroutines+p.n)
		if err != nil {
			return err
		}
		out.rss[i] = float64(after.RSS-before.RSS) / float64(p.n)
		out.goroutines[i] = float64(after.Goroutines-before.Goroutines) / float64(p.n)
	}
	return nil
}

// calm waits until a server has no more goroutines than that, give or take some
// that come and go, and returns what it uses then.
func (p *pair) calm(ctx context.Context, server *proc.Process, goroutines int) (use, error) {
	end := time.Now().Add(10 * time.Second)
	for {
		u, err := call[use](ctx, server, serverJob{})
		if err != nil || u.Goroutines <= goroutines+20 || time.Now().After(end) {
			return u, err
		}
		select {
		case <-ctx.Done():
			return u, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// events are some events, one after the other, as the clients had them.
type events struct {
	samples []float64 // ms
	rates   []float64
	writes  int
	checked int
}

// take adds what one turn gave. One that is lost or doubled fails the run.
func (e *events) take(w herd.Word, n, count int) error {
	if w.Missing != 0 || w.Doubled != 0 {
		return fmt.Errorf("of %d events to %d sockets %d were lost and %d doubled", count, n, w.Missing, w.Doubled)
	}
	for _, s := range w.Samples {
		e.samples = append(e.samples, float64(s)/1e6)
	}
	e.rates = append(e.rates, float64(n*count)/(float64(w.Last-w.First)/1e9))
	e.writes += w.Writes
	e.checked += n * count
	return nil
}

// turn is one event, or a burst of count, at the product or at the floor.
func (p *pair) turn(ctx context.Context, floor bool, count int, e *events) error {
	p.tag++
	tag := fmt.Sprintf("e%d", p.tag)
	load := p.ours
	if floor {
		load = p.theirs
	}
	if _, err := tell(ctx, load, herd.Job{Op: "arm", Tag: tag, Count: count}); err != nil {
		return err
	}
	if floor {
		if _, err := call[use](ctx, p.floor, serverJob{Tag: tag, Count: count, Bytes: p.bytes}); err != nil {
			return err
		}
	} else if err := p.publish(ctx, tag, count); err != nil {
		return err
	}
	w, err := tell(ctx, load, herd.Job{Op: "wait"})
	if err != nil {
		return err
	}
	if !floor && count == 1 {
		p.bytes = w.Bytes
	}
	return e.take(w, p.n, count)
}

// padding makes a frame about eachBytes long.
const padding = 350

func (p *pair) publish(ctx context.Context, tag string, count int) error {
	errs := make([]error, count)
	var wg sync.WaitGroup
	for i := range count {
		wg.Go(func() { errs[i] = p.site.publish(ctx, i, tag, padding) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// fan measures single events and bursts, the product and the floor in turns.
func (p *pair) fan(ctx context.Context, out *size, times, bursts int) error {
	var single, burst [2]events
	if err := p.turn(ctx, false, 1, &events{}); err != nil { // warms up, and tells the size
		return err
	}
	servers := [2]*proc.Process{p.site.gateway, p.floor}
	var cpu [2]int64 // ns, of the single events
	for i := range times + bursts {
		for k := range 2 {
			before, err := call[use](ctx, servers[k], serverJob{Spent: true})
			if err != nil {
				return err
			}
			count, e := 1, &single[k]
			if i >= times {
				count, e = sessions, &burst[k]
			}
			if err := p.turn(ctx, k == 1, count, e); err != nil {
				return err
			}
			after, err := call[use](ctx, servers[k], serverJob{Spent: true})
			if err != nil {
				return err
			}
			if i < times {
				cpu[k] += after.CPU - before.CPU
			}
		}
	}
	for k := range 2 {
		out.rate[k] = stat.Median(single[k].rates)
		out.p50[k], out.p99[k] = stat.Median(single[k].samples), stat.Quantile(single[k].samples, 0.99)
		out.cpu[k] = float64(cpu[k]) / 1e3 / float64(times*p.n)
		out.burst[k] = stat.Median(burst[k].rates)
		out.checked += single[k].checked + burst[k].checked
	}
	if bursts > 0 {
		out.writes = float64(burst[0].writes) / float64(bursts*p.n)
	}
	out.bytes = p.bytes
	return nil
}

// besideOne measures events while one more socket follows a busy session: one
// that reads, and then one that stalls.
func (p *pair) besideOne(ctx context.Context, out *size, times int) error {
	for i, reads := range []bool{true, false} {
		job := herd.Job{Op: "stall", Addr: p.site.hello.Addr, Tokens: []string{p.site.hello.Token}, Session: "default." + owner + "." + busy, Reads: reads}
		if _, err := tell(ctx, p.ours, job); err != nil {
			return err
		}
		feeding, stop := context.WithCancel(ctx)
		fed := make(chan error, 1)
		go func() { fed <- p.site.feed(feeding) }()
		var e events
		var err error
		for range times {
			if err = p.turn(ctx, false, 1, &e); err != nil {
				break
			}
		}
		w, cutErr := tell(ctx, p.ours, herd.Job{Op: "cut"})
		stop()
		if err := errors.Join(err, cutErr, <-fed); err != nil {
			return err
		}
		out.beside[i] = stat.Quantile(e.samples, 0.99)
		out.checked += e.checked
		out.cut = time.Duration(w.Took)
	}
	return nil
}

// waiting is how many interactions everybody has to hear of after a storm.
const waiting = 5

// storm cuts everybody off, asks, and lets everybody come back at once.
func (p *pair) storm(ctx context.Context, out *size) error {
	if _, err := tell(ctx, p.ours, herd.Job{Op: "drop"}); err != nil {
		return err
	}
	if _, err := p.calm(ctx, p.site.gateway, p.n/10); err != nil {
		return err
	}
	var keys []string
	for i := range waiting {
		a, err := p.site.ask(ctx, fmt.Sprintf("storm-%d", i), fmt.Sprintf("storm-%d", i), true)
		if err != nil {
			return err
		}
		defer a.end()
		keys = append(keys, a.ref)
	}
	var err error
	if out.storm, err = tell(ctx, p.ours, herd.Job{Op: "storm", Keys: keys}); err != nil {
		return err
	}
	if s := out.storm; s.Missing != 0 {
		return fmt.Errorf("after a storm %d interactions were not shown", s.Missing)
	}
	out.checked += p.n * waiting
	var after events
	if err := p.turn(ctx, false, 1, &after); err != nil {
		return fmt.Errorf("after the storm: %w", err)
	}
	out.checked += after.checked
	return nil
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// median is the middle of one figure of the rounds.
func median(rounds []size, get func(size) float64) float64 {
	var all []float64
	for _, r := range rounds {
		all = append(all, get(r))
	}
	slices.Sort(all)
	return stat.Median(all)
}
