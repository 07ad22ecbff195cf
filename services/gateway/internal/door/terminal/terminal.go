// Package terminal lets terminals in. Who wants one in brings the code that it shows:
// what it asks is told to nobody who does not know the code. Only where one person uses
// an installation on their own machine there is nobody else whom it could be about, and
// that person is asked.
package terminal

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/auth"
	"github.com/banksman/banksman/services/gateway/internal/door/httpjson"
)

const (
	maxBody = 8 << 10 // bytes
	// lookLimit bounds how long the notices of a gateway wait for the list of users.
	lookLimit = 2 * time.Second
)

// Desk serves what people say of terminals. All but BaseURL are required.
type Desk struct {
	Auth    *auth.Store
	BaseURL *url.URL // that people use; none is a loopback address
	Logger  *slog.Logger
}

// Handler serves somebody who is signed in.
type Handler = func(http.ResponseWriter, *http.Request, *auth.Session)

// Routes adds the routes.
func (d *Desk) Routes(person func(pattern string, h Handler)) {
	person("GET /api/cli-logins", d.list)
	person("GET /api/cli-logins/{code}", d.find)
	person("POST /api/cli-logins/{code}", d.answer)
}

// Alone reports whether one person alone uses the installation, from its own machine. What
// cannot be known is no.
func (d *Desk) Alone(ctx context.Context) bool {
	if u := d.BaseURL; u != nil && u.Hostname() != "localhost" && !net.ParseIP(u.Hostname()).IsLoopback() {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	others, err := d.Auth.Users(ctx)
	if err != nil {
		d.Logger.Warn("a terminal is offered to nobody: users not listed", "error", err)
		return false
	}
	return len(others) == 0
}

func (d *Desk) list(w http.ResponseWriter, r *http.Request, sess *auth.Session) {
	if sess.Person.Kind != "person" {
		refuse(w, "only people let terminals in")
		return
	}
	out := wire.CLIRequests{Requests: []wire.CLIRequest{}}
	if IsOwner(sess) && d.Alone(r.Context()) {
		list, err := d.Auth.WaitingCLI(r.Context())
		if err != nil {
			d.unavailable(w, err)
			return
		}
		out.Requests = append(out.Requests, list...)
	}
	httpjson.Write(w, http.StatusOK, out)
}

// IsOwner reports whether a session is the one person's who may be alone.
func IsOwner(sess *auth.Session) bool {
	return sess.Person.Kind == "person" && sess.Person.ID == auth.OwnerID
}

// find tells of the terminal that shows a code.
func (d *Desk) find(w http.ResponseWriter, r *http.Request, sess *auth.Session) {
	if !browser(w, sess) {
		return
	}
	list, err := d.Auth.WaitingCLI(r.Context())
	if err != nil {
		d.unavailable(w, err)
		return
	}
	i := slices.IndexFunc(list, func(q wire.CLIRequest) bool { return q.Code == r.PathValue("code") })
	if i < 0 {
		unknown(w)
		return
	}
	httpjson.Write(w, http.StatusOK, list[i])
}

func (d *Desk) answer(w http.ResponseWriter, r *http.Request, sess *auth.Session) {
	var in wire.CLIAnswer
	if !httpjson.Read(w, r, maxBody, &in) {
		return
	}
	if in.Allow == nil {
		httpjson.Invalid(w, hitl.Invalid("allow", "is missing"))
		return
	}
	if !browser(w, sess) {
		return
	}
	err := d.Auth.ConfirmCLI(r.Context(), r.PathValue("code"), *in.Allow, sess.Person)
	switch {
	case errors.Is(err, auth.ErrUnknown):
		unknown(w)
	case err != nil:
		d.unavailable(w, err)
	default:
		httpjson.Write(w, http.StatusOK, wire.OK{OK: true})
	}
}

// browser refuses what is no person at a browser: a terminal must not let in another.
func browser(w http.ResponseWriter, sess *auth.Session) bool {
	switch {
	case sess.Person.Kind != "person":
		refuse(w, "only people let terminals in")
	case sess.Via == auth.ViaCLI:
		refuse(w, "a terminal's session cannot let in another terminal")
	default:
		return true
	}
	return false
}

func refuse(w http.ResponseWriter, words string) {
	httpjson.Fail(w, http.StatusForbidden, string(hitl.Forbidden), words)
}

func unknown(w http.ResponseWriter) {
	httpjson.Fail(w, http.StatusNotFound, string(hitl.NotFound), "no terminal waits with this code")
}

func (d *Desk) unavailable(w http.ResponseWriter, err error) {
	d.Logger.Warn("terminal logins not read or answered", "error", err)
	httpjson.Fail(w, http.StatusServiceUnavailable, string(hitl.Unavailable), "the requests of terminals cannot be read or answered now")
}
