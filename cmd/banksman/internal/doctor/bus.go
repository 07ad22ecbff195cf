package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/natsd"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
)

// What the looks at the bus are called.
const (
	checkServer  = "server"
	checkAccess  = "permissions"
	checkStreams = "streams"
	checkStore   = "store"
	checkClock   = "clock"
	checkGateway = "gateway"
	checkTold    = "notifier"
	checkWorker  = "agent worker"
)

const (
	// maxSkew is how far clocks may be apart; at 2 s a gateway is not ready.
	maxSkew = time.Second
	// full is the part of a stream's limit from which on it counts as nearly full.
	full = 0.8
	// leaderless is what a server says of a cluster in which too few are there.
	leaderless = 10008
	// mendAccounts is the fix where the server's accounts are those of another version.
	mendAccounts = "write the accounts anew with this version (banksman creds), copy nats/accounts.conf to every server and reload it"
)

// line is a connection, and what the server complained of on it.
type line struct {
	*nats.Conn
	refused chan error
}

// dial connects as a credential; nil where that does not work, which is told.
func (p *patient) dial(c *identity) *line {
	l := &line{refused: make(chan error, 8)}
	urls := strings.Join(c.URLs, ",")
	var err error
	l.Conn, err = nats.Connect(urls, c.auth, nats.Name("banksman doctor"), nats.Timeout(limit), nats.NoReconnect(),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			select {
			case l.refused <- err:
			default:
			}
		}))
	switch {
	case err == nil:
		return l
	case errors.Is(err, nats.ErrAuthorization) || strings.Contains(strings.ToLower(err.Error()), "authorization"):
		p.bad(checkServer, "the server has other keys than these files: copy nats/accounts.conf of this data directory to it and reload it (nats-server --signal reload=PID), or use the files that belong to it",
			"the NATS server at %s refuses the credential %s of role %s", urls, c.Name, c.Role)
	default:
		p.bad(checkServer, "start it: banksman up, or nats-server with the configuration in nats/ of the data directory; or name its address with --nats",
			"the NATS server at %s cannot be reached: %v", urls, err)
	}
	return nil
}

// call asks the JetStream API.
func (l *line) call(ctx context.Context, api string, resp any) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	// A forbidden call gets no answer: the server tells of it beside.
	ctx, refuse := context.WithCancelCause(ctx)
	defer refuse(nil)
	over := make(chan struct{})
	go func() {
		defer close(over)
		select {
		case err := <-l.refused:
			refuse(err)
		case <-ctx.Done():
		}
	}()
	m, err := l.RequestWithContext(ctx, "$JS.API."+api, nil)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		refuse(nil)
		<-over
		return err
	}
	refuse(nil)
	<-over
	if len(m.Data) == 0 {
		return nil // a read that found nothing
	}
	var bad struct {
		Error *journal.APIError `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &bad); err != nil {
		return err
	}
	if bad.Error != nil {
		return bad.Error
	}
	return json.Unmarshal(m.Data, resp)
}

// bus looks at the server and at who is on it.
func (p *patient) bus(ctx context.Context) {
	gateway, owner := p.credential(bus.RoleGateway, ""), p.credential(bus.RoleOwner, "cli")
	if gateway == nil && owner == nil {
		p.skip(checkServer, "there is no credential file of a gateway or of the command line in "+p.creds(""))
		return
	}
	if gateway != nil {
		l := p.dial(gateway)
		if l == nil {
			return // the other one would only say the same
		}
		defer l.Close()
		p.ok(checkServer, "nats-server %s at %s", l.ConnectedServerVersion(), l.ConnectedUrlRedacted())
		if !p.jetStream(ctx, l) {
			return
		}
		p.streams(ctx, l)
		p.listeners(ctx, l)
	}
	if owner != nil {
		p.asOwner(ctx, owner, gateway == nil)
	}
}

// jetStream reports whether the server stores anything.
func (p *patient) jetStream(ctx context.Context, l *line) bool {
	var info struct{}
	err := l.call(ctx, "INFO", &info)
	var api *journal.APIError
	switch {
	case err == nil:
		return true
	case errors.As(err, &api) && api.ErrCode == leaderless, errors.Is(err, context.DeadlineExceeded):
		p.bad(checkStreams, "start its other servers, and look that they reach each other at the cluster's port (nats/server.conf, routes); of three two must run. The log of one says whether it is something else",
			"the server has no answer for its streams, as one of a cluster whose majority is away: %v", err)
	case errors.Is(err, nats.ErrPermissionViolation):
		p.bad(checkAccess, mendAccounts, "the server does not let a gateway use its streams: %v", err)
	default:
		p.bad(checkStreams, "start the server with nats/server.conf of the data directory, which has jetstream and the account CORE; if it has, its log says why JetStream is off (a store that cannot be opened, for example)",
			"JetStream is off on this server, or off for the gateways' account: %v", err)
	}
	return false
}

// streams compares what the server has with what there must be.
func (p *patient) streams(ctx context.Context, l *line) {
	bounded, cancel := context.WithTimeout(ctx, 4*limit)
	defer cancel()
	err := journal.Check(bounded, l.Conn, p.plan.Streams())
	switch {
	case errors.Is(err, journal.ErrDrift) && strings.Contains(err.Error(), "missing"):
		p.bad(checkStreams, "make them: banksman creds --provision", "%v", err)
	case errors.Is(err, journal.ErrDrift):
		p.bad(checkStreams, "banksman creds --provision puts back sizes and times. What carries a guarantee is never changed silently: find out who changed it, and set it back with the provisioner's credential", "%v", err)
	case err != nil:
		select {
		case err = <-l.refused:
		default:
		}
		p.bad(checkStreams, mendAccounts+"; if that is not it, the server's log says more", "the streams cannot be read: %v", err)
	default:
		p.ok(checkStreams, "all are there, with the limits that make the guarantees")
	}
	fullest, worst := "", 0.0
	for _, name := range journal.Refusing() {
		var info struct {
			Config struct {
				MaxBytes float64 `json:"max_bytes"`
			} `json:"config"`
			State struct {
				Bytes float64 `json:"bytes"`
			} `json:"state"`
			Now time.Time `json:"ts"`
		}
		before := time.Now()
		if err := l.call(ctx, "STREAM.INFO."+name, &info); err != nil || info.Config.MaxBytes <= 0 {
			continue // told above
		}
		if name == journal.Requests {
			p.skew("the NATS server's", before, time.Now(), info.Now, maxSkew)
		}
		used := info.State.Bytes / info.Config.MaxBytes
		if used > worst {
			fullest, worst = name, used
		}
		if used > full {
			p.bad(checkStore, "provision it larger (banksman creds --provision --stream-mib "+name+"=MIB), or wait until its entries expire; docs/operations.md says what happens when it is full",
				"%s is %.0f %% full (%.0f of %.0f MiB)", name, 100*used, info.State.Bytes/(1<<20), info.Config.MaxBytes/(1<<20))
		}
	}
	if worst <= full && fullest != "" {
		p.ok(checkStore, "the fullest stream that must not be full is %s: %.1f %%", fullest, 100*worst)
	}
}

// skew compares this machine's clock with another that was read between two looks
// at it.
func (p *patient) skew(whose string, before, after, other time.Time, most time.Duration) {
	if other.IsZero() {
		return
	}
	var by time.Duration
	switch {
	case before.After(other):
		by = before.Sub(other)
	case other.After(after):
		by = other.Sub(after)
	}
	if by > most {
		way := "ahead of"
		if other.After(after) {
			way = "behind"
		}
		p.bad(checkClock, "run a time service (chrony, systemd-timesyncd) on both machines: deadlines count by the server's clock, and a gateway that is 2 s off is not ready",
			"this machine's clock is %s %s %s", by.Round(time.Millisecond), way, whose)
		return
	}
	p.ok(checkClock, "this machine's and %s are the same", whose)
}

// listeners looks who reads what the streams have.
func (p *patient) listeners(ctx context.Context, l *line) {
	waiting := func(stream, consumer string) (n, left int, err error) {
		var info struct {
			Waiting int `json:"num_waiting"`
			Left    int `json:"num_pending"`
			Given   int `json:"num_ack_pending"`
		}
		// One that is busy does not wait for a moment.
		for range 5 {
			if err = l.call(ctx, "CONSUMER.INFO."+stream+"."+consumer, &info); err != nil || info.Waiting > 0 {
				break
			}
			select {
			case <-ctx.Done():
				return 0, 0, ctx.Err()
			case <-time.After(200 * time.Millisecond):
			}
		}
		return info.Waiting, info.Left + info.Given, err
	}
	look := func(check, stream, consumer, fix, problem string) {
		n, _, err := waiting(stream, consumer)
		switch {
		case err != nil: // the consumer is missing, which is told
		case n == 0:
			p.bad(check, fix, "%s", problem)
		default:
			p.ok(check, "at least one runs")
		}
	}
	look(checkGateway, journal.Requests, journal.IntakeConsumer, "start one: banksman up, or banksman-gateway",
		"no gateway runs: nobody can see or decide anything")
	tenants := p.plan.Tenants
	if len(tenants) == 0 {
		tenants = []string{bus.DefaultTenant}
	}
	for _, t := range tenants {
		look(checkTold, journal.Events, journal.NotifierDurable(t), "start one: banksman up, or banksman-notifier",
			fmt.Sprintf("no notifier runs for the tenant %s: nobody is told of what waits", t))
	}
	p.workers(func(o natsd.Owner) (int, int, error) {
		return waiting(journal.Work, subject.WorkConsumer(o.Tenant, o.Name))
	})
}

// workers looks for who starts the sessions of each pool. Every owner has a pool, and
// one that only asks needs no worker: that is wrong where sessions wait for it, or where
// there is no worker at all.
func (p *patient) workers(look func(natsd.Owner) (n, left int, err error)) {
	var idle []natsd.Owner
	some := false
	without := "no agent worker runs for the pool %s: sessions cannot be started"
	fix := func(o natsd.Owner) string {
		return "start one: banksman up, or banksman-agent with " + natsd.CredentialsFile("", bus.RoleOwner, o.Tenant, o.Name)
	}
	for _, o := range p.plan.Owners {
		if !o.Pool {
			continue
		}
		n, left, err := look(o)
		switch {
		case err != nil: // the consumer is missing, which is told
		case n > 0:
			some = true
			p.ok(checkWorker, "at least one runs for the pool %s", o.Name)
		case left > 0:
			p.bad(checkWorker, fix(o), without+", and %s", o.Name, orders(left))
		default:
			idle = append(idle, o)
		}
	}
	for _, o := range idle {
		if o.Name == "agents" && o.Tenant == bus.DefaultTenant && !some {
			p.bad(checkWorker, fix(o), without, o.Name)
			continue
		}
		p.note(checkWorker, "nothing, if "+o.Name+" only asks; else "+fix(o), without, o.Name)
	}
}

func orders(n int) string {
	if n == 1 {
		return "1 order waits"
	}
	return fmt.Sprintf("%d orders wait", n)
}

// asOwner does what an asker does, as far as that changes nothing.
func (p *patient) asOwner(ctx context.Context, c *identity, alone bool) {
	l := p.dial(c)
	if l == nil {
		return
	}
	defer l.Close()
	if alone {
		p.ok(checkServer, "nats-server %s at %s", l.ConnectedServerVersion(), l.ConnectedUrlRedacted())
	}
	// It may read its own decisions ...
	var none any
	err := l.call(ctx, "DIRECT.GET."+journal.Decisions+".hitl.dec."+c.Tenant+"."+c.Name+".doctor", &none)
	if errors.Is(err, nats.ErrPermissionViolation) {
		p.bad(checkAccess, mendAccounts, "the server does not let %s read its own decisions: %v", c.Name, err)
		return
	}
	// ... and nothing of the streams.
	if err := l.call(ctx, "STREAM.INFO."+journal.Decisions, &none); err == nil {
		p.bad(checkAccess, mendAccounts, "the server lets %s look at the stream of decisions: its accounts are not those that keep agents from deciding", c.Name)
		return
	}
	p.ok(checkAccess, "%s may do what it needs and not read the streams", c.Name)
	if alone {
		p.answers(ctx, c.Credentials)
	}
}

// answers asks the gateways for what waits, where nothing else can be seen of them.
func (p *patient) answers(ctx context.Context, c *bus.Credentials) {
	ctx, cancel := context.WithTimeout(ctx, 2*limit)
	defer cancel()
	client, err := bus.Connect(ctx, c, bus.Options{Name: "banksman doctor", Logger: p.log})
	if err == nil {
		defer client.Close()
		_, err = client.List(ctx, wire.ListCall{})
	}
	if err != nil {
		p.bad(checkGateway, "start one: banksman up, or banksman-gateway", "no gateway answers: %v", err)
		return
	}
	p.ok(checkGateway, "one answers")
}
