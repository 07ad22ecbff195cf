package door

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/auth"
	"github.com/banksman/banksman/services/gateway/internal/door/mailbox"
	"github.com/banksman/banksman/services/gateway/internal/sight"
)

// streamPage is how much of a replay is written at once, in bytes.
const streamPage = 64 << 10

// out writes one event stream.
type out struct {
	bytes.Buffer
	w       http.ResponseWriter
	rc      *http.ResponseController
	d       *Door
	through func() // called when the reader took something
}

// begin answers with the head of an event stream.
func (d *Door) begin(w http.ResponseWriter, through func()) *out {
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Time{}) // where the server has none there is nothing to lift
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // a proxy must not collect events
	w.WriteHeader(http.StatusOK)
	return &out{w: w, rc: rc, d: d, through: through}
}

// send writes what was collected; false once the reader is gone.
func (o *out) send() bool {
	_ = o.rc.SetWriteDeadline(time.Now().Add(o.d.Limits.Write))
	_, err := o.w.Write(o.Bytes())
	o.Reset()
	if err != nil || o.rc.Flush() != nil {
		return false
	}
	o.through()
	return true
}

// page is send where enough was collected.
func (o *out) page() bool { return o.Len() <= streamPage || o.send() }

// pump writes whatever drain collects at each wake, and beats, until the reader
// is gone, too slow or signed out (drain returns false), or the server leaves.
func (o *out) pump(r *http.Request, wake <-chan struct{}, drain func() bool, beat func()) {
	beats := time.NewTicker(o.d.Limits.Ping)
	defer beats.Stop()
	for {
		select {
		case <-r.Context().Done():
			return
		case <-o.d.leaving:
			return
		case <-beats.C:
			beat()
		case <-wake:
			if !drain() {
				return
			}
		}
		if o.Len() > 0 && !o.send() {
			return
		}
	}
}

// events serves a session as server-sent events: what is stored after
// Last-Event-ID, then what happens. A reader that is too slow is cut and comes
// back with the last id it has.
func (d *Door) events(w http.ResponseWriter, r *http.Request, sess *auth.Session) {
	key, err := d.desk.Session(sess, r.PathValue("id"))
	if err != nil {
		d.engineError(w, err, "session")
		return
	}
	if !d.streams.enter(sess.Person.ID, d.Limits.Sockets) {
		fail(w, http.StatusTooManyRequests, "too_many", "too many event streams of one person")
		return
	}
	defer d.streams.leave(sess.Person.ID)
	box := mailbox.New[api.Update](d.Limits.Queue, d.Limits.Patience)
	quit, ok := d.hub.Listen(r.Context(), sess, func([]byte) {}, box.End)
	if !ok {
		signInAgain(w)
		return
	}
	defer quit()
	from := r.Header.Get("Last-Event-ID")
	d.reach(r, from)
	watch := d.Engine.Watch(d.Engine.Cursor(), func(u api.Update) {
		if u.SessionKey != key || len(u.Events) == 0 {
			return
		}
		n := 0
		for i := range u.Events {
			n += len(u.Events[i].Data) + 100
		}
		box.Put(u, n, "")
	})
	defer watch.Stop()
	stored, reset, err := d.Engine.Transcript(r.Context(), key, from, watch.Cursor)
	if err != nil {
		d.engineError(w, err, "session")
		return
	}
	cut := func(events []wire.Event) []wire.Event {
		if sess.Rights.All() {
			return events
		}
		return sight.Events(sess.Rights, d.desk.Place(key), events)
	}
	stored = cut(stored)
	o := d.begin(w, box.Through)
	if reset || from == "" {
		// Without an id: what follows is the whole.
		o.WriteString("event: reset\ndata: {}\n\n")
	}
	for i := range stored {
		writeEvent(&o.Buffer, stored, i)
		if !o.page() {
			return
		}
	}
	o.WriteString(": live\n\n")
	if !o.send() {
		return
	}
	o.pump(r, box.Wake, func() bool {
		list, ok := box.Take()
		if !ok {
			return false
		}
		for _, l := range list {
			if l.What.Stored && !l.What.After(watch.Cursor) {
				continue
			}
			events := cut(l.What.Events)
			for i := range events {
				writeEvent(&o.Buffer, events, i)
			}
			if !o.page() {
				return false
			}
		}
		return true
	}, func() { o.WriteString(": beat\n\n") })
}

// writeEvent writes events[i]. Only the last event of a cursor carries it as
// its id: whoever resumes after it has seen them all.
func writeEvent(b *bytes.Buffer, events []wire.Event, i int) {
	e := &events[i]
	if e.Cursor != "" && (i == len(events)-1 || events[i+1].Cursor != e.Cursor) {
		fmt.Fprintf(b, "id: %s\n", e.Cursor)
	}
	fmt.Fprintf(b, "event: %s\n", oneLine(e.Type))
	// A field that readers who do not know it skip.
	fmt.Fprintf(b, "at: %s\n", e.At.UTC().Format(time.RFC3339Nano))
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

// reach gives the gateway time to come to what the reader has seen on another one.
func (d *Door) reach(r *http.Request, from string) {
	ctx, cancel := context.WithTimeout(r.Context(), d.Limits.Behind)
	defer cancel()
	d.Engine.Reach(ctx, from)
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

func (c *counter) all() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, open := range c.n {
		n += open
	}
	return n
}

func (c *counter) leave(person string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n[person]--; c.n[person] <= 0 {
		delete(c.n, person)
	}
}
