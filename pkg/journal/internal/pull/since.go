package pull

import (
	"strings"
	"time"

	"github.com/banksman/banksman/pkg/wire"
)

// Since is the time of a message that was stored at that time: what an owner left for
// a gateway is as old as it was then.
func Since(subj string, header map[string][]string, stored time.Time) time.Time {
	v := header[wire.HeaderLeftAt]
	if len(v) != 1 || !strings.HasPrefix(subj, "hitl.req.") && !strings.HasPrefix(subj, "hitl.cxl.") {
		return stored
	}
	left, err := time.Parse(time.RFC3339Nano, v[0])
	if err != nil || left.After(stored) {
		return stored
	}
	return left
}
