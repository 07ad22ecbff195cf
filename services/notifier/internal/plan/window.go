package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // zones are known where the machine has no list of them
)

// Window is a time of the day, on some days of the week. One that ends before it
// begins goes over midnight and belongs to the day on which it begins; one that
// ends when it begins lasts a whole day.
type Window struct {
	From TimeOfDay `json:"from"`
	To   TimeOfDay `json:"to"`
	Days []string  `json:"days"` // mon, tue, ...; not given: every day
}

// TimeOfDay is in minutes since midnight, by the clock on the wall.
type TimeOfDay int

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *TimeOfDay) UnmarshalText(text []byte) error {
	at, err := time.Parse("15:04", string(text))
	if err != nil {
		return errors.New("must be a time of the day such as 07:30 (in quotes)")
	}
	*t = TimeOfDay(at.Hour()*60 + at.Minute())
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (t TimeOfDay) MarshalText() ([]byte, error) {
	return fmt.Appendf(nil, "%02d:%02d", t/60, t%60), nil
}

var weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

func (w *Window) on(d time.Weekday) bool {
	return len(w.Days) == 0 || slices.Contains(w.Days, weekdays[d])
}

// contains looks at the clock on the wall only, so it holds on days on which the
// clock is changed.
func (w *Window) contains(local time.Time) bool {
	m, day := TimeOfDay(local.Hour()*60+local.Minute()), local.Weekday()
	if w.From < w.To {
		return w.on(day) && w.From <= m && m < w.To
	}
	return m >= w.From && w.on(day) || m < w.To && w.on((day+6)%7)
}

func within(windows []Window, local time.Time) bool {
	return slices.ContainsFunc(windows, func(w Window) bool { return w.contains(local) })
}

// until is the first whole minute after t in none of the windows; the zero time
// if there is none within eight days.
func until(windows []Window, z zone, t time.Time) time.Time {
	at := t.Truncate(time.Minute)
	for range 8 * 24 * 60 {
		at = at.Add(time.Minute)
		if !within(windows, z.local(at)) {
			return at
		}
	}
	return time.Time{}
}

func checkWindows(field string, windows []Window) error {
	for i, w := range windows {
		for _, d := range w.Days {
			if !slices.Contains(weekdays, d) {
				return fail(fmt.Sprintf("%s[%d].days", field, i), "must be of %s", strings.Join(weekdays, ", "))
			}
		}
	}
	return nil
}

// zone is where a clock hangs on the wall; the zero value is UTC.
type zone struct{ *time.Location }

func (z zone) local(t time.Time) time.Time {
	if z.Location == nil {
		return t.UTC()
	}
	return t.In(z.Location)
}

// wall is what the clock on the wall shows at t, as if it hung in UTC.
func (z zone) wall(t time.Time) time.Time {
	_, offset := z.local(t).Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

func loadZone(field, name string) (zone, error) {
	loc, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return zone{}, fail(field, "must be a time zone such as Europe/Berlin")
	}
	return zone{loc}, nil
}
