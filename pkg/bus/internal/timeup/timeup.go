// Package timeup is an asker's own deadline.
package timeup

import (
	"math"
	"time"
)

// Deadline is the asker's own, by its own clock. A request without one waits
// for ever.
type Deadline struct {
	after time.Duration
	timer *time.Timer
}

// After calls fn when expiry and then grace have passed; never, if expiry is 0. The
// caller calls Stop.
func After(expiry, grace time.Duration, fn func()) *Deadline {
	if expiry <= 0 {
		return &Deadline{}
	}
	d := &Deadline{after: min(expiry, math.MaxInt64-grace) + grace}
	d.timer = time.AfterFunc(d.after, fn)
	return d
}

// Restart counts from now: the request was stored.
func (d *Deadline) Restart() {
	if d.timer != nil && d.timer.Stop() {
		d.timer.Reset(d.after)
	}
}

// Stop ends it.
func (d *Deadline) Stop() {
	if d.timer != nil {
		d.timer.Stop()
	}
}
