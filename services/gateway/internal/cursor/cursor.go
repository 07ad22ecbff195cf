// Package cursor is a place in the two streams that a gateway follows, as
// clients hold it: opaque, and valid on every gateway.
package cursor

import (
	"encoding/base64"
	"fmt"

	"github.com/banksman/banksman/pkg/journal"
)

// Position is a sequence in each of the two streams. The creation times are
// the epochs: a stream made anew invalidates every cursor, and so does a record
// that was put back.
type Position struct {
	EventsEpoch, Events           int64
	TranscriptsEpoch, Transcripts int64
}

func (p Position) String() string {
	s := fmt.Sprintf("%d.%d.%d.%d", p.EventsEpoch, p.Events, p.TranscriptsEpoch, p.Transcripts)
	return base64.RawURLEncoding.EncodeToString([]byte(s))
}

// Parse reads a client's cursor; ok is false for anything else.
func Parse(s string) (p Position, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(raw) > 100 {
		return p, false
	}
	var rest string
	n, _ := fmt.Sscanf(string(raw), "%d.%d.%d.%d%s", &p.EventsEpoch, &p.Events, &p.TranscriptsEpoch, &p.Transcripts, &rest)
	return p, n == 4 && p.Events >= 0 && p.Transcripts >= 0
}

// SameEpoch reports whether both positions are in the same streams.
func (p Position) SameEpoch(q Position) bool {
	return p.EventsEpoch == q.EventsEpoch && p.TranscriptsEpoch == q.TranscriptsEpoch
}

// Covers reports whether everything at q is at or before p.
func (p Position) Covers(q Position) bool {
	return p.SameEpoch(q) && q.Events <= p.Events && q.Transcripts <= p.Transcripts
}

// Later is the cursor that covers both; one that cannot be read counts for
// nothing.
func Later(a, b string) string {
	p, ok1 := Parse(a)
	q, ok2 := Parse(b)
	switch {
	case !ok1 || ok2 && !p.SameEpoch(q):
		return b
	case !ok2:
		return a
	}
	p.Events, p.Transcripts = max(p.Events, q.Events), max(p.Transcripts, q.Transcripts)
	return p.String()
}

// After reports whether what is at update is not yet covered by cursor. What
// cannot be read covers nothing.
func After(update, cursor string) bool {
	u, ok1 := Parse(update)
	c, ok2 := Parse(cursor)
	return !ok1 || !ok2 || !c.Covers(u)
}

// Of is where both streams end, in an epoch of the record.
func Of(epoch int64, events, transcripts journal.Position) Position {
	return Position{
		EventsEpoch: events.Created.UnixNano() + epoch, Events: int64(events.Last),
		TranscriptsEpoch: transcripts.Created.UnixNano(), Transcripts: int64(transcripts.Last),
	}
}
