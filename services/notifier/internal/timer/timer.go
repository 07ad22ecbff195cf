// Package timer is where the time comes from.
package timer

import "time"

// Clock tells the time and waits; tests have one of their own.
type Clock interface {
	Now() time.Time
	// Timer returns a channel that gets one value after d, and a function that
	// gives the timer up.
	Timer(d time.Duration) (fires <-chan time.Time, stop func())
}

// System is the machine's clock.
type System struct{}

var _ Clock = System{}

// Now implements Clock.
func (System) Now() time.Time { return time.Now() }

// Timer implements Clock.
func (System) Timer(d time.Duration) (<-chan time.Time, func()) {
	t := time.NewTimer(d)
	return t.C, func() { t.Stop() }
}
