package engine

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
)

// errPast ends a read that has reached where live updates take over.
var errPast = errors.New("past the position")

// Transcript implements API. The two streams are merged by the times at which
// the server stored each message, so that every replay has one order.
func (e *Engine) Transcript(ctx context.Context, id, from, upto string) ([]wire.Event, bool, error) {
	e.mu.Lock()
	key, err := e.sessionByID(id)
	now := e.pos
	e.mu.Unlock()
	if err != nil {
		return nil, false, err
	}
	start, ok := parseCursor(from)
	reset := from != "" && (!ok || !start.sameEpoch(now))
	if reset || from == "" {
		start = position{}
	}
	end, ok := parseCursor(upto)
	if !ok || !end.sameEpoch(now) {
		end = now
	}
	var talk, asks []wire.Event
	cursor := end
	cursor.events, cursor.transcripts = start.events, start.transcripts
	read := func(stream string, from, upto int64, filters []string, fn func(journal.Message)) error {
		if upto <= from {
			return nil
		}
		err := e.opts.Journal.Read(ctx, stream, uint64(from)+1, filters, func(m journal.Message) error {
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
	err = read(journal.Transcripts, start.transcripts, end.transcripts,
		[]string{subject.Transcript(key), subject.State(key)}, func(m journal.Message) {
			ev, ok := agentEvent(m)
			if strings.HasPrefix(m.Subject, "hitl.ses.") {
				var st hitl.SessionState
				ok = json.Unmarshal(m.Data, &st) == nil && subject.NewSession(st.Tenant, st.Owner, st.SessionID) == key
				ev = statusEvent(&st, m)
			}
			if ok {
				c := cursor
				c.transcripts = int64(m.Seq)
				ev.Cursor = c.String()
				talk = append(talk, ev)
			}
		})
	if err != nil {
		return nil, false, err
	}
	filter := "hitl.ixe." + key.Tenant + "." + key.Owner + "." + key.ID + ".*.*"
	err = read(journal.Events, start.events, end.events, []string{filter}, func(m journal.Message) {
		c := cursor
		c.events = int64(m.Seq)
		for _, ev := range eventsOf(m) {
			ev.Cursor = c.String()
			asks = append(asks, ev)
		}
	})
	if err != nil {
		return nil, false, err
	}
	all := append(talk, asks...)
	slices.SortStableFunc(all, func(a, b wire.Event) int { return a.At.Compare(b.At) })
	// A cursor names a position in both streams: in the merged order it covers
	// what came before in either.
	run := cursor
	for i := range all {
		c, _ := parseCursor(all[i].Cursor)
		run.events, run.transcripts = max(run.events, c.events), max(run.transcripts, c.transcripts)
		all[i].Cursor = run.String()
	}
	return all, reset, nil
}

// eventsOf expands a stored open or closed event.
func eventsOf(m journal.Message) []wire.Event {
	p, err := subject.Parse(m.Subject)
	if err != nil {
		return nil
	}
	if p.Tail == subject.Open {
		var ev wire.Opened
		if json.Unmarshal(m.Data, &ev) != nil {
			return nil
		}
		if raw, err := base64.StdEncoding.DecodeString(ev.RequestB64); err == nil && len(raw) > 0 {
			if r, err := hitl.ParseRequest(raw); err == nil {
				ev.Summary.Body = small(body(r))
			}
		}
		return openEvents(&ev.Summary, m)
	}
	var ev wire.Ended
	if json.Unmarshal(m.Data, &ev) != nil {
		return nil
	}
	return closedEvents(&ev.Closed, m)
}
