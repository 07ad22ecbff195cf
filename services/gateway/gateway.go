package gateway

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os/user"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/bus/credential"
	"github.com/banksman/banksman/pkg/bus/dial"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/journal/epoch"
	parts "github.com/banksman/banksman/pkg/metrics"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/trace"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/alerts"
	"github.com/banksman/banksman/services/gateway/internal/ask"
	"github.com/banksman/banksman/services/gateway/internal/auth"
	"github.com/banksman/banksman/services/gateway/internal/door"
	"github.com/banksman/banksman/services/gateway/internal/engine"
	"github.com/banksman/banksman/services/gateway/internal/feed"
	"github.com/banksman/banksman/services/gateway/internal/forwarded"
	"github.com/banksman/banksman/services/gateway/internal/history"
	"github.com/banksman/banksman/services/gateway/internal/issuer"
	"github.com/banksman/banksman/services/gateway/internal/linkpage"
	"github.com/banksman/banksman/services/gateway/internal/metrics"
	"github.com/banksman/banksman/services/gateway/internal/policy"
	"github.com/banksman/banksman/services/gateway/internal/presence"
	"github.com/banksman/banksman/services/gateway/internal/projection"
	"github.com/banksman/banksman/services/gateway/internal/pushes"
	"github.com/banksman/banksman/services/gateway/internal/quota"
	"github.com/banksman/banksman/services/gateway/internal/rulebook"
	"github.com/banksman/banksman/services/gateway/internal/svc"
	"github.com/banksman/banksman/services/gateway/internal/ticket"
	"github.com/banksman/banksman/services/gateway/internal/traced"
	"github.com/banksman/banksman/services/gateway/internal/visit"
	"github.com/banksman/banksman/services/gateway/web"
)

// DefaultAddr is where a gateway listens that is not told otherwise.
const DefaultAddr = "127.0.0.1:8080"

// DefaultOrphanAfter is how long a worker may be silent unless somebody says otherwise,
// MinOrphanAfter what people may say: with less, a heartbeat that is late could end what
// a live worker asks.
const (
	DefaultOrphanAfter = 5 * time.Minute
	MinOrphanAfter     = projection.UnreachableAge
)

// Options wire a Gateway. Only Credentials is required.
type Options struct {
	Logger *slog.Logger // nil discards
	// Credentials is the gateway's identity on the bus, with its signing key.
	Credentials *bus.Credentials
	// NATS are more options of the connection, for example an in-process
	// server or TLS.
	NATS []nats.Option
	// Listener is where people are served; it is closed by Run, or by a New
	// that fails. Without one the gateway listens on Addr (DefaultAddr).
	Listener net.Listener
	Addr     string
	// BaseURL is the address people use, for links; default http:// and the
	// listener's address.
	BaseURL string
	// Origins are other sites, each https://host[:port] or http:// on loopback,
	// whose pages may embed this gateway. Whoever uses them hands them a session
	// token, with which they can decide.
	Origins []string
	// AllowRemote lets the gateway listen beyond loopback. BaseURL must be
	// https then: something in front of the gateway has to end TLS.
	AllowRemote bool
	// TrustedProxies are addresses, networks and names of hosts that say in
	// X-Forwarded-For where a request came from; the record has that.
	TrustedProxies []string
	// Web is the built web app; default is the one built into this module.
	Web fs.FS
	// OrphanAfter is how long a worker may be silent before what it asked
	// counts as orphaned; 0 takes DefaultOrphanAfter.
	OrphanAfter time.Duration
	// Tenant and Pool are where sessions start that name none; default
	// "default" and "agents".
	Tenant, Pool string
	// DefaultCwd is where a session runs that names no directory.
	DefaultCwd string
	// AskCommand is what people are shown as the way to ask from a shell, up to the
	// flags of the request; empty: nobody knows one that works here.
	AskCommand string
	// Critical are paths and words that make a tool call critical.
	Critical []string
	// Quota is what each owner may use; nil: DefaultQuota.
	Quota *Quota
	// PersonName is what the person who signs in is called; default the name
	// of the operating system's user.
	PersonName string
	// OIDC is an issuer that vouches for people; nil: none does.
	OIDC *OIDC
	// Drain is how long a gateway that was told to end still serves and says that
	// it is not ready, so that a proxy sends people elsewhere before it is gone.
	Drain time.Duration
	// Tracer gets the spans of interactions whose asker traces them; nil: none.
	Tracer oteltrace.TracerProvider
	// TestLogin, if set, is a file that gets a valid session token. For tests
	// of a whole installation: whoever reads the file can decide.
	TestLogin string
}

// Quota bounds each owner's use of what all share; zero fields are no limit.
type Quota = quota.Limits

// OIDC is an issuer of sign-ins, and what its groups may do here.
type OIDC = issuer.Options

// DefaultQuota leaves room for hundreds of busy workers, and for some of them
// running wild for days before the streams are full. What one owner may tell of its
// sessions in the 30 days that are kept fits the stream of it.
func DefaultQuota() Quota {
	return Quota{Open: 5000, OpenBytes: 128 << 20, DayBytes: 1 << 30, DayTalk: 1 << 30, Sessions: 5000, DayRefusals: 1000}
}

// Gateway is a running gateway.
type Gateway struct {
	log    *slog.Logger
	conn   *dial.Conn
	talk   *dial.Conn // what owners tell of their sessions; it can be much
	listen net.Listener
	// Whose word on where a request came from is believed.
	proxies *forwarded.Proxies
	drain   time.Duration
	base    *url.URL
	engine  *engine.Engine
	auth    *auth.Store
	visits  *visit.Log
	rules   *rulebook.Book
	feed    *feed.Desk
	asker   *bus.Client
	door    *door.Door
	svc     *svc.Service
	counts  *metrics.Metrics
}

// New connects and checks what the gateway stands on: it refuses to start on
// streams that have lost a guarantee. ctx bounds New only. Run must be called
// afterwards, also to release what New holds.
func New(ctx context.Context, o Options) (g *Gateway, err error) {
	o.setDefaults()
	g = &Gateway{log: o.Logger.With("component", "gateway"), drain: o.Drain}
	g.listen = o.Listener
	defer func() {
		if err != nil {
			g.release()
			g = nil
		}
	}()
	if o.Credentials == nil {
		return g, errors.New("gateway: no credentials")
	}
	if err := g.bind(ctx, &o); err != nil {
		return g, fmt.Errorf("gateway: %w", err)
	}
	ring := credential.NewKeyring(o.Credentials, g.log)
	if _, _, err := ring.Signer(); err != nil {
		return g, fmt.Errorf("gateway: %w", err)
	}
	if g.conn, err = dial.Service(ctx, "gateway", o.Credentials, o.NATS, g.log); err != nil {
		return g, err
	}
	if g.talk, err = dial.Service(ctx, "gateway, conversations", o.Credentials, o.NATS, g.log); err != nil {
		return g, err
	}
	if err := journal.Check(ctx, g.conn.Conn, journal.Config{Tenants: []string{o.Tenant}}); err != nil {
		return g, fmt.Errorf("gateway: %w", err)
	}
	records := journal.New(g.conn.Conn, journal.Options{
		Logger: o.Logger,
		Current: func() (journal.Signer, map[string]ed25519.PublicKey) {
			id, key, _ := ring.Signer() // there is one, see above
			return journal.Signer{KeyID: id, Key: key}, ring.Public()
		},
	})
	g.auth, err = auth.Open(ctx, auth.Options{
		Conn: g.conn.Conn, Logger: o.Logger, Person: hitl.Principal{Kind: "person", ID: auth.OwnerID, Name: o.PersonName},
		BaseURL: g.base, OIDC: o.OIDC,
	})
	if err != nil {
		return g, fmt.Errorf("gateway: %w", err)
	}
	g.visits, err = visit.Open(ctx, visit.Options{Conn: g.conn.Conn, Auth: g.auth, Logger: g.log})
	if err != nil {
		return g, fmt.Errorf("gateway: %w", err)
	}
	g.rules, err = rulebook.Open(ctx, rulebook.Options{
		Conn: g.conn.Conn, Logger: o.Logger, Rights: g.auth.Standing,
	})
	if err != nil {
		return g, fmt.Errorf("gateway: %w", err)
	}
	g.feed = feed.New(g.conn.Conn, g.log)
	g.counts = metrics.New(g.Health)
	since, err := epoch.Read(ctx, g.conn.Conn)
	if err != nil {
		return g, fmt.Errorf("gateway: %w", err)
	}
	g.engine = engine.New(engine.Options{
		Journal: traced.Over(g.feed.Over(records), trace.New(o.Tracer)), Conn: g.conn.Conn, Talk: g.talk.Conn, Logger: o.Logger, OrphanAfter: o.OrphanAfter, Critical: o.Critical,
		Quota: *o.Quota, Rules: g.rules, Metrics: g.counts, Epoch: since,
	})
	tickets, err := ticket.Open(ctx, ticket.Options{
		Conn: g.conn.Conn, Engine: g.engine, People: g.auth, Logger: g.log, BaseURL: g.base,
	})
	if err != nil {
		return g, fmt.Errorf("gateway: %w", err)
	}
	browsers, err := pushes.Open(ctx, pushes.Options{Conn: g.conn.Conn, Auth: g.auth, Logger: g.log, PublicKey: o.Credentials.PushPublicKey})
	if err != nil {
		return g, fmt.Errorf("gateway: %w", err)
	}
	// What people and callers ask goes the way of every asker, on a connection of
	// its own.
	g.asker, err = bus.Connect(ctx, o.Credentials, bus.Options{Name: "banksman gateway, asking", Logger: o.Logger, Nats: o.NATS, Tracer: o.Tracer})
	if err != nil {
		return g, fmt.Errorf("gateway: %w", err)
	}
	desk := &ask.Desk{Client: g.asker, Logger: g.log}
	past := history.New(history.Options{
		Record: records, Keys: ring.Public, Logger: g.log, Policy: policy.Policy{Critical: o.Critical}, Clock: time.Now,
	})
	g.door, err = door.New(door.Options{
		Engine: g.engine, Asker: desk, History: past,
		NotifierListens: func(ctx context.Context) (bool, error) { return records.NotifierListens(ctx, o.Tenant) },
		AlertsOf:        (&alerts.Desk{Conn: g.conn.Conn}).Of,
		Channels: func(ctx context.Context) ([]wire.AlertChannel, error) {
			return (&alerts.Desk{Conn: g.conn.Conn, Wait: time.Second}).Channels(ctx, o.Tenant)
		},
		Presence: presence.New(presence.Options{
			Waiting: g.engine.Waiting, Logger: g.log,
			Tell: func(r subject.Ref) error { return g.conn.Publish(subject.Seen(r), nil) },
		}),
		Auth: g.auth, Visits: g.visits, Rules: &rulebook.Desk{Book: g.rules, Engine: g.engine},
		Pushes: &pushes.Desk{Store: browsers, Tickets: tickets, Logger: g.log},
		Links:  &linkpage.Page{Options: linkpage.Options{Tickets: tickets, Engine: g.engine, People: g.auth, Logger: g.log}},
		Logger: o.Logger, Web: o.Web, Hosts: hosts(g.listen.Addr()),
		BaseURL: g.base, Origins: o.Origins, DefaultCwd: o.DefaultCwd, AskCommand: o.AskCommand, Tenant: o.Tenant, Pool: o.Pool,
	})
	if err != nil {
		return g, fmt.Errorf("gateway: %w", err)
	}
	g.svc = svc.New(svc.Options{
		Conn: g.conn.Conn, Engine: g.engine, Asker: desk, Auth: g.auth, Tickets: tickets, Pushes: browsers, Logger: o.Logger, BaseURL: g.base, Tenant: o.Tenant,
	})
	g.measure()
	if o.TestLogin != "" {
		return g, g.testLogin(ctx, o.TestLogin)
	}
	return g, nil
}

func (o *Options) setDefaults() {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Addr = cmp.Or(o.Addr, DefaultAddr)
	o.Tenant = cmp.Or(o.Tenant, bus.DefaultTenant)
	o.Pool = cmp.Or(o.Pool, "agents")
	o.OrphanAfter = cmp.Or(o.OrphanAfter, DefaultOrphanAfter)
	if o.Quota == nil {
		q := DefaultQuota()
		o.Quota = &q
	}
	if o.Web == nil {
		o.Web = web.FS()
	}
	if o.PersonName == "" {
		o.PersonName = "You"
		if u, err := user.Current(); err == nil {
			name, _, _ := strings.Cut(u.Name, ",") // the rest of a GECOS field is no name
			o.PersonName = cmp.Or(strings.TrimSpace(name), u.Username, o.PersonName)
		}
	}
}

// bind checks the options and listens.
func (g *Gateway) bind(ctx context.Context, o *Options) error {
	said, err := o.read()
	if err != nil {
		return err
	}
	g.base, g.proxies, o.Origins = said.base, said.proxies, said.origins
	if g.listen == nil {
		var lc net.ListenConfig
		if g.listen, err = lc.Listen(ctx, "tcp", o.Addr); err != nil {
			return err
		}
	}
	if g.base == nil {
		g.base = &url.URL{Scheme: "http", Host: g.listen.Addr().String()}
	}
	return nil
}

// hosts are the names by which this machine's own browser reaches the listener.
func hosts(addr net.Addr) []string {
	_, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return nil
	}
	var list []string
	for _, h := range []string{"127.0.0.1", "localhost", "::1"} {
		list = append(list, net.JoinHostPort(h, port))
	}
	if port == "80" { // browsers leave it out
		list = append(list, "127.0.0.1", "localhost", "[::1]")
	}
	return list
}

// Addr is the address the gateway listens on.
func (g *Gateway) Addr() string { return g.listen.Addr().String() }

// Login returns an address that signs in once, within ten minutes.
func (g *Gateway) Login(ctx context.Context) (string, error) {
	token, _, err := g.auth.Link(ctx)
	if err != nil {
		return "", fmt.Errorf("gateway: %w", err)
	}
	return auth.LinkURL(g.base, token), nil
}

// Ready is closed once the gateway knows what is open and takes decisions.
func (g *Gateway) Ready() <-chan struct{} { return g.engine.Ready() }

// Health is nil while decisions can be taken; the error says why not. It is
// what /readyz says.
func (g *Gateway) Health() error { return g.door.Health() }

// Metrics is what the gateway counts, and what it looks at when it is asked.
func (g *Gateway) Metrics() prometheus.Gatherer { return g.counts.Registry }

func (g *Gateway) measure() {
	view := g.engine.View()
	g.counts.Look(metrics.Source{
		Clock: time.Now, Open: view.Open, Workers: view.Workers, Sessions: view.SessionStates, Skew: g.engine.Skew, Sockets: g.door.Stats,
	})
	g.counts.Streams(g.conn.Conn)
	parts.Conn(g.counts.Registry, metrics.Part, "records", g.conn.Conn)
	parts.Conn(g.counts.Registry, metrics.Part, "conversations", g.talk.Conn)
}

// lame is ctx and the drain after it; g says meanwhile that it is not ready.
func (g *Gateway) lame(ctx context.Context) (context.Context, context.CancelFunc) {
	if g.drain <= 0 {
		return context.WithCancel(ctx)
	}
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		g.log.Info("draining", "for", g.drain)
		g.door.Drain()
		select {
		case <-time.After(g.drain):
		case <-longer.Done():
		}
		cancel()
	})
	return longer, func() { stop(); cancel() }
}

// release gives back what New took.
func (g *Gateway) release() {
	if g.listen != nil {
		_ = g.listen.Close() // closed by the server already, or not needed
	}
	if g.asker != nil {
		g.asker.Close() // what it asked stays open
	}
	if g.talk != nil {
		g.talk.Shut()
	}
	if g.conn != nil {
		g.conn.Shut()
	}
}

// Bounds of stopping.
const (
	httpWait   = 5 * time.Second
	followWait = time.Second
)

// Run serves until ctx ends, which is no error, or until the gateway cannot do
// its work any more.
func (g *Gateway) Run(ctx context.Context) error {
	defer g.release()
	// The front ends first, so that what it began can still be stored.
	served, stopServing := g.lame(ctx)
	defer stopServing()
	front, stopFront := context.WithCancelCause(served)
	defer stopFront(nil)
	back, stopBack := context.WithCancel(context.WithoutCancel(ctx))
	defer stopBack()

	var rear, fore sync.WaitGroup
	rear.Go(func() {
		err := g.engine.Run(back)
		if err == nil && back.Err() == nil {
			err = errors.New("the engine stopped by itself")
		}
		if err != nil {
			stopFront(fmt.Errorf("gateway: %w", err))
		}
	})
	fore.Go(func() {
		select {
		case <-g.conn.Gone():
			stopFront(fmt.Errorf("gateway: the connection to NATS is closed: %w", g.conn.Why()))
		case <-g.talk.Gone():
			stopFront(fmt.Errorf("gateway: the connection to NATS is closed: %w", g.talk.Why()))
		case <-g.asker.Done():
			stopFront(fmt.Errorf("gateway: the connection to NATS is closed: %w", g.asker.Err()))
		case <-front.Done():
		}
	})
	fore.Go(func() {
		if err := g.feed.Run(front); err != nil {
			stopFront(fmt.Errorf("gateway: %w", err))
		}
	})
	fore.Go(func() {
		if err := g.svc.Run(front); err != nil {
			stopFront(fmt.Errorf("gateway: %w", err))
		}
	})
	fore.Go(func() {
		g.follow(front, "sign-ins", func(ctx context.Context) error { return g.auth.Follow(ctx, g.door.Notice) })
	})
	rear.Go(func() {
		g.follow(back, "rules", func(ctx context.Context) error { return g.rules.Follow(ctx, g.door.RulesChanged) })
	})
	fore.Go(func() { g.door.Run(front) })

	server := &http.Server{
		Handler: g.proxies.Handler(g.door.Handler()), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second,
		WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10,
		ErrorLog: slog.NewLogLogger(g.log.Handler(), slog.LevelDebug),
	}
	fore.Go(func() {
		if err := server.Serve(g.listen); !errors.Is(err, http.ErrServerClosed) {
			stopFront(fmt.Errorf("gateway: %w", err))
		}
	})
	g.log.Info("serving", "addr", g.Addr(), "url", g.base.String())
	<-front.Done()
	g.log.Info("stopping")
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), httpWait)
	defer cancel()
	if server.Shutdown(limit) != nil {
		_ = server.Close() // whoever still talks is cut
	}
	fore.Wait()
	stopBack()
	rear.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return context.Cause(front)
}

// follow keeps up with what other gateways do too.
func (g *Gateway) follow(ctx context.Context, what string, fn func(context.Context) error) {
	for {
		err := fn(ctx)
		if ctx.Err() != nil {
			return
		}
		g.counts.Restarted(what)
		g.log.Warn(what+" are not followed, trying again", "error", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(followWait):
		}
	}
}
