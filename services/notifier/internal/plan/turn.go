package plan

import (
	"slices"
	"time"
)

// Ready is a delivery that may go out to a recipient.
type Ready struct {
	Session string
	Due     time.Time
	// Urgent does not wait for the pause between messages.
	Urgent bool
}

// Turn returns which of the ready deliveries make up the next message now, as
// indices, or when to look again. sent are the times of the last messages to the
// recipient by this channel, oldest first. What comes out is never more than
// Messages in any time of the length Per.
//
// What is due at once of one session goes together; the last message that the
// pace leaves takes all sessions.
//
// A clock that is set back by more than Per may cost the bound once.
func (p Pace) Turn(ready []Ready, sent []time.Time, now time.Time) (pick []int, again time.Time) {
	if len(ready) == 0 {
		return nil, now.Add(p.Per)
	}
	// What was sent by a clock that is far ahead of ours, which was set back meanwhile,
	// must not keep anybody waiting until ours is there.
	sent = slices.DeleteFunc(slices.Clone(sent), func(t time.Time) bool { return t.After(now.Add(max(p.Per, p.Group))) })
	recent := 0
	for _, t := range sent {
		if t.After(now.Add(-p.Per)) {
			recent++
		}
	}
	if recent >= p.Messages {
		return nil, sent[len(sent)-p.Messages].Add(p.Per)
	}
	first, urgent := 0, false
	for i, r := range ready {
		urgent = urgent || r.Urgent
		if r.Due.Before(ready[first].Due) {
			first = i
		}
	}
	if n := len(sent); n > 0 && !urgent {
		if at := sent[n-1].Add(p.Group); at.After(now) {
			return nil, at
		}
	}
	all := recent+1 >= p.Messages
	for i, r := range ready {
		if all || r.Urgent || r.Session == ready[first].Session {
			pick = append(pick, i)
		}
	}
	return pick, now
}

// Keep cuts the times of sent messages to those that count for the pace.
func (p Pace) Keep(sent []time.Time) []time.Time {
	return sent[max(len(sent)-p.Messages, 0):]
}
