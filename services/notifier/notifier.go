package notifier

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/bus/dial"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	parts "github.com/banksman/banksman/pkg/metrics"
	"github.com/banksman/banksman/pkg/run"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/trace"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/notifier/internal/channel"
	"github.com/banksman/banksman/services/notifier/internal/channel/decider"
	"github.com/banksman/banksman/services/notifier/internal/channel/press"
	"github.com/banksman/banksman/services/notifier/internal/channel/push"
	"github.com/banksman/banksman/services/notifier/internal/ended"
	"github.com/banksman/banksman/services/notifier/internal/engine"
	"github.com/banksman/banksman/services/notifier/internal/ledger"
	"github.com/banksman/banksman/services/notifier/internal/metrics"
	"github.com/banksman/banksman/services/notifier/internal/plan"
	"github.com/banksman/banksman/services/notifier/internal/source"
	"github.com/banksman/banksman/services/notifier/internal/timer"
)

const (
	// handleLimit bounds the handling of one event; it is shorter than the time
	// after which the event is given to another replica.
	handleLimit = 8 * time.Second
	// retryIn is when an event comes again whose handling did not succeed.
	retryIn = 2 * time.Second
	// claimedIn is when the end of an interaction comes again about which
	// somebody is sending at this moment.
	claimedIn = time.Second
)

// seenPrefix is what stands before the interaction's key in subject.Seen.
const seenPrefix = "hitl.seen."

// Clock tells the time and waits; tests have one of their own.
type Clock = timer.Clock

// Options wire a Notifier.
type Options struct {
	Logger *slog.Logger // nil discards
	// Credentials of the role notifier. Required.
	Credentials *bus.Credentials
	// NATS are further connection options, for example an in-process server.
	NATS   []nats.Option
	Config Config
	// BaseURL is the address people reach the web interface at; links are made
	// of it. Empty: alerts carry no link.
	BaseURL string
	// Clock is the machine's by default.
	Clock Clock
	// Lease is how long another replica waits for one that may be dead before it
	// repeats what that one was sending; default DefaultLease, which is longer than
	// any attempt takes.
	Lease time.Duration
	// Tracer gets a span of each message about an interaction that is traced; nil: none.
	Tracer oteltrace.TracerProvider
}

// DefaultLease is the default of Options.Lease.
const DefaultLease = engine.DefaultLease

// Notifier is one replica of the service.
type Notifier struct {
	log    *slog.Logger
	conn   *dial.Conn
	engine *engine.Engine
	ledger *ledger.Ledger
	policy *plan.Policy
	types  map[string]string // of channels and deciders, by name
	clock  Clock
	tenant string
	seed   []byte // of the credentials; makes the tokens of tickets
	lanes  int
	built  []channel.Channel // closed by Close
	listen []func(context.Context) error
	desk   *bus.Client // calls the gateway
	close  sync.Once
	counts *metrics.Metrics
	// missing: the consumer of the events cannot be reached.
	missing atomic.Bool
	probe   ledger.Probe
}

// New connects, and makes the ledger where it is missing. ctx bounds that only.
// Run or Close gives the connection up again.
func New(ctx context.Context, o Options) (*Notifier, error) {
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	log = log.With("component", "notifier")
	if o.Credentials == nil {
		return nil, errors.New("notifier: Credentials: missing")
	}
	base, err := o.read()
	if err != nil {
		return nil, fmt.Errorf("notifier: %w", err)
	}
	policy, err := o.Config.policy()
	if err != nil {
		return nil, err
	}
	n := &Notifier{log: log, tenant: o.Credentials.Tenant, seed: []byte(o.Credentials.Seed), policy: policy, types: o.Config.types()}
	clock := o.Clock
	if clock == nil {
		clock = timer.System{}
	}
	n.clock = clock
	lanes, built, err := o.Config.lanes(policy, ground{
		logger: log, source: eventSource(base, n.tenant), now: clock.Now,
		desk: func() push.Gateway { return n.desk }, pushKey: func() string { return o.Credentials.PushKey },
	})
	n.lanes, n.built = len(lanes), built
	if err != nil {
		return nil, err
	}
	replica := rand.Text()
	for name, p := range o.Config.listeners(built) {
		d := &press.Desk{
			Gateway: func() press.Gateway { return n.desk }, People: o.Config.people(name), Logger: log.With("channel", name),
			Hold: func(ctx context.Context) (bool, error) {
				now := clock.Now()
				return n.ledger.Hold(ctx, name, replica, now, now.Add(press.HoldFor))
			},
		}
		n.listen = append(n.listen, func(ctx context.Context) error { return p.Listen(ctx, d) })
	}
	asking, built, err := o.Config.asking(asks{
		source: eventSource(base, n.tenant), tenant: n.tenant, clock: clock.Now,
		gateway: func() decider.Gateway { return n.desk },
		bus:     func(ctx context.Context, m *nats.Msg) (*nats.Msg, error) { return n.conn.RequestMsgWithContext(ctx, m) },
	})
	lanes = append(lanes, asking...)
	n.lanes, n.built = len(lanes), append(n.built, built...)
	if err != nil {
		return nil, err
	}
	if n.conn, err = dial.Service(ctx, "notifier", o.Credentials, o.NATS, log); err != nil {
		return nil, err
	}
	l, err := ledger.Open(ctx, n.conn.Conn, o.Config.LedgerReplicas)
	if err != nil {
		n.Close()
		return nil, fmt.Errorf("notifier: %w", err)
	}
	n.ledger = l
	l.WarnOfOne(ctx, log)
	n.desk, err = bus.Connect(ctx, o.Credentials, bus.Options{Name: "banksman notifier, calling", Logger: log, Nats: o.NATS})
	if err != nil {
		n.Close()
		return nil, fmt.Errorf("notifier: %w", err)
	}
	n.counts = metrics.New(n.Health, append(slices.Sorted(maps.Keys(channelTypes)), typeDecider)...)
	n.engine = engine.New(engine.Options{
		Metrics: n.counts, Tracer: trace.New(o.Tracer),
		Logger: log, Ledger: l, Routes: lanes, Policy: policy, Clock: clock, Replica: replica, Lease: cmp.Or(o.Lease, DefaultLease),
		Link: func(key string) string {
			switch {
			case base == "":
				return ""
			case key == "":
				return base + "/"
			}
			return base + "/#/i/" + key
		},
		Ticket: n.ticket,
		Ended:  (&ended.Desk{Gateway: n.desk, Clock: clock, Logger: log}).Ended,
	})
	n.counts.Look(n.engine.Channels, n.sockets)
	parts.Conn(n.counts.Registry, metrics.Part, "events", n.conn.Conn)
	return n, nil
}

// sockets are the states of those by which presses come in.
func (n *Notifier) sockets() (states []string) {
	for _, c := range n.built {
		if c, ok := c.(interface{ Socket() string }); ok && c.Socket() != "" {
			states = append(states, c.Socket())
		}
	}
	return states
}

// ticket has the gateway make what somebody decides by. Its token follows from the
// message's id and a secret that all replicas have and nothing else: so a message that
// is sent again is the same to the last byte, and no ledger holds what it takes to
// decide, not even sealed.
func (n *Notifier) ticket(ctx context.Context, id string, call wire.TicketCall) (*wire.TicketReply, error) {
	mac := hmac.New(sha256.New, n.seed)
	mac.Write([]byte("banksman ticket v1\x00" + id)) // never fails
	call.Token = wire.TicketPrefix + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
	var out wire.TicketReply
	err := n.desk.Call(ctx, wire.VerbTicket, call, &out)
	var refused *bus.ServiceError
	switch {
	case errors.As(err, &refused) && refused.Body.Code == string(hitl.AlreadyDecided):
		return nil, nil // its end is on the way
	case err != nil:
		return nil, err
	}
	return &out, nil
}

// eventSource is the source of the events that webhooks get.
func eventSource(base, tenant string) string {
	if base == "" {
		return "urn:banksman:" + tenant
	}
	return base
}

// Validate reports what New would refuse without asking anybody, by the name of the
// flag. Credentials that are not there yet are left out.
func (o *Options) Validate() error {
	if _, err := o.read(); err != nil {
		return err
	}
	return o.Config.Validate()
}

// read is the address of the web interface, once what else a flag says is checked.
func (o *Options) read() (base string, err error) {
	if c := o.Credentials; c != nil && c.Role != bus.RoleNotifier {
		return "", fmt.Errorf("-creds: they are those of a %s, want a notifier's", c.Role)
	}
	if base, err = baseURL(o.BaseURL); err != nil {
		return "", fmt.Errorf("-base-url: %w", err)
	}
	return base, nil
}

// baseURL checks and trims the address that links begin with.
func baseURL(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", errors.New("not an address such as https://banksman.example.com")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", errors.New("must not contain a user, a query or a fragment")
	}
	return strings.TrimRight(s, "/"), nil
}

// Run works until ctx ends, and returns nil then: attempts under way are
// finished, everything else is left to another replica or the next start. Any
// other end is an error, and the process should be started again.
func (n *Notifier) Run(ctx context.Context) error {
	defer n.Close()
	// A hint: what is not heard only means that somebody is told who need not be.
	// The subscription ends with the connection.
	_, err := n.conn.Subscribe(subject.Seen(subject.Ref{Tenant: n.tenant, Owner: "*", ID: "*"}), func(m *nats.Msg) {
		if ref, ok := subject.ParseRef(strings.TrimPrefix(m.Subject, seenPrefix)); ok {
			n.engine.Seen(ref)
		}
	})
	if err != nil {
		return fmt.Errorf("notifier: %w", err)
	}
	g := run.NewGroup(ctx)
	g.Go("engine", n.engine.Run)
	g.Go("ledger", func(ctx context.Context) error {
		n.probe.Run(ctx, n.ledger, n.log)
		return nil
	})
	for _, listen := range n.listen {
		g.Go("presses", listen)
	}
	g.Go("answers", n.answer)
	g.Go("events", func(ctx context.Context) error {
		return source.Run(ctx, source.Options{
			Logger: n.log, Conn: n.conn.Conn, Stream: journal.Events, Durable: journal.NotifierDurable(n.tenant),
			Handle: n.handle, Idle: n.engine.Idle, Missing: &n.missing,
		})
	})
	g.Go("connection", func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return nil
		case <-n.conn.Gone():
			return n.conn.Why()
		}
	})
	n.log.Info("notifier is running", "addresses", n.lanes)
	if err := g.Wait(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("notifier: %w", err)
	}
	return nil
}

// Metrics is what the notifier counts, and what it looks at when it is asked.
func (n *Notifier) Metrics() prometheus.Gatherer { return n.counts.Registry }

// Health is nil while the server can be reached, the events be read and the ledger be
// read and written; the error says which it is not.
func (n *Notifier) Health() error {
	if !n.conn.IsConnected() {
		return errors.New("the NATS server cannot be reached")
	}
	if n.missing.Load() {
		return errors.New("the events cannot be read: their stream or the notifier's consumer is not there")
	}
	return n.probe.Err()
}

// Close gives the connection up. Run does it by itself.
func (n *Notifier) Close() {
	n.close.Do(func() {
		if n.desk != nil {
			n.desk.Close()
		}
		n.conn.Shut()
		closeAll(n.built)
	})
}

func closeAll(channels []channel.Channel) {
	for _, c := range channels {
		if c, ok := c.(interface{ Close() }); ok {
			c.Close()
		}
	}
}

// handle brings one event into the ledger.
func (n *Notifier) handle(ctx context.Context, ev source.Event) source.Verdict {
	ctx, cancel := context.WithTimeout(ctx, handleLimit)
	defer cancel()
	ctx = trace.Read(ev.Header).In(ctx)
	settled, err := n.apply(ctx, ev)
	var bad *badEvent
	switch {
	case errors.As(err, &bad):
		n.log.ErrorContext(ctx, "an event that cannot be read is dropped", "seq", ev.Seq, "error", err)
		n.counts.Event(metrics.Dropped)
		return source.Drop()
	case err != nil:
		if ctx.Err() == nil || errors.Is(ctx.Err(), context.DeadlineExceeded) {
			n.log.WarnContext(ctx, "an event could not be handled yet", "seq", ev.Seq, "error", err)
		}
		n.counts.Event(metrics.Again)
		return source.Again(retryIn)
	case !settled:
		n.counts.Event(metrics.Again)
		return source.Again(claimedIn)
	}
	n.counts.Event(metrics.Done)
	return source.Done()
}

// badEvent can never be handled.
type badEvent struct{ err error }

func (e *badEvent) Error() string { return e.err.Error() }

func (n *Notifier) apply(ctx context.Context, ev source.Event) (settled bool, err error) {
	ref, opened, closed, err := read(n.tenant, ev)
	switch {
	case err != nil:
		return false, err
	case closed != nil:
		return n.engine.Closed(ctx, ref, closed)
	case opened == nil:
		return true, nil
	}
	return true, n.engine.Opened(ctx, ref, ev.Stored, opened)
}

// read returns what an event says: opened, closed, or neither where nobody need
// hear of it. Every error is a badEvent.
func read(tenant string, ev source.Event) (ref subject.Ref, opened *wire.Summary, closed *wire.Closed, err error) {
	p, err := subject.Parse(ev.Subject)
	if err != nil {
		return ref, nil, nil, &badEvent{err}
	}
	if p.Kind != "ixe" || p.Tenant != tenant {
		return ref, nil, nil, &badEvent{fmt.Errorf("subject %q is none of tenant %s", ev.Subject, tenant)}
	}
	if p.Tail == subject.Closed {
		var e wire.Ended
		if err := json.Unmarshal(ev.Data, &e); err != nil {
			return ref, nil, nil, &badEvent{fmt.Errorf("decode a closed event: %w", err)}
		}
		return p.Ref(), nil, &e.Closed, nil
	}
	var e wire.Opened
	if err := json.Unmarshal(ev.Data, &e); err != nil {
		return ref, nil, nil, &badEvent{fmt.Errorf("decode an open event: %w", err)}
	}
	if e.Decided {
		return p.Ref(), nil, nil, nil
	}
	return p.Ref(), &e.Summary, nil, nil
}
