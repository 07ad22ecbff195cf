package door

import (
	"net/http"

	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/auth"
	"github.com/banksman/banksman/services/gateway/internal/door/act"
)

func (d *Door) startSession(w http.ResponseWriter, r *http.Request, sess *auth.Session) {
	var in wire.Client
	if !read(w, r, maxBody, &in) {
		return
	}
	rec := d.desk.Start(r.Context(), sess, in)
	answer(w, rec, wire.SessionStarted{SessionID: rec.SessionID})
}

func (d *Door) startDemo(w http.ResponseWriter, r *http.Request, sess *auth.Session) {
	rec := d.desk.Start(r.Context(), sess, wire.Client{Runtime: act.DemoRuntime})
	answer(w, rec, wire.SessionStarted{SessionID: rec.SessionID})
}

func (d *Door) command(kind string) signedIn {
	return func(w http.ResponseWriter, r *http.Request, sess *auth.Session) {
		var in wire.Client
		// What needs no more than the address needs no body.
		if r.ContentLength != 0 && !read(w, r, maxBody, &in) {
			return
		}
		in.SessionID = r.PathValue("id")
		rec := d.desk.Send(r.Context(), sess, kind, in)
		answer(w, rec, wire.OK{OK: true})
	}
}

func (d *Door) seen(w http.ResponseWriter, r *http.Request, sess *auth.Session) {
	var in wire.Seen
	if read(w, r, maxSmall, &in) {
		answer(w, wire.Receipt{Receipt: d.Presence.See(sess, in.Requests)}, wire.OK{OK: true})
	}
}
