package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/banksman/banksman/cmd/banksman/soak/internal/proof"
	"github.com/banksman/banksman/cmd/banksman/soak/internal/rig"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/run"
	"github.com/banksman/banksman/pkg/wire"
)

const (
	scenarioLimit = 5 * time.Minute
	// unsureTries is how often a client tries that is not set on an answer, and
	// how often one that is hears that there is nothing before it believes it.
	unsureTries = 6
)

// Ends of a wait without a decision, as they are counted.
const (
	awaitStopped = "await: stopped"
	awaitNothing = "await: " + proof.SawNoDecision
)

// counters count by name.
type counters struct {
	mu sync.Mutex
	n  map[string]int
}

func newCounters() *counters { return &counters{n: map[string]int{}} }

func (c *counters) add(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n[name]++
}

func (c *counters) get(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[name]
}

func (c *counters) names() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.n))
}

// workload is the clients of a run.
type workload struct {
	seed   uint64
	site   site
	h      *proof.History
	counts *counters

	// told, if set, hears that a gateway told of a decision.
	told func(gateway int, key string, at int64)

	mu   sync.Mutex
	errs []error // what no client may ever see
}

func (w *workload) wrong(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.errs = append(w.errs, fmt.Errorf(format, args...))
}

// run goes through count interactions, so many at a time. done is called after
// each.
func (w *workload) run(ctx context.Context, count, concurrency int, done func(int)) {
	next := make(chan int) // closed below
	var wg sync.WaitGroup
	for range concurrency {
		wg.Go(func() {
			for n := range next {
				w.one(ctx, newScenario(w.seed, n))
				done(n)
			}
		})
	}
	for n := range count {
		select {
		case next <- n:
		case <-ctx.Done():
		}
	}
	close(next)
	wg.Wait()
}

// one does everything that happens to one interaction, and waits for all of it.
func (w *workload) one(ctx context.Context, s *scenario) {
	ctx, cancel := context.WithTimeout(ctx, scenarioLimit)
	defer cancel()
	ref, raw, err := w.site.encode(s.Owner, s.Request)
	if err != nil {
		w.wrong("scenario %d cannot be asked: %w", s.N, err)
		return
	}
	key := ref.String()
	w.h.Begin(key, s.String(), s.Expiry)
	r, err := hitl.ParseRequest(raw)
	if err != nil {
		w.wrong("scenario %d: %w", s.N, err)
		return
	}
	var wg, asks sync.WaitGroup
	asked := make(chan struct{}) // closed when no asker waits any more
	if s.Life != nil {
		asks.Go(func() { w.live(ctx, key, s) })
	}
	for i, a := range s.Asks {
		asks.Go(func() { w.ask(ctx, key, s, a, fmt.Sprintf("asker%d", i)) })
	}
	wg.Go(func() {
		asks.Wait()
		close(asked)
	})
	for i, d := range s.Decides {
		wg.Go(func() { w.decide(ctx, key, r, hitl.Digest(raw), d, asked, fmt.Sprintf("decider%d", i)) })
	}
	for i, g := range s.Gets {
		wg.Go(func() { w.get(ctx, key, g, fmt.Sprintf("reader%d", i)) })
	}
	wg.Wait()
}

func (w *workload) ask(ctx context.Context, key string, s *scenario, p askPlan, client string) {
	if !run.Pause(ctx, p.After) {
		return
	}
	whole := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	opened := make(chan struct{}) // closed by Ask
	open := sync.OnceFunc(func() { close(opened) })
	switch p.Stop {
	case stopWithdraw:
		defer time.AfterFunc(p.Within, func() {
			w.h.Stop(key, proof.Now())
			cancel(nil)
		}).Stop()
	case stopLeave:
		leave := func() { cancel(bus.ErrShutdown) }
		if s.Kept { // it is to be there
			leave = func() {
				select {
				case <-opened:
				case <-ctx.Done():
				}
				cancel(bus.ErrShutdown)
			}
		}
		defer time.AfterFunc(p.Within, leave).Stop()
	}
	asked := proof.Operation{Kind: proof.OpAsk, Client: client, Call: proof.Now(), Saw: proof.SawSilence}
	wait := proof.Operation{Kind: proof.OpAwait, Client: client, Call: asked.Call, Saw: proof.SawClosed}
	a, err := w.site.ask(ctx, s.Owner, p.Worker, s.Request, func() {
		asked.Return, asked.Saw = proof.Now(), proof.SawStored
		wait.Call = asked.Return
		open()
	})
	w.h.Add(key, asked)
	w.counts.add("ask: " + asked.Saw)
	var stopped *bus.WaitError
	switch {
	case err == nil && a.Ref.String() != key:
		w.wrong("%s: the asker was told of %s", key, a.Ref)
	case err == nil:
		wait.Return, wait.Verdict = proof.Now(), proof.VerdictOf(a.Decision)
		w.h.Add(key, wait)
		w.counts.add("await: " + string(a.Decision.Outcome))
	case errors.Is(err, bus.ErrNoDecision):
		// It waited for longer than the deadline, then withdrew.
		w.h.Stop(key, asked.Call+int64(s.Expiry))
		wait.Return, wait.Saw = proof.Now(), proof.SawNoDecision
		w.h.Add(key, wait)
		w.counts.add(awaitNothing)
	case errors.As(err, &stopped) && whole.Err() != nil:
		w.wrong("%s: %s was told nothing in %s: %w", key, client, scenarioLimit, err)
	case errors.As(err, &stopped) && ctx.Err() != nil:
		w.counts.add(awaitStopped)
	default:
		w.wrong("%s: ask: %w", key, err)
	}
}

func (w *workload) decide(ctx context.Context, key string, r *hitl.Request, digest string, d decidePlan, asked <-chan struct{}, client string) {
	if !run.Pause(ctx, d.After) {
		return
	}
	d.Answer.RequestID, d.Answer.Digest = key, digest
	content, err := hitl.Evaluate(r, &d.Answer)
	if err != nil {
		w.wrong("%s: the answer is none: %w", key, err)
		return
	}
	want := proof.ContentKey(*content)
	if d.Mistaken {
		d.Answer.Digest = hitl.Digest([]byte("another request"))
		want = "mistaken"
	}
	for tries := unsureTries; tries > 0; {
		gone := false // nobody asks any more
		select {
		case <-asked:
			gone = true
		default:
		}
		o := proof.Operation{Kind: proof.OpDecide, Client: client, Principal: proof.PrincipalKey(w.site.principal(d.Person)), Content: want}
		o.Detail = fmt.Sprintf("%s at gateway %d", d.Door, d.Gateway)
		o.Call = proof.Now()
		rec, err := w.site.decide(ctx, d, d.Answer)
		o.Return = proof.Now()
		over := w.noteReceipt(key, &o, rec, err)
		if d.Door != doorBus {
			w.tell(d.Gateway, key, &o)
		}
		switch {
		case over && !d.Again:
			return
		case over:
			d.Again = false
			continue
		case ctx.Err() != nil:
			if d.Sure {
				w.wrong("%s: %s has no final receipt after %s, the last was %q: %s", key, client, scenarioLimit, o.Saw, o.Detail)
			}
			return
		case !d.Sure, gone && o.Saw == string(hitl.NotFound): // a withdrawal can be faster than the request
			tries--
		}
		wait := time.Duration(20+rand.IntN(60)) * time.Millisecond
		if err != nil || rec.Status == hitl.Unavailable {
			wait *= 4
			d.Gateway = (d.Gateway + 1) % rig.Gateways
		}
		_ = run.Pause(ctx, wait)
	}
}

// noteReceipt records one attempt and reports whether its receipt ends the
// matter.
func (w *workload) noteReceipt(key string, o *proof.Operation, rec hitl.Receipt, err error) (over bool) {
	switch {
	case errors.Is(err, errNotSent):
		w.counts.add("decide: " + errNotSent.Error())
		return false
	case err != nil:
		o.Saw, o.Detail = proof.SawSilence, o.Detail+": "+err.Error()
		w.counts.add("decide: no receipt")
	case rec.Status == hitl.Unavailable:
		o.Saw, o.Detail = proof.SawSilence, o.Detail+": "+rec.Error
		w.counts.add("decide: " + string(rec.Status))
	default:
		o.Saw, o.Verdict = string(rec.Status), proof.VerdictOf(rec.Decision)
		w.counts.add("decide: " + o.Saw)
	}
	switch hitl.Status(o.Saw) {
	case hitl.Accepted, hitl.Duplicate, hitl.AlreadyDecided, hitl.TooLate:
		over = true
	case hitl.NotFound, proof.SawSilence:
	default:
		if over = rec.Status == hitl.DigestMismatch && o.Content == "mistaken"; over {
			break
		}
		w.wrong("%s: %s of %s: the receipt says %s: %s %v", key, o.Detail, o.Client, rec.Status, rec.Error, rec.Fields)
		return true
	}
	w.h.Add(key, *o)
	return over
}

func (w *workload) get(ctx context.Context, key string, g getPlan, client string) {
	if !run.Pause(ctx, g.After) {
		return
	}
	o := proof.Operation{Kind: proof.OpGet, Client: client, Detail: fmt.Sprintf("gateway %d", g.Gateway), Call: proof.Now()}
	ix, err := w.site.get(ctx, g.Gateway, g.Person, key)
	o.Return = proof.Now()
	switch {
	case errors.Is(err, errAbsent):
		o.Saw = proof.SawNothing
	case err != nil:
		w.counts.add("get: no reply")
		return
	case ix.State == wire.StatePending:
		o.Saw = proof.SawPending
	case ix.State == wire.StateClosed:
		o.Saw, o.Verdict = proof.SawClosed, proof.VerdictOf(ix.Decision)
	default:
		w.wrong("%s: a gateway says it is %q", key, ix.State)
		return
	}
	w.counts.add("get: " + o.Saw)
	w.h.Add(key, o)
	w.tell(g.Gateway, key, &o)
}

func (w *workload) tell(gateway int, key string, o *proof.Operation) {
	if w.told != nil && o.Verdict.ID != "" {
		w.told(gateway, key, o.Return)
	}
}
