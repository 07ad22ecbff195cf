package door

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/auth"
	"github.com/banksman/banksman/services/gateway/internal/door/act"
	"github.com/banksman/banksman/services/gateway/internal/door/httpjson"
	"github.com/banksman/banksman/services/gateway/internal/door/origin"
	"github.com/banksman/banksman/services/gateway/internal/door/socket"
	"github.com/banksman/banksman/services/gateway/internal/door/terminal"
	"github.com/banksman/banksman/services/gateway/internal/history"
	"github.com/banksman/banksman/services/gateway/internal/metrics"
	"github.com/banksman/banksman/services/gateway/internal/presence"
	"github.com/banksman/banksman/services/gateway/internal/pushes"
	"github.com/banksman/banksman/services/gateway/internal/role"
	"github.com/banksman/banksman/services/gateway/internal/roster"
	"github.com/banksman/banksman/services/gateway/internal/rulebook"
	"github.com/banksman/banksman/services/gateway/internal/visit"
)

// Options wire a Door. Engine, Asker, History, NotifierListens, AlertsOf, Channels, Presence, Auth, Visits,
// Rules, Pushes, Logger, Web, Links and Hosts are required.
type Options struct {
	Engine api.Engine
	Asker  api.Asker
	// History searches the record.
	History interface {
		Search(ctx context.Context, s role.Set, q history.Query) (wire.ListReply, error)
	}
	// NotifierListens reports whether a notifier waits for the next event.
	NotifierListens func(context.Context) (bool, error)
	// AlertsOf tells what became of the alerts about the interaction of a key.
	AlertsOf func(ctx context.Context, key string) (*wire.Alerts, error)
	// Channels are those by which the notifier tells people; nil where it does not say.
	Channels func(context.Context) ([]wire.AlertChannel, error)
	// Presence passes on what people have before their eyes.
	Presence *presence.Desk
	Auth     *auth.Store
	Visits   *visit.Log
	Rules    *rulebook.Desk
	Pushes   *pushes.Desk
	Logger   *slog.Logger
	Web      fs.FS        // the built web app
	Links    http.Handler // the pages that alerts lead to
	// Hosts are the values of the Host header that are served.
	Hosts []string
	// BaseURL is the address people use; its origin is trusted.
	BaseURL *url.URL
	// Origins are other sites, each scheme://host[:port], whose pages may call
	// this gateway and load its elements.
	Origins []string
	// DefaultCwd, Tenant and Pool are where a new session runs that names none.
	DefaultCwd, Tenant, Pool string
	AskCommand               string // how one asks from a shell here
	Limits                   socket.Limits
}

// Door serves people. Run keeps its sockets.
type Door struct {
	Options
	log       *slog.Logger
	desk      *act.Desk
	terminals *terminal.Desk
	hub       *socket.Hub
	draining  atomic.Bool
	leaving   chan struct{} // closed when Run's context has ended
	streams   counter
	alerts    roster.Alerts
	handler   http.Handler
	// patterns are the routes, for comparing them with what is published.
	patterns []string
}

// New makes a Door.
func New(o Options) (*Door, error) {
	o.Limits = o.Limits.WithDefaults()
	d := &Door{Options: o, log: o.Logger.With("component", "door"), leaving: make(chan struct{})}
	d.desk = &act.Desk{Engine: o.Engine, Auth: o.Auth, Logger: d.log, DefaultCwd: o.DefaultCwd, AskCommand: o.AskCommand, Tenant: o.Tenant, Pool: o.Pool, Presence: o.Presence}
	d.terminals = &terminal.Desk{Auth: o.Auth, BaseURL: o.BaseURL, Logger: d.log}
	d.hub = socket.NewHub(socket.Options{
		Desk: d.desk, Terminals: d.terminals, Auth: o.Auth, Visits: o.Visits, Logger: d.log, BaseURL: o.BaseURL, Origins: o.Origins, Limits: o.Limits,
	})
	web, err := newStatic(o.Web)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	others := origin.New(o.Origins)
	mux.Handle("/api/", others.Share(httpjson.Errors(d.routes())))
	mux.Handle("/"+elementsFile, others.Share(web))
	for pattern, h := range map[string]http.HandlerFunc{
		"GET /healthz": func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, wire.OK{OK: true}) },
		"GET /readyz":  d.readyz,
	} {
		d.patterns = append(d.patterns, pattern)
		mux.HandleFunc(pattern, h)
	}
	mux.Handle("/", web)
	mux.Handle("/l/", o.Links)
	d.handler = d.guard(mux)
	return d, nil
}

// Handler serves the routes.
func (d *Door) Handler() http.Handler { return d.handler }

// Run keeps the sockets until ctx ends, tells them then that the server goes
// away, and returns when all are gone, which is bounded.
func (d *Door) Run(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() { close(d.leaving) })
	defer stop()
	d.hub.Run(ctx)
}

// Stats is how many readers there are, and how they keep up.
func (d *Door) Stats() metrics.Sockets {
	s := metrics.Sockets{Streams: d.streams.all()}
	s.Open, s.Queued, s.Slow = d.hub.Stats()
	return s
}

// Notice tells everybody who is signed in what happened to the tokens.
func (d *Door) Notice(n auth.Notice) { d.hub.Notice(n) }

func (d *Door) readyz(w http.ResponseWriter, _ *http.Request) {
	if err := d.Health(); err != nil {
		fail(w, http.StatusServiceUnavailable, "unavailable", "not ready: "+err.Error())
		return
	}
	reply(w, http.StatusOK, wire.OK{OK: true})
}

// Drain makes the door say that it is not ready, while it serves on.
func (d *Door) Drain() { d.draining.Store(true) }

// Health is nil while decisions can be taken.
func (d *Door) Health() error {
	if d.draining.Load() {
		return errors.New("about to end")
	}
	select {
	case <-d.Engine.Ready():
		return d.Engine.Healthy()
	default:
		return errors.New("still loading what is open")
	}
}

// contentPolicy lets the page load its own files and talk to its own server,
// and nothing else: no inline script, no frames, no other origin.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; " +
	"font-src 'self'; connect-src 'self'; manifest-src 'self'; worker-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// guard is what every request passes first: it speaks to this server by a name
// that is ours (a page that rebinds its own name to 127.0.0.1 does not), and
// nothing unsafe comes from another site.
func (d *Door) guard(next http.Handler) http.Handler {
	cross := http.NewCrossOriginProtection()
	if d.BaseURL != nil {
		// An address without a scheme and host was refused before.
		_ = cross.AddTrustedOrigin(d.BaseURL.Scheme + "://" + d.BaseURL.Host)
	}
	for _, o := range d.Origins {
		_ = cross.AddTrustedOrigin(o)
	}
	cross.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fail(w, http.StatusForbidden, "forbidden", "the request comes from another site")
	}))
	next = cross.Handler(next)
	locked := origin.Locked(d.BaseURL, contentPolicy)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		maps.Copy(w.Header(), locked)
		// Probes come by address; they tell and change nothing.
		if probe := r.URL.Path == "/healthz" || r.URL.Path == "/readyz"; !probe && !d.ownHost(r.Host) {
			fail(w, http.StatusMisdirectedRequest, "misdirected", "this server does not answer to the name "+act.Clip(r.Host))
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (d *Door) ownHost(host string) bool {
	for _, h := range d.Hosts {
		if strings.EqualFold(h, host) {
			return true
		}
	}
	return d.BaseURL != nil && strings.EqualFold(d.BaseURL.Host, host)
}

// bearer is the session of a request, nil and an answer if there is none.
func (d *Door) bearer(w http.ResponseWriter, r *http.Request) *auth.Session {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if token = strings.TrimSpace(token); !ok || token == socket.CookieToken {
		token = socket.Cookie(r)
		ok = token != ""
	}
	if !ok {
		w.Header().Set("WWW-Authenticate", "Bearer")
		fail(w, http.StatusUnauthorized, "unauthorized", "sign in first: the Authorization header brings no session token")
		return nil
	}
	sess, err := d.Auth.Check(r.Context(), token)
	switch {
	case errors.Is(err, auth.ErrUnknown):
		signInAgain(w)
		return nil
	case err != nil:
		d.log.Warn("session not checked", "error", err)
		fail(w, http.StatusServiceUnavailable, "unavailable", "the session cannot be checked now")
		return nil
	}
	sess.From = socket.From(r)
	d.Visits.Note(r.Context(), sess, sess.From, r.UserAgent())
	return sess
}

func signInAgain(w http.ResponseWriter) {
	w.Header().Set("WWW-Authenticate", "Bearer")
	fail(w, http.StatusUnauthorized, "unauthorized", "sign in again: the session token is unknown or has expired")
}
