// Package told keeps what a follower has been told, so that each interaction begins
// once and ends once.
package told

import (
	"time"

	"github.com/banksman/banksman/pkg/wire"
)

// kept is how long an end is remembered, so that its beginning, should it come later,
// begins nothing.
const kept = 10 * time.Minute

// Told is for one goroutine.
type Told struct {
	fn   func(wire.Interaction)
	open map[string]bool
	over map[string]time.Time
}

// New makes one that tells fn.
func New(fn func(wire.Interaction)) *Told {
	return &Told{fn: fn, open: map[string]bool{}, over: map[string]time.Time{}}
}

// Take tells of ix what was not told yet.
func (t *Told) Take(ix wire.Interaction) {
	_, over := t.over[ix.Key]
	switch {
	case over, ix.State == wire.StatePending && t.open[ix.Key]:
		return
	case ix.State == wire.StatePending:
		t.open[ix.Key] = true
	default:
		begun := t.open[ix.Key]
		delete(t.open, ix.Key)
		t.over[ix.Key] = time.Now()
		if !begun { // it ended before this follower was told that it waits
			return
		}
	}
	t.fn(ix)
}

// Drop forgets one of which nothing more is known, and Old the ends of long ago.
func (t *Told) Drop(key string) { delete(t.open, key) }

func (t *Told) Old() {
	for key, at := range t.over {
		if time.Since(at) > kept {
			delete(t.over, key)
		}
	}
}

// Without are those that were told to wait and are not among waits.
func (t *Told) Without(waits map[string]bool) (keys []string) {
	for key := range t.open {
		if !waits[key] {
			keys = append(keys, key)
		}
	}
	return keys
}
