// Package skew compares this machine's clock with the NATS server's, which deadlines
// count by.
package skew

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/banksman/banksman/pkg/journal"
)

// Max is how far the two may be apart before a gateway is not ready.
const Max = 2 * time.Second

// Meter knows how far they are apart. Its methods are safe for concurrent use.
type Meter struct {
	Now    func() time.Time
	Logger *slog.Logger
	Same   bool // this clock is the server's

	mu  sync.Mutex
	off time.Duration // this clock before the server's, as far as it is certain
	// When they were compared last, by this clock and by the time that passes whatever
	// is set; the zero time: never.
	wall, mono time.Time
}

// fresh is how long a comparison counts before something final is written, and stepped
// how far this clock may go its own way meanwhile.
const (
	fresh   = time.Second
	stepped = 100 * time.Millisecond
)

// Over reports whether a deadline has come on the server's clock, which counts. Nothing
// that was stored can be unsaid, so before it says yes by another clock it compares them.
func (m *Meter) Over(ctx context.Context, j journal.Journal, deadline time.Time) (bool, error) {
	now := m.Now()
	if deadline.IsZero() {
		return false, nil
	}
	if m.Same {
		return !now.Before(deadline), nil
	}
	m.mu.Lock()
	passed, off := time.Since(m.mono), m.off
	var step time.Duration // what this clock went its own way since
	if !m.mono.IsZero() {
		step = now.Round(0).Sub(m.wall) - passed
	}
	known := !m.mono.IsZero() && passed < fresh && step.Abs() < stepped
	m.mu.Unlock()
	late := max(-off, 0)
	if step < -stepped { // set back
		late -= step
	}
	if now.Add(late).Before(deadline) {
		return false, nil
	}
	if !known {
		if err := m.Compare(ctx, j); err != nil {
			return false, err
		}
	}
	return !m.Server().Before(deadline), nil
}

// Server is the server's time, as far as it is certain that this clock differs.
func (m *Meter) Server() time.Time { return m.Now().Add(-m.Off()) }

// Off is how far this clock is certainly before the server's; behind: negative.
func (m *Meter) Off() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.off
}

// Problem says that they are too far apart; nil: they are not.
func (m *Meter) Problem() error {
	off := m.Off()
	if off.Abs() <= Max {
		return nil
	}
	way := "ahead of"
	if off < 0 {
		way = "behind"
	}
	return fmt.Errorf("this machine's clock is %s %s the NATS server's, the limit is %s", off.Abs().Round(time.Millisecond), way, Max)
}

// Compare asks the server for the time. The server looked at its clock
// while the call was under way; what the call took is not held against ours.
func (m *Meter) Compare(ctx context.Context, j journal.Journal) error {
	before := m.Now()
	pos, err := j.Position(ctx, journal.Events)
	if err != nil {
		return err
	}
	after := m.Now()
	off := of(before, after, pos.Now)
	m.mu.Lock()
	was := m.off
	m.off, m.wall, m.mono = off, after.Round(0), time.Now() // without what only passes
	m.mu.Unlock()
	if off.Abs() > Max && was.Abs() <= Max {
		m.Logger.Error("this machine's clock is off the NATS server's: deadlines would be wrong", "by", off.Round(time.Millisecond))
	}
	return nil
}

// of is how far a clock is before another (behind: negative), which was
// read between two looks at the first. The zero time says nothing.
func of(before, after, other time.Time) time.Duration {
	switch {
	case other.IsZero():
		return 0
	case before.After(other):
		return before.Sub(other)
	case after.Before(other):
		return after.Sub(other)
	}
	return 0
}
