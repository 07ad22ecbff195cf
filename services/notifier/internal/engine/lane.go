package engine

import (
	"container/heap"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/banksman/banksman/services/notifier/internal/health"
	"github.com/banksman/banksman/services/notifier/internal/ledger"
)

const (
	// parallel is how many attempts a channel has under way at a time.
	parallel = 8
	// maxHold is how long an alert waits for the events to be caught up with.
	maxHold = 30 * time.Second
	// maxIdle is the longest wait of a lane: a timer does not count the time that a
	// machine sleeps, so the clock is looked at now and then.
	maxIdle = 30 * time.Second
	// again is the pause after an attempt that the ledger did not let begin.
	again = time.Second
)

// lane is one channel's queue. A slow channel keeps no other one waiting.
type lane struct {
	Route
	e       *Engine
	dropped atomic.Bool   // the target wants nothing any more
	wake    chan struct{} // buffer 1, never closed
	slots   chan struct{} // one token for each attempt under way
	wg      sync.WaitGroup
	health  health.Health

	mu    sync.Mutex
	items map[ledger.Key]*item
	due   itemHeap
	held  []*item // not known yet to be really open
	// look is when a paced lane has something to do even if nothing is due; zero:
	// never. Its own goroutine's.
	look time.Time
	// urgent is from when on what is critical need not wait for look; zero: it has to.
	urgent time.Time
	// owes is what a paced lane could not write down yet.
	owes *ledger.Pace
}

// item is a delivery that is not final, or whose end the watch has not shown yet.
type item struct {
	rec   *ledger.Record
	at    time.Time // when to look at it
	since time.Time // when this replica first saw it
	seen  uint64    // the newest revision that the watch has shown
	held  bool
	busy  bool // an attempt of ours is under way
	index int  // in due; -1: not in there
	// owed is the result of an attempt that could not be recorded.
	owed *result
}

func newLane(e *Engine, r Route) *lane {
	return &lane{
		Route: r, e: e, wake: make(chan struct{}, 1), slots: make(chan struct{}, parallel),
		items: map[ledger.Key]*item{},
	}
}

// observe takes a version of a delivery. The watch shows every version, if late;
// what was learned from a write of our own may be ahead of it. A final version
// is remembered until the watch has shown it, so that an older one is known as
// such.
func (l *lane) observe(r *ledger.Record, watched bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	it := l.items[r.Key]
	if it == nil {
		if r.State.Final() && watched {
			return
		}
		it = &item{rec: &ledger.Record{Key: r.Key}, since: l.e.Clock.Now(), index: -1}
		l.items[r.Key] = it
		if !r.Key.Step.Ends() {
			it.held = true
			l.held = append(l.held, it)
		}
	}
	if watched {
		it.seen = max(it.seen, r.Revision)
	}
	newer := r.Revision > it.rec.Revision
	if newer {
		it.rec = r
	}
	switch {
	case it.busy:
	case it.rec.State.Final():
		l.finish(it)
	case newer:
		l.schedule(it)
	}
}

// finish takes a final item out, once the watch cannot show an older version.
func (l *lane) finish(it *item) {
	if it.index >= 0 {
		heap.Remove(&l.due, it.index)
	}
	if it.seen >= it.rec.Revision {
		delete(l.items, it.rec.Key)
	}
}

// schedule puts the item where its record wants it.
func (l *lane) schedule(it *item) {
	it.at = it.rec.DueAt
	if it.rec.State == ledger.Claimed && it.rec.Until != nil {
		it.at = *it.rec.Until // whoever claimed it may be dead by then
	}
	if hold := it.since.Add(maxHold); it.held && it.at.Before(hold) {
		it.at = hold
	}
	l.place(it)
}

func (l *lane) place(it *item) {
	if it.index < 0 {
		heap.Push(&l.due, it)
	} else {
		heap.Fix(&l.due, it.index)
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// release lets go what was held until the events were caught up with.
func (l *lane) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, it := range l.held {
		it.held = false
		if it.index >= 0 {
			l.schedule(it)
		}
	}
	l.held = nil
}

// run makes attempts when they are due, until ctx ends; then it waits for those
// under way.
func (l *lane) run(ctx context.Context) error {
	defer l.wg.Wait()
	for {
		it, rec, wait := l.next()
		if it == nil {
			fires, stop := l.e.Clock.Timer(wait)
			select {
			case <-ctx.Done():
				stop()
				return nil
			case <-l.wake:
			case <-fires:
			}
			stop()
			continue
		}
		select {
		case l.slots <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		l.wg.Go(func() {
			// An attempt that has begun is finished and recorded, even when the
			// process is about to end: it has a bound of its own.
			last, owed, err := l.attempt(context.WithoutCancel(ctx), rec, it.owed)
			<-l.slots
			l.done(it, last, owed, err)
		})
	}
}

// next takes the item that is due, or tells how long there is none.
func (l *lane) next() (*item, *ledger.Record, time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.due) == 0 {
		return nil, nil, maxIdle
	}
	it := l.due[0]
	if wait := it.at.Sub(l.e.Clock.Now()); wait > 0 {
		return nil, nil, min(wait, maxIdle)
	}
	heap.Pop(&l.due)
	it.busy = true
	return it, it.rec, 0
}

// done puts an item back after an attempt. last is the newest version the
// attempt has seen, nil where the entry is gone.
func (l *lane) done(it *item, last *ledger.Record, owed *result, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	it.busy, it.owed = false, owed
	if last != nil && last.Revision > it.rec.Revision {
		it.rec = last
	}
	switch {
	case err != nil:
		// The record may be older than what is stored; it is looked at again.
		l.schedule(it)
		if soon := l.e.Clock.Now().Add(again); owed != nil || it.at.Before(soon) {
			it.at = soon
			l.place(it)
		}
	case last == nil:
		delete(l.items, it.rec.Key)
	case it.rec.State.Final():
		l.finish(it)
	default:
		l.schedule(it)
	}
}

// itemHeap orders items by the time to look at them.
type itemHeap []*item

func (h itemHeap) Len() int           { return len(h) }
func (h itemHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h itemHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *itemHeap) Push(x any) {
	it := x.(*item)
	it.index = len(*h)
	*h = append(*h, it)
}

func (h *itemHeap) Pop() any {
	old := *h
	it := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	it.index = -1
	return it
}
