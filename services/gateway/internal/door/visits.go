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
	own := func(pattern string, do func(r *http.Request, sess *auth.Session) (any, error)) {
		person(pattern, func(w http.ResponseWriter, r *http.Request, sess *auth.Session) {
			if sess.Person.Kind != "person" {
				fail(w, http.StatusForbidden, string(hitl.Forbidden), "only people sign in; tokens of programs are listed elsewhere")
				return
			}
			switch out, err := do(r, sess); {
			case errors.Is(err, visit.ErrUnknown):
				fail(w, http.StatusNotFound, string(hitl.NotFound), err.Error())
			case err != nil:
				d.authError(w, err, "reading or ending sign-ins")
			default:
				reply(w, http.StatusOK, out)
			}
		})
	}
	own("GET /api/sign-ins", func(r *http.Request, sess *auth.Session) (any, error) {
		list, err := d.Visits.List(r.Context(), sess)
		return wire.SignInList{SignIns: list}, err
	})
	own("DELETE /api/sign-ins/{id}", func(r *http.Request, sess *auth.Session) (any, error) {
		return wire.OK{OK: true}, d.Visits.End(r.Context(), sess, r.PathValue("id"))
	})
	own("POST /api/logout/others", func(r *http.Request, sess *auth.Session) (any, error) {
		return wire.OK{OK: true}, d.Auth.RevokeAll(r.Context(), sess.Person.ID, sess.Hash)
	})
}
