package door

import (
	"bytes"
	"encoding/json"
	"net/http"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/auth"
	"github.com/banksman/banksman/services/gateway/internal/door/mailbox"
	"github.com/banksman/banksman/services/gateway/internal/sight"
)

// note is an encoded frame that waits for a reader of the feed.
type note struct {
	cursor string // where the reader stands after it; may be empty
	frame  []byte
}

// feed serves the frames that a WebSocket gets without subscribing, as
// server-sent events: hello, the snapshot or what was missed since
// Last-Event-ID, then every change. A reader that is too slow is cut and comes
// back with the last id it has.
func (d *Door) feed(w http.ResponseWriter, r *http.Request, sess *auth.Session) {
	if !d.streams.enter(sess.Person.ID, d.Limits.Sockets) {
		fail(w, http.StatusTooManyRequests, "too_many", "too many event streams of one person")
		return
	}
	defer d.streams.leave(sess.Person.ID)
	box := mailbox.New[note](d.Limits.Queue, d.Limits.Patience)
	quit, ok := d.hub.Listen(r.Context(), sess, func(frame []byte) { box.Put(note{frame: frame}, len(frame), "") }, box.End)
	if !ok {
		signInAgain(w)
		return
	}
	defer quit()
	from := r.Header.Get("Last-Event-ID")
	cut := sight.NewFrames(sess.Rights, d.desk.Place)
	if cut != nil {
		from = "" // what is hidden may have changed meanwhile: the whole again
	}
	write := func(b *bytes.Buffer, n note) {
		if cut != nil {
			n.frame = cut.Cut(n.frame)
		}
		if len(n.frame) > 0 {
			writeFrame(b, n)
		}
	}
	d.reach(r, from)
	watch := d.Engine.Watch(from, func(u api.Update) {
		if u.All == nil {
			return
		}
		whole := ""
		if u.Whole {
			whole = u.SessionKey
		}
		box.Put(note{u.Cursor, u.All}, len(u.All), whole)
	})
	defer watch.Stop()
	frames, err := d.hub.Welcome(watch, sess)
	if err != nil {
		d.log.Error("snapshot not encoded", "error", err)
		fail(w, http.StatusServiceUnavailable, string(hitl.Unavailable), "the snapshot cannot be shown")
		return
	}
	o := d.begin(w, box.Through)
	for i, frame := range frames {
		// Only after the last one does the reader stand at the cursor: half a
		// snapshot must not be resumed.
		cursor := ""
		if i == len(frames)-1 {
			cursor = watch.Cursor
		}
		write(&o.Buffer, note{cursor, frame})
		if !o.page() {
			return
		}
	}
	if !o.send() {
		return
	}
	o.pump(r, box.Wake, func() bool {
		list, ok := box.Take()
		if !ok {
			return false
		}
		for _, l := range list {
			write(&o.Buffer, l.What)
			if !o.page() {
				return false
			}
		}
		return true
	}, func() {
		if ping, err := hitl.Marshal(wire.Ping{Type: wire.TypePing, ServerTime: time.Now().UTC()}); err == nil {
			writeFrame(&o.Buffer, note{frame: ping})
		}
	})
}

func writeFrame(b *bytes.Buffer, n note) {
	if n.cursor != "" {
		b.WriteString("id: " + n.cursor + "\n")
	}
	b.WriteString("event: " + frameType(n.frame) + "\ndata: " + oneLine(string(n.frame)) + "\n\n")
}

// frameType reads the type out of an encoded frame.
func frameType(frame []byte) string {
	// It comes first in what is encoded here; reading all of a frame only for
	// that would cost every reader.
	if rest, ok := bytes.CutPrefix(frame, []byte(`{"type":"`)); ok {
		if typ, _, ok := bytes.Cut(rest, []byte(`"`)); ok {
			return string(typ)
		}
	}
	var head struct {
		Type string `json:"type"`
	}
	_ = json.Unmarshal(frame, &head) // it was encoded here
	return oneLine(head.Type)
}
