// Package hearing knows since when a gateway would have heard a worker, and lets a
// session that seems dead have a while for a sign of life.
package hearing

import (
	"context"
	"sync"
	"time"

	"github.com/banksman/banksman/pkg/run"
	"github.com/banksman/banksman/pkg/subject"
)

// Listening is since when this gateway would have heard a heartbeat.
type Listening struct {
	Since time.Time // by the gateway's clock
	last  time.Time // when it looked last
	every time.Duration
}

// Listen begins to listen; Look is to be called every so often.
func Listen(since time.Time, every time.Duration) Listening {
	return Listening{Since: since, last: time.Now(), every: every}
}

// Look returns since when silence counts. A gateway that did not get to look for
// a while was stopped, or its machine: then the heartbeats of that time wait to
// be read, and none of them is missing. now is the time of this process, clock
// the gateway's.
func (l *Listening) Look(now, clock time.Time, connected bool) time.Time {
	if !connected || now.Sub(l.last) > 5*l.every {
		l.Since = clock
	}
	l.last = now
	return l.Since
}

// Doubts are the sessions that are given a while: one wait for each. The zero value is
// ready; its methods are safe for concurrent use.
type Doubts struct {
	mu    sync.Mutex
	until map[subject.Session]time.Time
	said  time.Time // since when heartbeats come, as the caller of Hear has it
	heard time.Time // and when it said so; the zero time: they do not come yet
}

// Hear is told since when heartbeats come here, at any time again.
func (d *Doubts) Hear(since time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.heard.IsZero() || since != d.said {
		d.said, d.heard = since, time.Now()
	}
}

// Begin has a session wait for so long from now. False: it waits already, and does so
// for as long from now.
func (d *Doubts) Begin(s subject.Session, grace time.Duration) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.until == nil {
		d.until = map[subject.Session]time.Time{}
	}
	_, waits := d.until[s]
	d.until[s] = time.Now().Add(grace)
	return !waits
}

// Wait returns true when the while is over of a session that began. beats: what it
// waits for are heartbeats, which are missed only while they could be heard here.
func (d *Doubts) Wait(ctx context.Context, s subject.Session, grace time.Duration, beats bool) bool {
	for {
		wait := d.left(s, grace, beats)
		if wait <= 0 {
			return true
		}
		if !run.Pause(ctx, wait) {
			d.mu.Lock()
			delete(d.until, s)
			d.mu.Unlock()
			return false
		}
	}
}

// left is how long a session has; nothing any more: it is forgotten here.
func (d *Doubts) left(s subject.Session, grace time.Duration, beats bool) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	end := d.until[s]
	switch {
	case beats && d.heard.IsZero():
		return grace
	case beats && end.Before(d.heard.Add(grace)):
		end = d.heard.Add(grace)
	}
	wait := time.Until(end)
	if wait <= 0 {
		delete(d.until, s)
	}
	return wait
}

// Waiting is how many sessions wait.
func (d *Doubts) Waiting() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.until)
}
