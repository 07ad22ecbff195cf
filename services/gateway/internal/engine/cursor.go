package engine

import (
	"encoding/base64"
	"fmt"

	"github.com/banksman/banksman/pkg/journal"
)

// position is where the projection stands in the two streams it follows. The
// creation times are the epochs: a stream made anew invalidates every cursor.
type position struct {
	eventsEpoch, events           int64
	transcriptsEpoch, transcripts int64
}

func (p position) String() string {
	s := fmt.Sprintf("%d.%d.%d.%d", p.eventsEpoch, p.events, p.transcriptsEpoch, p.transcripts)
	return base64.RawURLEncoding.EncodeToString([]byte(s))
}

// parseCursor reads a client's cursor; ok is false for anything else.
func parseCursor(s string) (p position, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(raw) > 100 {
		return p, false
	}
	var rest string
	n, _ := fmt.Sscanf(string(raw), "%d.%d.%d.%d%s", &p.eventsEpoch, &p.events, &p.transcriptsEpoch, &p.transcripts, &rest)
	return p, n == 4 && p.events >= 0 && p.transcripts >= 0
}

// sameEpoch reports whether both positions are in the same streams.
func (p position) sameEpoch(q position) bool {
	return p.eventsEpoch == q.eventsEpoch && p.transcriptsEpoch == q.transcriptsEpoch
}

// covers reports whether everything at q is at or before p.
func (p position) covers(q position) bool {
	return p.sameEpoch(q) && q.events <= p.events && q.transcripts <= p.transcripts
}

func after(update, cursor string) bool {
	u, ok1 := parseCursor(update)
	c, ok2 := parseCursor(cursor)
	return !ok1 || !ok2 || !c.covers(u)
}

func positionOf(events, transcripts journal.Position) position {
	return position{
		eventsEpoch: events.Created.UnixNano(), events: int64(events.Last),
		transcriptsEpoch: transcripts.Created.UnixNano(), transcripts: int64(transcripts.Last),
	}
}
