// Package health counts how a channel does.
package health

import (
	"sync"
	"time"
)

// alarmAfter is how many failed attempts in a row make an alarm.
const alarmAfter = 5

// Health counts failures in a row. The zero value is ready; its methods are safe for
// concurrent use.
type Health struct {
	mu   sync.Mutex
	n    int
	last time.Time
}

// Bad counts one more; alarm is true once in a row.
func (h *Health) Bad() (n int, alarm bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.n++
	return h.n, h.n == alarmAfter
}

// Good ends the row, at a time, and reports whether there had been an alarm.
func (h *Health) Good(at time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	was := h.n >= alarmAfter
	h.n, h.last = 0, at
	return was
}

// Last is when an attempt succeeded last; zero: none has.
func (h *Health) Last() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last
}

// Failing reports whether the last attempt failed.
func (h *Health) Failing() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.n > 0
}
