package plan

import (
	"strings"
	"time"
)

const (
	// seenHold is how long a look at the card keeps the first step back.
	seenHold = 20 * time.Second
	// seenMost is how long looks can keep it back altogether.
	seenMost = 5 * time.Minute
)

// Due is a delivery whose time has come.
type Due struct {
	// Recipient is nil where the channel stands for itself.
	Recipient *Recipient
	Risk      string
	// First says that it belongs to the first step.
	First bool
	// Ended says that it tells how the interaction ended.
	Ended bool
	// Created and Expires are the interaction's.
	Created time.Time
	Expires *time.Time
	// Seen is when somebody last had the card before their eyes; zero: nobody.
	Seen time.Time
	// Claim is who looks after it; nil: nobody said so.
	Claim *Claim
}

// Claim says that a recipient looks after an interaction, so that nobody else
// need be told before Until.
type Claim struct {
	By    string    `json:"by"`
	Until time.Time `json:"until"`
}

// Gate returns when a delivery may go out that is due, and why not before. A time
// that is not after now lets it go.
func Gate(d *Due, now time.Time) (at time.Time, why string) {
	at = now
	later := func(t time.Time, reason string) {
		if t.After(at) {
			at, why = t, reason
		}
	}
	r := d.Recipient
	if !d.Ended {
		if d.First && !d.Seen.IsZero() {
			most := d.Created.Add(seenMost)
			if d.Expires != nil {
				most = Earlier(most, d.Created.Add(d.Expires.Sub(d.Created)/2))
			}
			later(Earlier(d.Seen.Add(seenHold), most), "somebody has it before their eyes")
		}
		if c := d.Claim; c != nil && !d.First && (r == nil || r.Name != c.By) {
			later(c.Until, c.By+" looks after it")
		}
	}
	if r == nil || r.bypasses(d.Risk) && !d.Ended {
		return at, why
	}
	if within(r.Quiet, r.zone.local(at)) {
		later(until(r.Quiet, r.zone, at), quietHours)
	}
	if why == quietHours && !d.Ended && d.Expires != nil && !at.Before(*d.Expires) {
		clock := func(t time.Time) string { return r.zone.local(t).Format("2 Jan 15:04 MST") }
		why += " until " + clock(at) + ", after its deadline of " + clock(*d.Expires) + ": it is not told here"
	}
	return at, why
}

const quietHours = "quiet hours"

// Mutes reports whether Gate's reason says that quiet hours last beyond the deadline.
func Mutes(why string) bool { return strings.HasPrefix(why, quietHours+" until ") }

// Earlier is the earlier of two times.
func Earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// DigestAt is when something that is due may leave with the recipient's digest;
// due itself where there are none. Digests leave by the clock on the wall: one whose
// time that clock leaps over leaves at the leap.
func (r *Recipient) DigestAt(due time.Time, risk string) time.Time {
	every := time.Duration(r.Digest)
	if every == 0 || r.bypasses(risk) {
		return due
	}
	wall := r.zone.wall(due)
	from := wall.Truncate(every)
	if from.Equal(wall) || from.After(r.zone.wall(due.Add(-1))) {
		return due
	}
	at := due.Add(from.Add(every).Sub(wall))
	if _, change := r.zone.local(due).ZoneBounds(); !change.IsZero() && !at.Before(change) {
		return r.DigestAt(change, risk)
	}
	return at
}
