package pushes

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/auth"
	"github.com/banksman/banksman/services/gateway/internal/door/httpjson"
	"github.com/banksman/banksman/services/gateway/internal/door/socket"
	"github.com/banksman/banksman/services/gateway/internal/ticket"
)

// maxBody fits a subscription and a token, in bytes.
const maxBody = 8 << 10

// Desk serves browsers.
type Desk struct {
	*Store
	Tickets *ticket.Book
	Logger  *slog.Logger
}

// Routes adds the routes. What person adds takes a session, what serve adds does
// not: a service worker has none.
func (d *Desk) Routes(serve func(string, http.HandlerFunc), person func(string, func(http.ResponseWriter, *http.Request, *auth.Session))) {
	own := func(pattern string, do func(r *http.Request, sess *auth.Session, in *wire.PushSubscription) (any, error)) {
		person(pattern, func(w http.ResponseWriter, r *http.Request, sess *auth.Session) {
			if sess.Person.Kind != "person" || sess.Via == auth.ViaCLI {
				httpjson.Fail(w, http.StatusForbidden, string(hitl.Forbidden), "only people at a browser want pushes")
				return
			}
			var in wire.PushSubscription
			if r.Method == http.MethodPost && !httpjson.Read(w, r, maxBody, &in) {
				return
			}
			out, err := do(r, sess, &in)
			d.answer(w, out, err)
		})
	}
	own("GET /api/push", func(r *http.Request, sess *auth.Session, _ *wire.PushSubscription) (any, error) {
		return d.List(r.Context(), sess)
	})
	own("POST /api/push", func(r *http.Request, sess *auth.Session, in *wire.PushSubscription) (any, error) {
		renewal, err := d.Add(r.Context(), sess, *in, r.UserAgent())
		if err != nil {
			return nil, err
		}
		out, err := d.List(r.Context(), sess)
		out.Renewal = renewal
		return out, err
	})
	own("DELETE /api/push/{id}", func(r *http.Request, sess *auth.Session, _ *wire.PushSubscription) (any, error) {
		return wire.OK{OK: true}, d.Remove(r.Context(), sess, r.PathValue("id"))
	})
	serve("POST /api/push/renewal", func(w http.ResponseWriter, r *http.Request) {
		var in wire.PushRenewal
		if httpjson.Read(w, r, maxBody, &in) {
			d.answer(w, wire.OK{OK: true}, d.Renew(r.Context(), in))
		}
	})
	serve("POST /api/push/decision", d.decide)
}

func (d *Desk) answer(w http.ResponseWriter, out any, err error) {
	var inv *hitl.InvalidError
	switch {
	case err == nil:
		httpjson.Write(w, http.StatusOK, out)
	case errors.As(err, &inv):
		httpjson.Invalid(w, inv)
	case errors.Is(err, ErrUnknown):
		httpjson.Fail(w, http.StatusNotFound, string(hitl.NotFound), err.Error())
	default:
		if !errors.Is(err, context.Canceled) {
			d.Logger.Warn("browsers of a person not read or written", "error", err)
		}
		httpjson.Fail(w, http.StatusServiceUnavailable, string(hitl.Unavailable), "this cannot be done now; try again")
	}
}

// decide takes what somebody decided by the button of a notification, and answers with
// the receipt.
func (d *Desk) decide(w http.ResponseWriter, r *http.Request) {
	var in wire.TicketUse
	if !httpjson.Read(w, r, maxBody, &in) {
		return
	}
	u := ticket.Use{Token: in.Token, Via: wire.TicketPush, AsTold: true, From: socket.From(r)}
	u.Decision = in.Decision
	// What is no ticket is refused below, with the words for it.
	t, err := d.Tickets.Read(r.Context(), in.Token)
	if err != nil && !errors.Is(err, ticket.ErrUnknown) {
		d.answer(w, nil, err)
		return
	}
	if err == nil && t.Via == wire.TicketPush {
		counts, err := d.Counts(r.Context(), t.People[0], t.CreatedAt)
		if err != nil {
			d.answer(w, nil, err)
			return
		}
		if !counts {
			httpjson.Fail(w, http.StatusForbidden, string(hitl.Forbidden), "a browser was signed out since this was told, so its button counts no more: open it")
			return
		}
	}
	rec := d.Tickets.Decide(r.Context(), u)
	if status := httpjson.StatusOf(rec.Status); status != http.StatusOK {
		httpjson.Write(w, status, wire.Error{Code: string(rec.Status), Error: rec.Error, Fields: rec.Fields, Decision: rec.Decision})
		return
	}
	httpjson.Write(w, http.StatusOK, rec)
}
