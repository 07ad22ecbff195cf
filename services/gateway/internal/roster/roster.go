// Package roster keeps which workers are alive, by their heartbeats, and whether a
// notifier listens.
package roster

import (
	"slices"
	"time"
)

// Key names a worker: two owners may use one name.
type Key struct{ Tenant, Owner, Worker string }

// Roster is what the heartbeats say. The caller guards it with a lock.
type Roster struct {
	workers map[Key]worker
	owned   map[owner]int // workers
	late    time.Duration // silence after which a worker counts as unreachable
	gone    time.Duration // and after which it is gone
}

// MaxWorkers is how many workers of an owner may beat. A name costs its sender nothing
// and everybody a look each second, until it is gone.
const MaxWorkers = 1000

type owner struct{ tenant, name string }

type worker struct {
	last     time.Time
	runtimes []string
	late     bool
}

// New makes an empty Roster.
func New(late, gone time.Duration) *Roster {
	return &Roster{workers: map[Key]worker{}, owned: map[owner]int{}, late: late, gone: gone}
}

// Beat notes a heartbeat and reports whether the worker had been unreachable. Not ok:
// its owner has too many workers, and it is none of those that are known.
func (r *Roster) Beat(k Key, runtimes []string, now time.Time) (back, ok bool) {
	w, known := r.workers[k]
	if !known && r.owned[k.owner()] >= MaxWorkers {
		return false, false
	}
	r.put(k, worker{last: now, runtimes: runtimes})
	return w.late, true
}

// Expect begins to wait for a worker that others tell of: it runs something that is
// counted elsewhere.
func (r *Roster) Expect(k Key, now time.Time) {
	if _, ok := r.workers[k]; !ok {
		r.put(k, worker{last: now})
	}
}

func (k Key) owner() owner { return owner{k.Tenant, k.Owner} }

func (r *Roster) put(k Key, w worker) {
	if _, ok := r.workers[k]; !ok {
		r.owned[k.owner()]++
	}
	r.workers[k] = w
}

func (r *Roster) forget(k Key) {
	delete(r.workers, k)
	if r.owned[k.owner()]--; r.owned[k.owner()] == 0 {
		delete(r.owned, k.owner())
	}
}

// Known reports whether a worker is heard, or expected.
func (r *Roster) Known(k Key) bool {
	_, ok := r.workers[k]
	return ok
}

// Unreachable reports whether a worker misses its heartbeats.
func (r *Roster) Unreachable(k Key) bool { return r.workers[k].late }

// Sweep returns the workers that have become unreachable and those that are
// gone; the latter are forgotten. Silence before since does not count: nobody
// listened.
func (r *Roster) Sweep(now, since time.Time) (late, gone []Key) {
	for k, w := range r.workers {
		from := w.last
		if from.Before(since) {
			from = since
		}
		switch silent := now.Sub(from); {
		case silent > r.gone:
			gone = append(gone, k)
			r.forget(k)
		case silent > r.late && !w.late:
			w.late = true
			r.workers[k] = w
			late = append(late, k)
		}
	}
	return late, gone
}

// Count is how many workers are reachable, and how many are not.
func (r *Roster) Count() (reachable, unreachable int) {
	for _, w := range r.workers {
		if w.late {
			unreachable++
		} else {
			reachable++
		}
	}
	return reachable, unreachable
}

// Serves reports whether a reachable worker of an owner can run a runtime.
func (r *Roster) Serves(tenant, owner, runtime string) bool {
	for k, w := range r.workers {
		if k.Tenant == tenant && k.Owner == owner && !w.late && slices.Contains(w.runtimes, runtime) {
			return true
		}
	}
	return false
}

// Runtimes are what the reachable workers can run, sorted.
func (r *Roster) Runtimes() []string {
	out := []string{}
	for _, w := range r.workers {
		if w.late {
			continue
		}
		for _, rt := range w.runtimes {
			if !slices.Contains(out, rt) {
				out = append(out, rt)
			}
		}
	}
	slices.Sort(out)
	return out
}
