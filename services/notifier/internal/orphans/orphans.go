// Package orphans keeps the deliveries to addresses that the configuration does not name:
// a recipient was renamed or taken out while requests waited.
package orphans

import (
	"sync"
	"time"

	"github.com/banksman/banksman/services/notifier/internal/ledger"
)

// after is how long a delivery is overdue before it counts as nobody's. It
// leaves time for a replica that has another configuration because it is just
// being replaced.
const after = 5 * time.Minute

// List is safe for concurrent use.
type List struct {
	// Wake says that there is something new; buffer 1, never closed.
	Wake chan struct{}

	mu   sync.Mutex
	byID map[ledger.Key]*ledger.Record
}

// New makes an empty List.
func New() *List {
	return &List{Wake: make(chan struct{}, 1), byID: map[ledger.Key]*ledger.Record{}}
}

// Observe takes a version of such a delivery.
func (o *List) Observe(r *ledger.Record) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if old := o.byID[r.Key]; old != nil && old.Revision > r.Revision {
		return
	}
	if r.State.Final() {
		delete(o.byID, r.Key)
		return
	}
	o.byID[r.Key] = r
	select {
	case o.Wake <- struct{}{}:
	default:
	}
}

// Due returns those that are overdue, and how long the next one has, idle at most.
func (o *List) Due(now time.Time, idle time.Duration) (due []*ledger.Record, wait time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	wait = idle
	for _, r := range o.byID {
		at := r.DueAt
		if r.Until != nil && r.Until.After(at) {
			at = *r.Until
		}
		if left := at.Add(after).Sub(now); left > 0 {
			wait = min(wait, left)
		} else {
			due = append(due, r)
		}
	}
	return due, wait
}
