package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/banksman/banksman/cmd/banksman/soak/internal/proof"
	"github.com/banksman/banksman/cmd/banksman/soak/internal/rig"

	"github.com/banksman/banksman/pkg/natsd"
)

// Options say how much is done, and what goes wrong meanwhile.
type Options struct {
	Seed         uint64
	Interactions int
	Concurrency  int           // interactions at one time
	Every        time.Duration // the mean time between two faults; 0: none
	Pause        bool          // some faults pause a process instead
	Durability   natsd.Durability
	Dir          string // for the servers' files; default the temp directory
	Logger       *slog.Logger
	Progress     func(string)

	orphanAfter time.Duration // in tests: another one than the promised
}

// clockSlack is how far the machine's clock may move against a steady one: the
// histories are ordered by it.
const clockSlack = 100 * time.Millisecond

// Run soaks. The report has what was found; its Errors are what must not be.
// The error is for a run that proves nothing, because it could not be made.
// Everything it started has ended when it returns; the files stay where
// something was found.
func Run(ctx context.Context, o Options) (rep *Report, err error) {
	if o.Interactions < 1 || o.Concurrency < 1 {
		return nil, errors.New("interactions and concurrency must be at least 1")
	}
	dir, err := os.MkdirTemp(o.Dir, "banksman-soak-")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err == nil && len(rep.Errors) == 0 {
			err = os.RemoveAll(dir)
		}
	}()
	rep = &Report{Options: o, Began: time.Now(), Dir: dir, Commit: commit(), Counts: newCounters()}
	o.Progress(fmt.Sprintf("seed %d, %d interactions, files in %s", o.Seed, o.Interactions, dir))
	c, err := rig.Start(ctx, dir, o.Durability, cmp.Or(o.orphanAfter, rig.OrphanAfter), o.Logger)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	p, err := openProduct(ctx, c, o.Logger)
	if err != nil {
		return nil, err
	}
	defer p.close()
	rep.Server = c.Conn.ConnectedServerVersion()

	w := &workload{seed: o.Seed, site: p, h: proof.NewHistory(), counts: rep.Counts}
	watch := newWatcher(p, w.h, rep.Counts, w.wrong)
	w.told = func(g int, key string, at int64) { watch.tell(g, key, at) }
	events := follow(ctx, c.Journal)
	defer events.stop()
	begin := time.Now()
	if err := work(ctx, o, c, w, watch); err != nil {
		return nil, err
	}
	rep.Took = time.Since(begin)

	kept := map[string]bool{}
	for n := range o.Interactions {
		if s := newScenario(o.Seed, n); s.Kept {
			ref, _, err := p.encode(s.Owner, s.Request)
			if err != nil {
				return nil, err
			}
			kept[ref.String()] = true
		}
	}
	rep.Kept = len(kept)
	rep.Errors = append(rep.Errors, w.errs...)
	o.Progress("everything is put right again; waiting until nothing is left to do")
	begin = time.Now()
	if err := settled(ctx, c.Journal, kept); err != nil {
		rep.Errors = append(rep.Errors, err)
	}
	record, errs, err := audit(ctx, c.Journal, c.Keys)
	if err != nil {
		return nil, err
	}
	rep.Errors = append(rep.Errors, errs...)
	if err := p.shown(ctx, record); err != nil {
		rep.Errors = append(rep.Errors, err)
	}
	if err := events.check(ctx, c.Journal); err != nil {
		rep.Errors = append(rep.Errors, err)
	}
	rep.Settling = time.Since(begin)
	if moved := time.Since(rep.Began) - time.Duration(proof.Now()-rep.Began.UnixNano()); moved.Abs() > clockSlack {
		return nil, fmt.Errorf("the machine's clock moved by %s: the histories have no common time", moved)
	}
	begin = time.Now()
	j := proof.Judge(w.h, record, proof.Site{Up: c.Up, Calm: c.Calm, OrphanAfter: rig.OrphanAfter})
	rep.Checking = time.Since(begin)
	rep.Judgement = j
	rep.Errors = append(rep.Errors, j.Errs...)
	if j.Worst != nil {
		if rep.File, err = j.Worst.Save(dir); err != nil {
			return nil, err
		}
	}
	rep.Fell = c.Fallen()
	return rep, nil
}

// work runs clients, readers and trouble until the clients are through.
func work(ctx context.Context, o Options, c *rig.Cluster, w *workload, watch *watcher) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	side, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	var bad error
	if o.Every > 0 {
		wg.Go(func() {
			if bad = c.Trouble(side, rig.NewFaults(o.Seed, o.Every, o.Pause), w.counts.add); bad != nil {
				cancel()
			}
		})
	}
	wg.Go(func() { watch.run(side) })
	var done atomic.Int64
	var said atomic.Int64 // tenths
	w.run(ctx, o.Interactions, o.Concurrency, func(int) {
		n := done.Add(1)
		if tenth := n * 10 / int64(o.Interactions); tenth > said.Swap(max(tenth, said.Load())) {
			o.Progress(fmt.Sprintf("%d of %d interactions", n, o.Interactions))
		}
	})
	stop()
	wg.Wait()
	return errors.Join(bad, ctx.Err())
}
