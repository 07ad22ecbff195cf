package door

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/auth"
)

// streamPage is how much of a replay is written at once, in bytes.
const streamPage = 64 << 10

// stream is a reader of one session's events over HTTP.
type stream struct {
	key   string
	limit int
	wake  chan struct{} // capacity 1

	mu    sync.Mutex
	queue []api.Update
	owed  int // bytes that wait
	slow  bool
}

// onUpdate is called by the engine and must not block.
func (st *stream) onUpdate(u api.Update) {
	if u.SessionKey != st.key || len(u.Events) == 0 {
		return
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	n := 0
	for i := range u.Events {
		n += len(u.Events[i].Data) + 100
	}
	if st.owed > 0 && st.owed+n > st.limit {
		st.slow, st.queue = true, nil
	}
	if !st.slow {
		st.queue = append(st.queue, u)
		st.owed += n
	}
	select {
	case st.wake <- struct{}{}:
	default:
	}
}

func (st *stream) take() (list []api.Update, slow bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	list, st.queue, st.owed = st.queue, nil, 0
	return list, st.slow
}

// events serves a session as server-sent events: what is stored after
// Last-Event-ID, then what happens. A reader that is too slow is cut and comes
// back with the last id it has.
func (d *Door) events(w http.ResponseWriter, r *http.Request, sess *auth.Session) {
	key, err := d.Engine.ResolveSession(r.PathValue("id"))
	if err != nil {
		d.engineError(w, err, "session")
		return
	}
	if !d.streams.enter(sess.Person.ID, d.Limits.Sockets) {
		fail(w, http.StatusTooManyRequests, "too_many", "too many event streams of one person")
		return
	}
	defer d.streams.leave(sess.Person.ID)
	st := &stream{key: key, limit: d.Limits.Queue, wake: make(chan struct{}, 1)}
	from := r.Header.Get("Last-Event-ID")
	reach, cancel := context.WithTimeout(r.Context(), d.Limits.Behind)
	d.Engine.Reach(reach, from)
	cancel()
	watch := d.Engine.Watch(d.Engine.Cursor(), st.onUpdate)
	defer watch.Stop()
	stored, reset, err := d.Engine.Transcript(r.Context(), key, from, watch.Cursor)
	if err != nil {
		d.engineError(w, err, "session")
		return
	}
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Time{}) // where the server has none there is nothing to lift
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // a proxy must not collect events
	w.WriteHeader(http.StatusOK)

	var b bytes.Buffer
	send := func() bool {
		_ = rc.SetWriteDeadline(time.Now().Add(d.Limits.Write))
		_, err := w.Write(b.Bytes())
		b.Reset()
		return err == nil && rc.Flush() == nil
	}
	if reset || from == "" {
		// Without an id: what follows is the whole.
		b.WriteString("event: reset\ndata: {}\n\n")
	}
	for i := range stored {
		writeEvent(&b, stored, i)
		if b.Len() > streamPage && !send() {
			return
		}
	}
	b.WriteString(": live\n\n")
	if !send() {
		return
	}
	beat := time.NewTicker(d.Limits.Ping)
	defer beat.Stop()
	recheck := time.NewTicker(d.Limits.Recheck)
	defer recheck.Stop()
	for {
		select {
		case <-r.Context().Done():
			return
		case <-d.leaving:
			return
		case <-recheck.C:
			if d.ended(r, sess) {
				return
			}
			continue
		case <-beat.C:
			b.WriteString(": beat\n\n")
		case <-st.wake:
			list, slow := st.take()
			if slow {
				return
			}
			for _, u := range list {
				if u.Stored && !u.After(watch.Cursor) {
					continue
				}
				for i := range u.Events {
					writeEvent(&b, u.Events, i)
				}
			}
		}
		if b.Len() > 0 && !send() {
			return
		}
	}
}

// writeEvent writes events[i]. Only the last event of a cursor carries it as
// its id: whoever resumes after it has seen them all.
func writeEvent(b *bytes.Buffer, events []wire.Event, i int) {
	e := &events[i]
	if e.Cursor != "" && (i == len(events)-1 || events[i+1].Cursor != e.Cursor) {
		fmt.Fprintf(b, "id: %s\n", e.Cursor)
	}
	fmt.Fprintf(b, "event: %s\n", oneLine(e.Type))
	// JSON holds no raw line break; a stored one would end the field.
	fmt.Fprintf(b, "data: %s\n\n", oneLine(string(e.Data)))
}

// oneLine replaces line breaks, which in JSON can only be white space.
func oneLine(s string) string {
	if !strings.ContainsAny(s, "\r\n") {
		return s
	}
	return strings.NewReplacer("\r", " ", "\n", " ").Replace(s)
}

// ended reports that a session is certainly no more; not knowing is not ended.
func (d *Door) ended(r *http.Request, sess *auth.Session) bool {
	_, err := d.Auth.CheckHash(r.Context(), sess.Hash)
	return errors.Is(err, auth.ErrUnknown)
}

// counter counts what each person has open.
type counter struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *counter) enter(person string, limit int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n[person] >= limit {
		return false
	}
	if c.n == nil {
		c.n = map[string]int{}
	}
	c.n[person]++
	return true
}

func (c *counter) leave(person string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n[person]--; c.n[person] <= 0 {
		delete(c.n, person)
	}
}
