package plan

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// noDeadline stands for the time an interaction has that has no deadline, where
// a part of it is asked for.
const noDeadline = 10 * time.Minute

// Delay is a duration, a part of the time from the beginning to the deadline, or
// whichever of the two is shorter: "5m", "50%", "5m or 50%".
type Delay struct {
	Duration time.Duration
	Percent  int // 0: none
	both     bool
}

var errDelay = errors.New(`must be a duration such as 90s, a part of the time such as 50%, or both: "5m or 50%"`)

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Delay) UnmarshalText(text []byte) error {
	first, second, both := strings.Cut(string(text), " or ")
	var out Delay
	percent := func(s string) bool {
		digits, ok := strings.CutSuffix(strings.TrimSpace(s), "%")
		n, err := strconv.Atoi(digits)
		out.Percent = n
		return ok && err == nil && n >= 1 && n <= 99
	}
	duration := func(s string) bool {
		v, err := time.ParseDuration(strings.TrimSpace(s))
		out.Duration = v
		return err == nil && v >= 0 && v <= maxDelay
	}
	switch {
	case both && duration(first) && percent(second):
		out.both = true
	case both:
		return errDelay
	case strings.HasSuffix(first, "%"):
		if !percent(first) {
			return errDelay
		}
	case !duration(first):
		return errDelay
	}
	*d = out
	return nil
}

// never reports whether it is no time at all, whatever the deadline.
func (d Delay) never() bool { return d.Duration == 0 && (d.Percent == 0 || d.both) }

// MarshalText implements encoding.TextMarshaler.
func (d Delay) MarshalText() ([]byte, error) {
	s := d.Duration.String()
	if d.Percent > 0 {
		part := strconv.Itoa(d.Percent) + "%"
		if d.both {
			part = s + " or " + part
		}
		s = part
	}
	return []byte(s), nil
}

const maxDelay = 7 * 24 * time.Hour

// of is the delay for an interaction.
func (d Delay) of(ix *Interaction) time.Duration {
	if d.Percent == 0 {
		return d.Duration
	}
	whole := noDeadline
	if ix.Expires != nil {
		whole = max(ix.Expires.Sub(ix.Created), 0)
	}
	part := whole / 100 * time.Duration(d.Percent)
	if d.both {
		return min(d.Duration, part)
	}
	return part
}
