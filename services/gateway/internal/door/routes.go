package door

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/auth"
	"github.com/banksman/banksman/services/gateway/internal/contract"
	"github.com/banksman/banksman/services/gateway/internal/cursor"
	"github.com/banksman/banksman/services/gateway/internal/door/terminal"
	"github.com/banksman/banksman/services/gateway/internal/sight"
)

// List limits.
const (
	defaultList = 200
	maxList     = 1000
)

type signedIn func(w http.ResponseWriter, r *http.Request, sess *auth.Session)

func (d *Door) routes() *http.ServeMux {
	mux := http.NewServeMux()
	serve := func(pattern string, h http.HandlerFunc) {
		d.patterns = append(d.patterns, pattern)
		mux.HandleFunc(pattern, h)
	}
	person := func(pattern string, h signedIn) {
		serve(pattern, func(w http.ResponseWriter, r *http.Request) {
			if sess := d.bearer(w, r); sess != nil {
				h(w, r, sess)
			}
		})
	}
	// What is asked of the engine waits for it: half a list would say that
	// nothing else is open.
	with := func(pattern string, h signedIn) {
		person(pattern, func(w http.ResponseWriter, r *http.Request, sess *auth.Session) {
			select {
			case <-d.Engine.Ready():
				h(w, r, sess)
			default:
				fail(w, http.StatusServiceUnavailable, string(hitl.Unavailable), "still loading what is open; try again")
			}
		})
	}
	serve("GET /api/openapi.json", document(contract.OpenAPI))
	serve("GET /api/frames.schema.json", document(contract.Frames))
	serve("POST /api/login", d.login)
	serve("GET /api/ws", d.websocket)
	person("POST /api/logout", d.logout)
	person("POST /api/logout/everywhere", d.logoutEverywhere)
	d.managing(person)
	d.visiting(person)
	d.Pushes.Routes(serve, func(pattern string, h func(http.ResponseWriter, *http.Request, *auth.Session)) { person(pattern, h) })
	d.signingIn(serve, person)
	person("GET /api/me", d.me)
	d.terminals.Routes(func(pattern string, h terminal.Handler) { person(pattern, h) })
	with("GET /api/interactions", d.interactions)
	with("POST /api/interactions", d.ask)
	with("GET /api/interactions/{id}", d.interaction)
	with("POST /api/interactions/{id}/decision", d.decision)
	with("GET /api/interactions/{id}/audience", d.audience)
	with("GET /api/interactions/{id}/alerts", d.alertsOf)
	with("POST /api/seen", d.seen)
	d.ruling(with)
	with("GET /api/services", d.services)
	with("GET /api/events", d.feed)
	with("GET /api/sessions", d.sessions)
	with("POST /api/sessions", d.startSession)
	with("POST /api/demo", d.startDemo)
	with("GET /api/sessions/{id}/events", d.events)
	with("POST /api/sessions/{id}/approve", d.simple(hitl.KindApproval, hitl.VerbAllow))
	with("POST /api/sessions/{id}/deny", d.simple(hitl.KindApproval, hitl.VerbDeny))
	with("POST /api/sessions/{id}/submit-answers", d.simple(hitl.KindQuestion, hitl.VerbAnswer))
	with("POST /api/sessions/{id}/message", d.command(hitl.CommandMessage))
	with("POST /api/sessions/{id}/interrupt", d.command(hitl.CommandInterrupt))
	with("POST /api/sessions/{id}/stop", d.command(hitl.CommandStop))
	with("POST /api/sessions/{id}/mode", d.command(hitl.CommandSetMode))
	return mux
}

func (d *Door) login(w http.ResponseWriter, r *http.Request) {
	var in wire.LinkToken
	if !read(w, r, maxSmall, &in) {
		return
	}
	if in.Token == "" {
		failInvalid(w, hitl.Invalid("token", "is missing"))
		return
	}
	token, sess, err := d.Auth.Exchange(r.Context(), in.Token)
	switch {
	case errors.Is(err, auth.ErrUnknown):
		fail(w, http.StatusUnauthorized, "unauthorized", "the link was used or has expired; banksman login prints a new one")
	case err != nil:
		d.log.Warn("login failed", "error", err)
		fail(w, http.StatusServiceUnavailable, "unavailable", "nobody can sign in now")
	default:
		d.enter(w, r, token, sess)
	}
}

func (d *Door) logout(w http.ResponseWriter, r *http.Request, sess *auth.Session) {
	if sess.Person.Kind != "person" {
		fail(w, http.StatusForbidden, string(hitl.Forbidden), "a token of a program is revoked by whoever manages tokens")
		return
	}
	if err := d.Auth.Revoke(r.Context(), sess.Hash); err != nil {
		d.log.Warn("logout failed", "error", err)
		fail(w, http.StatusServiceUnavailable, "unavailable", "the session could not be ended now")
		return
	}
	d.forget(w, r)
	reply(w, http.StatusOK, wire.OK{OK: true})
}

func (d *Door) me(w http.ResponseWriter, _ *http.Request, s *auth.Session) {
	reply(w, http.StatusOK, wire.Me{
		Principal: s.Person, Channel: s.Channel, Assurance: s.Assurance, Via: s.Via, ExpiresAt: s.ExpiresAt,
		Roles: s.Rights, Passkey: s.HasPasskey, Manages: s.Manages(),
	})
}

func (d *Door) interactions(w http.ResponseWriter, r *http.Request, sess *auth.Session) {
	q := r.URL.Query()
	state := q.Get("state")
	if state == "" {
		state = wire.StatePending
	}
	switch state {
	case wire.StatePending, wire.StateClosed:
	case wire.StateDecided:
		d.search(w, r, sess)
		return
	default:
		failInvalid(w, hitl.Invalid("state", "must be pending, closed or decided"))
		return
	}
	limit := defaultList
	if text := q.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxList {
			failInvalid(w, hitl.Invalid("limit", "must be 1 to %d", maxList))
			return
		}
		limit = n
	}
	after, ok := cursor.ParseRow(q.Get("after"))
	if q.Get("after") != "" && !ok {
		failInvalid(w, hitl.Invalid("after", "is not the next of a list"))
		return
	}
	list, more, err := d.Engine.List(r.Context(), api.List{State: state, Limit: limit, After: after, Sees: sight.Lists(sess.Rights)})
	if err != nil {
		d.engineError(w, err, "interaction")
		return
	}
	out := wire.ListReply{Interactions: sight.Interactions(sess.Rights, list)}
	if more && len(list) > 0 {
		out.Next = cursor.RowOf(&list[len(list)-1]).String()
	}
	reply(w, http.StatusOK, out)
}

func (d *Door) interaction(w http.ResponseWriter, r *http.Request, sess *auth.Session) {
	ix, err := d.Engine.Interaction(r.Context(), r.PathValue("id"))
	if err != nil {
		d.engineError(w, err, "interaction")
		return
	}
	seen, ok := sight.Interaction(sess.Rights, *ix)
	if !ok {
		d.engineError(w, api.ErrNotFound, "interaction")
		return
	}
	reply(w, http.StatusOK, seen)
}

func (d *Door) sessions(w http.ResponseWriter, _ *http.Request, sess *auth.Session) {
	// The cursor is read first: what changes in between is told again.
	out := wire.SessionList{Cursor: d.Engine.Cursor(), Sessions: sight.States(sess.Rights, d.Engine.Sessions())}
	if out.Sessions == nil {
		out.Sessions = []wire.ProcessState{}
	}
	reply(w, http.StatusOK, out)
}

// engineError answers for an error of the engine.
func (d *Door) engineError(w http.ResponseWriter, err error, what string) {
	status, text := d.desk.Describe(err, what)
	fail(w, statusOf(status), string(status), text)
}

func (d *Door) websocket(w http.ResponseWriter, r *http.Request) {
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		w.Header().Set("Upgrade", "websocket")
		fail(w, http.StatusUpgradeRequired, "upgrade_required", "this address speaks WebSocket")
		return
	}
	d.hub.Accept(w, r)
}
