package display

import (
	"fmt"
	"time"
)

// Budget words a duration for a person: "10 minutes", "90 seconds".
func Budget(d time.Duration) string {
	unit, n := "second", int64(d/time.Second)
	switch {
	case d >= time.Hour && d%time.Hour == 0:
		unit, n = "hour", int64(d/time.Hour)
	case d >= time.Minute && d%time.Minute == 0:
		unit, n = "minute", int64(d/time.Minute)
	case d < time.Second:
		return d.String()
	case d%time.Second != 0:
		return d.String()
	}
	if n != 1 {
		unit += "s"
	}
	return fmt.Sprintf("%d %s", n, unit)
}
