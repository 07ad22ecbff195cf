// Package health counts how a channel does.
package health

import "sync"

// alarmAfter is how many failed attempts in a row make an alarm.
const alarmAfter = 5

// Health counts failures in a row. The zero value is ready; its methods are safe for
// concurrent use.
type Health struct {
	mu sync.Mutex
	n  int
}

// Bad counts one more; alarm is true once in a row.
func (h *Health) Bad() (n int, alarm bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.n++
	return h.n, h.n == alarmAfter
}

// Good ends the row and reports whether there had been an alarm.
func (h *Health) Good() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	was := h.n >= alarmAfter
	h.n = 0
	return was
}

// Failing reports whether the last attempt failed.
func (h *Health) Failing() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.n > 0
}
