// Package replay reads a session's stream from the record.
package replay

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/card"
	"github.com/banksman/banksman/services/gateway/internal/cursor"
)

// errPast ends a read that has reached where live updates take over.
var errPast = errors.New("past the position")

// Kept is the position after which everything is stored: what the streams had before
// has been trimmed.
func Kept(ctx context.Context, j journal.Journal, epoch int64) (cursor.Position, error) {
	events, err := j.Position(ctx, journal.Events)
	if err != nil {
		return cursor.Position{}, err
	}
	transcripts, err := j.Position(ctx, journal.Transcripts)
	if err != nil {
		return cursor.Position{}, err
	}
	at := cursor.Of(epoch, events, transcripts)
	at.Events, at.Transcripts = int64(max(events.First, 1)-1), int64(max(transcripts.First, 1)-1)
	return at, nil
}

// Read returns what is stored of a session after start and not after end. The
// two streams are merged by the times at which the server stored each message,
// so that every replay has one order.
func Read(ctx context.Context, j journal.Journal, key subject.Session, start, end cursor.Position) ([]wire.Event, error) {
	var talk, asks []wire.Event
	at := end
	at.Events, at.Transcripts = start.Events, start.Transcripts
	read := func(stream string, from, upto int64, filters []string, fn func(journal.Message)) error {
		if upto <= from {
			return nil
		}
		err := j.Read(ctx, stream, uint64(from)+1, filters, func(m journal.Message) error {
			if m.Seq > uint64(upto) {
				return errPast
			}
			fn(m)
			return nil
		})
		if errors.Is(err, errPast) {
			return nil
		}
		return err
	}
	err := read(journal.Transcripts, start.Transcripts, end.Transcripts,
		[]string{subject.Transcript(key), subject.State(key)}, func(m journal.Message) {
			ev, ok := card.FromAgent(m)
			if strings.HasPrefix(m.Subject, "hitl.ses.") {
				var st hitl.SessionState
				st, ok = card.ReadState(key, m.Data)
				ev = card.Status(&st, m)
			}
			if ok {
				c := at
				c.Transcripts = int64(m.Seq)
				ev.Cursor = c.String()
				talk = append(talk, ev)
			}
		})
	if err != nil {
		return nil, err
	}
	filter := "hitl.ixe." + key.Tenant + "." + key.Owner + "." + key.ID + ".*.*"
	err = read(journal.Events, start.Events, end.Events, []string{filter}, func(m journal.Message) {
		c := at
		c.Events = int64(m.Seq)
		for _, ev := range card.Stored(m) {
			ev.Cursor = c.String()
			asks = append(asks, ev)
		}
	})
	if err != nil {
		return nil, err
	}
	all := append(talk, asks...)
	slices.SortStableFunc(all, func(a, b wire.Event) int { return a.At.Compare(b.At) })
	// A cursor names a position in both streams: in the merged order it covers
	// what came before in either.
	run := at
	for i := range all {
		c, _ := cursor.Parse(all[i].Cursor)
		run.Events, run.Transcripts = max(run.Events, c.Events), max(run.Transcripts, c.Transcripts)
		all[i].Cursor = run.String()
	}
	return all, nil
}
