package pushes

import (
	"slices"
	"time"

	"github.com/banksman/banksman/services/gateway/internal/ticket"
)

// dropped is a browser that its push service knows no more. What it was told before may
// lie there still, so its sign-in is remembered for as long as a button of that counts.
type dropped struct {
	Session string    `json:"session"`
	Ends    time.Time `json:"ends"`
	At      time.Time `json:"at"`
}

// maxDropped bounds those of one person; one more counts as signed out.
const maxDropped = MaxBrowsers

func (d *dropped) matters(now time.Time) bool { return now.Before(d.At.Add(ticket.Longest)) }

// forget takes the browsers at endpoints away, and all that belongs to sessions of left.
func (l *list) forget(endpoints, left map[string]bool, now time.Time) {
	out := len(left) > 0
	for _, b := range l.Browsers {
		if endpoints[b.Endpoint] && !left[b.Session] {
			l.Dropped = slices.DeleteFunc(l.Dropped, func(d dropped) bool { return d.Session == b.Session })
			l.Dropped = append(l.Dropped, dropped{b.Session, b.Ends, now})
		}
	}
	l.Browsers = slices.DeleteFunc(l.Browsers, func(b browser) bool { return endpoints[b.Endpoint] || left[b.Session] })
	l.Dropped = slices.DeleteFunc(l.Dropped, func(d dropped) bool { return left[d.Session] || !d.matters(now) })
	if n := len(l.Dropped) - maxDropped; n > 0 {
		l.Dropped, out = l.Dropped[n:], true
	}
	if out {
		l.Since = now
	}
}
