package door

import (
	"errors"
	"net/http"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/auth"
)

// managing adds the routes of those who manage people and tokens.
func (d *Door) managing(person func(string, signedIn)) {
	admin := func(pattern string, h signedIn) {
		person(pattern, func(w http.ResponseWriter, r *http.Request, sess *auth.Session) {
			if !sess.Manages() {
				fail(w, http.StatusForbidden, string(hitl.Forbidden),
					"needs a person who is admin of all projects; a terminal needs banksman login --cli --manage")
				return
			}
			h(w, r, sess)
		})
	}
	admin("GET /api/users", d.users)
	admin("POST /api/users", d.addUser)
	admin("POST /api/users/{id}", d.changeUser)
	admin("POST /api/users/{id}/logout", d.logoutUser)
	admin("POST /api/users/{id}/invite", d.invite)
	admin("GET /api/tokens", d.tokens)
	admin("POST /api/tokens", d.addToken)
	admin("DELETE /api/tokens/{id}", d.revokeToken)
}

// authError answers for an error of the store.
func (d *Door) authError(w http.ResponseWriter, err error, doing string) {
	var inv *hitl.InvalidError
	switch {
	case errors.As(err, &inv):
		failInvalid(w, inv)
	case errors.Is(err, auth.ErrTaken):
		fail(w, http.StatusConflict, "taken", "this id is taken already")
	case errors.Is(err, auth.ErrNoUser), errors.Is(err, auth.ErrNoToken):
		fail(w, http.StatusNotFound, string(hitl.NotFound), err.Error())
	default:
		d.log.Warn(doing+" failed", "error", err)
		fail(w, http.StatusServiceUnavailable, string(hitl.Unavailable), "this cannot be done now; try again")
	}
}

func (d *Door) users(w http.ResponseWriter, r *http.Request, _ *auth.Session) {
	list, err := d.Auth.Users(r.Context())
	if err != nil {
		d.authError(w, err, "listing users")
		return
	}
	reply(w, http.StatusOK, wire.UserList{Users: list})
}

func (d *Door) addUser(w http.ResponseWriter, r *http.Request, sess *auth.Session) {
	var in wire.NewUser
	if !read(w, r, maxManage, &in) {
		return
	}
	u, err := d.Auth.AddUser(r.Context(), in, sess.Person)
	if err != nil {
		d.authError(w, err, "adding a user")
		return
	}
	reply(w, http.StatusOK, u)
}

func (d *Door) changeUser(w http.ResponseWriter, r *http.Request, sess *auth.Session) {
	var in wire.ChangeUser
	if !read(w, r, maxManage, &in) {
		return
	}
	u, err := d.Auth.ChangeUser(r.Context(), r.PathValue("id"), in, sess.Person)
	if err != nil {
		d.authError(w, err, "changing a user")
		return
	}
	reply(w, http.StatusOK, u)
}

func (d *Door) logoutUser(w http.ResponseWriter, r *http.Request, sess *auth.Session) {
	if err := d.Auth.RevokeAll(r.Context(), r.PathValue("id"), ""); err != nil {
		d.authError(w, err, "signing out")
		return
	}
	d.log.Info("signed out everywhere", "user", r.PathValue("id"), "by", sess.Person.ID)
	reply(w, http.StatusOK, wire.OK{OK: true})
}

// logoutEverywhere ends all sessions of a person, this one too.
func (d *Door) logoutEverywhere(w http.ResponseWriter, r *http.Request, sess *auth.Session) {
	if sess.Person.Kind != "person" {
		fail(w, http.StatusForbidden, string(hitl.Forbidden), "a token of a program is revoked by whoever manages tokens")
		return
	}
	if err := d.Auth.RevokeAll(r.Context(), sess.Person.ID, ""); err != nil {
		d.authError(w, err, "signing out")
		return
	}
	d.forget(w, r)
	reply(w, http.StatusOK, wire.OK{OK: true})
}

func (d *Door) tokens(w http.ResponseWriter, r *http.Request, _ *auth.Session) {
	list, err := d.Auth.Tokens(r.Context())
	if err != nil {
		d.authError(w, err, "listing tokens")
		return
	}
	reply(w, http.StatusOK, wire.APITokenList{Tokens: list})
}

func (d *Door) addToken(w http.ResponseWriter, r *http.Request, sess *auth.Session) {
	var in wire.NewAPIToken
	if !read(w, r, maxManage, &in) {
		return
	}
	t, err := d.Auth.NewToken(r.Context(), in, sess.Person)
	if err != nil {
		d.authError(w, err, "making a token")
		return
	}
	reply(w, http.StatusOK, t)
}

func (d *Door) revokeToken(w http.ResponseWriter, r *http.Request, sess *auth.Session) {
	if err := d.Auth.RevokeToken(r.Context(), r.PathValue("id"), sess.Person); err != nil {
		d.authError(w, err, "revoking a token")
		return
	}
	reply(w, http.StatusOK, wire.OK{OK: true})
}
