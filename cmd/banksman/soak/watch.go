package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/banksman/banksman/cmd/banksman/soak/internal/proof"
	"github.com/banksman/banksman/cmd/banksman/soak/internal/rig"
	"github.com/banksman/banksman/pkg/run"

	"github.com/banksman/banksman/pkg/wire"
)

// listEvery is how often each gateway's list is read.
const listEvery = 250 * time.Millisecond

// watcher reads the lists of the gateways all the time. A list is a view that
// follows the streams and may be a moment behind another gateway, so it is not
// part of the model. What it must not do is go back: show what this gateway
// knew to be decided, or what was decided before it started.
type watcher struct {
	p      *product
	h      *proof.History
	counts *counters
	wrong  func(format string, args ...any)

	mu    sync.Mutex
	known [rig.Gateways]map[string]int64 // by key: when the gateway told of the decision
}

func newWatcher(p *product, h *proof.History, counts *counters, wrong func(string, ...any)) *watcher {
	w := &watcher{p: p, h: h, counts: counts, wrong: wrong}
	for i := range w.known {
		w.known[i] = map[string]int64{}
	}
	return w
}

// run reads until ctx ends.
func (w *watcher) run(ctx context.Context) {
	var wg sync.WaitGroup
	for g := range rig.Gateways {
		wg.Go(func() {
			for run.Pause(ctx, listEvery) {
				w.once(ctx, g)
			}
		})
	}
	wg.Wait()
}

func (w *watcher) once(ctx context.Context, g int) {
	began := w.p.Started(g)
	call := proof.Now()
	open, err := w.p.list(ctx, g, 0, wire.StatePending)
	if err != nil {
		w.counts.add("list: no reply")
		return
	}
	w.counts.add("list: pending")
	if w.p.Started(g) != began {
		return // which of the two answered is not known
	}
	for _, ix := range open {
		if at, ok := w.h.DecidedAt(ix.Key); ok && at < began {
			w.wrong("gateway %d shows %s, which was decided %s before it started", g, ix.Key, time.Duration(began-at))
		}
		w.mu.Lock()
		at, ok := w.known[g][ix.Key]
		w.mu.Unlock()
		if ok && at < call {
			w.wrong("gateway %d shows %s, of whose decision it told %s before", g, ix.Key, time.Duration(call-at))
		}
	}
	call = proof.Now()
	closed, err := w.p.list(ctx, g, 0, wire.StateClosed)
	if err != nil {
		w.counts.add("list: no reply")
		return
	}
	w.counts.add("list: closed")
	at := proof.Now()
	for _, ix := range closed {
		if w.tell(g, ix.Key, at) {
			w.h.Add(ix.Key, proof.Operation{
				Kind: proof.OpGet, Client: fmt.Sprintf("list of gateway %d", g),
				Call: call, Return: at, Saw: proof.SawClosed, Verdict: proof.VerdictOf(ix.Decision),
			})
		}
	}
}

// tell notes that a gateway told of a decision at a time, and reports whether
// that is news.
func (w *watcher) tell(g int, key string, at int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.known[g][key]; ok {
		return false
	}
	w.known[g][key] = at
	return true
}
