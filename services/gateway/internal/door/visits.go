package door

import (
	"errors"
	"net/http"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/auth"
	"github.com/banksman/banksman/services/gateway/internal/visit"
)

// visiting adds the routes by which people see where they are signed in.
func (d *Door) visiting(person func(string, signedIn)) {
	own := func(pattern string, h signedIn) {
		person(pattern, func(w http.ResponseWriter, r *http.Request, sess *auth.Session) {
			if sess.Person.Kind != "person" {
				fail(w, http.StatusForbidden, string(hitl.Forbidden), "only people sign in; tokens of programs are listed elsewhere")
				return
			}
			h(w, r, sess)
		})
	}
	own("GET /api/sign-ins", func(w http.ResponseWriter, r *http.Request, sess *auth.Session) {
		list, err := d.Visits.List(r.Context(), sess)
		if err != nil {
			d.authError(w, err, "listing sign-ins")
			return
		}
		reply(w, http.StatusOK, wire.SignInList{SignIns: list})
	})
	own("DELETE /api/sign-ins/{id}", func(w http.ResponseWriter, r *http.Request, sess *auth.Session) {
		err := d.Visits.End(r.Context(), sess, r.PathValue("id"))
		if errors.Is(err, visit.ErrUnknown) {
			fail(w, http.StatusNotFound, string(hitl.NotFound), err.Error())
			return
		}
		d.told(w, sess, err)
	})
	own("POST /api/logout/others", func(w http.ResponseWriter, r *http.Request, sess *auth.Session) {
		d.told(w, sess, d.Auth.RevokeAll(r.Context(), sess.Person.ID, sess.Hash))
	})
}

func (d *Door) told(w http.ResponseWriter, sess *auth.Session, err error) {
	if err != nil {
		d.authError(w, err, "ending sign-ins")
		return
	}
	d.log.Info("sign-ins ended", "person", sess.Person.ID)
	reply(w, http.StatusOK, wire.OK{OK: true})
}
