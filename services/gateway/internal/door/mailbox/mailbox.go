// Package mailbox keeps what waits for a reader of an event stream, and knows when the
// reader is too slow for it.
package mailbox

import (
	"slices"
	"sync"
	"time"
)

// maxBurst bounds what waits, in limits of a Box, however fast the reader is.
const maxBurst = 16

// Box holds what waits for one reader.
type Box[T any] struct {
	limit    int           // bytes
	patience time.Duration // above limit, while nothing gets through
	Wake     chan struct{} // capacity 1: something waits, or the end

	mu    sync.Mutex
	queue []Letter[T]
	owed  int       // bytes that wait
	moved time.Time // when something got through, or nothing waited
	over  bool
}

// Letter is one thing that waits.
type Letter[T any] struct {
	What  T
	size  int
	whole string
}

// New makes an empty Box: limit in bytes, and how long it may be above that while
// nothing gets through.
func New[T any](limit int, patience time.Duration) *Box[T] {
	return &Box[T]{limit: limit, patience: patience, Wake: make(chan struct{}, 1), moved: time.Now()}
}

// Put never blocks: a reader that is too slow gets no more. One alone is always
// taken, and what is said at once is no sign of a slow reader; what does not get through
// is. whole, if not empty, is the session whose whole state v is: it stands for an older
// one that waits.
func (m *Box[T]) Put(v T, size int, whole string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.over {
		return
	}
	if whole != "" {
		m.queue = slices.DeleteFunc(m.queue, func(l Letter[T]) bool {
			if l.whole == whole {
				m.owed -= l.size
			}
			return l.whole == whole
		})
	}
	if m.owed == 0 {
		m.moved = time.Now() // nothing was there to get through
	}
	total := m.owed + size
	if m.owed > 0 && total > m.limit && (total > maxBurst*m.limit || time.Since(m.moved) > m.patience) {
		m.over, m.queue = true, nil
	} else {
		m.queue = append(m.queue, Letter[T]{v, size, whole})
		m.owed = total
	}
	m.rouse()
}

// End has the reader get no more.
func (m *Box[T]) End() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.over, m.queue = true, nil
	m.rouse()
}

func (m *Box[T]) rouse() {
	select {
	case m.Wake <- struct{}{}:
	default:
	}
}

// Take returns what waits; not ok: the reader gets no more.
func (m *Box[T]) Take() (list []Letter[T], ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	list, m.queue, m.owed, m.moved = m.queue, nil, 0, time.Now()
	return list, !m.over
}

// Through says that the reader took something.
func (m *Box[T]) Through() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.moved = time.Now()
}
