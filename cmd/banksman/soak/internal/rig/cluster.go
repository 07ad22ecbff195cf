package rig

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/banksman/banksman/cmd/banksman/internal/creds"
	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/natsd"
	"github.com/banksman/banksman/pkg/wire"
)

// Sizes.
const (
	Nodes    = 3
	Gateways = 3
	Owners   = 4 // who ask
	Callers  = 4 // programs by which people decide over the bus
	People   = 5 // who decide
)

const (
	// formLimit bounds how long a new cluster takes to agree on its streams.
	formLimit = 90 * time.Second

	// OrphanAfter is how long a worker may be silent: longer than any fault lasts and
	// who lost its server by it needs to find another one.
	OrphanAfter = 8 * time.Second
)

// OwnerName and CallerName name who asks and by which program people decide.
func OwnerName(i int) string  { return fmt.Sprintf("agents%d", i) }
func CallerName(i int) string { return fmt.Sprintf("desk%d", i) }

// Person is who decides, with the token of a session.
type Person struct {
	Principal hitl.Principal
	Token     string
}

// Cluster is the product: three servers, three gateways, and who may decide.
type Cluster struct {
	dir   string
	creds string // data directory that holds the credential files
	nodes []*process
	gates []*process
	// Addrs are the gateways' addresses.
	Addrs []string
	Staff []Person
	// Conn and Journal read the streams with a gateway's rights; Keys are those
	// by which decisions count.
	Conn    *nats.Conn
	Journal *journal.JetStream
	Keys    map[string]ed25519.PublicKey

	troubles [][2]int64 // from the first harm until all is right again, in ns
}

// Start makes a cluster below dir and waits until its gateways are ready. These give up
// a worker that is silent for orphan, 0 for as long as by default.
func Start(ctx context.Context, dir string, d natsd.Durability, orphan time.Duration, log *slog.Logger) (c *Cluster, err error) {
	c = &Cluster{dir: dir, creds: filepath.Join(dir, "node0")}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Stop())
		}
	}()
	logs := filepath.Join(dir, "logs")
	if err := os.MkdirAll(logs, 0o700); err != nil {
		return c, err
	}
	ports, err := freePorts(2*Nodes + Gateways)
	if err != nil {
		return c, err
	}
	if err := c.plan(d, ports[:Nodes], ports[Nodes:2*Nodes]); err != nil {
		return c, err
	}
	for i := range Nodes {
		c.nodes = append(c.nodes, &process{
			name: fmt.Sprintf("node%d", i), dir: logs, log: log,
			cfg: partConfig{Part: PartNode, Config: natsd.ConfigFile(filepath.Join(dir, fmt.Sprintf("node%d", i)))},
		})
	}
	for i := range Gateways {
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[2*Nodes+i]))
		c.Addrs = append(c.Addrs, addr)
		c.gates = append(c.gates, &process{
			name: fmt.Sprintf("gateway%d", i), dir: logs, log: log,
			cfg: partConfig{Part: PartGateway, Creds: natsd.CredentialsFile(c.creds, bus.RoleGateway, "", ""), Addr: addr, Orphan: orphan},
		})
	}
	if err := startAll(ctx, c.nodes); err != nil {
		return c, err
	}
	if err := c.provision(ctx); err != nil {
		return c, err
	}
	if err := c.connect(ctx); err != nil {
		return c, err
	}
	if err := c.signIn(ctx); err != nil {
		return c, err
	}
	return c, startAll(ctx, c.gates)
}

func startAll(ctx context.Context, all []*process) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, p := range all {
		g.Go(func() error { return p.start(ctx) })
	}
	return g.Wait()
}

// freePorts finds ports outside the range from which outgoing connections are
// given theirs, so that nobody takes one while its owner is down.
func freePorts(count int) ([]int, error) {
	var ports []int
	for tries := 0; len(ports) < count; tries++ {
		if tries > 1000 {
			return nil, errors.New("no free ports between 20000 and 32000")
		}
		var b [2]byte
		rand.Read(b[:]) // never fails
		port := 20000 + (int(b[0])<<8|int(b[1]))%12000
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		ports = append(ports, port)
		defer func() { _ = l.Close() }() // held until all are found
	}
	return ports, nil
}

// plan writes the servers' configuration and the credentials. The first node's
// keys are copied to the others.
func (c *Cluster) plan(d natsd.Durability, clients, routes []int) error {
	var urls []string
	for _, p := range clients {
		urls = append(urls, fmt.Sprintf("nats://127.0.0.1:%d", p))
	}
	for i := range Nodes {
		dir := filepath.Join(c.dir, fmt.Sprintf("node%d", i))
		if i > 0 {
			if err := copyKeys(c.creds, dir); err != nil {
				return err
			}
		}
		p := natsd.Plan{
			Dir: dir, Port: clients[i], URLs: urls, Durability: d, StoreDir: filepath.Join(dir, "nats", "store"),
			Cluster: &natsd.Cluster{Name: "soak", ServerName: fmt.Sprintf("node%d", i), Port: routes[i]},
		}
		for k := range Owners {
			p.Owners = append(p.Owners, natsd.Owner{Name: OwnerName(k), Pool: k == 0})
		}
		for k := range Callers {
			p.Callers = append(p.Callers, natsd.Caller{Name: CallerName(k)})
		}
		for j, r := range routes {
			if j != i {
				p.Cluster.Routes = append(p.Cluster.Routes, fmt.Sprintf("nats://127.0.0.1:%d", r))
			}
		}
		if err := natsd.Write(p); err != nil {
			return err
		}
	}
	return nil
}

func copyKeys(from, to string) error {
	if err := os.MkdirAll(filepath.Join(to, "nats"), 0o700); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(to, "creds"), 0o700); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(from, "creds", "*"))
	if err != nil {
		return err
	}
	for _, f := range append(files, filepath.Join(from, "nats", "plan.json")) {
		raw, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, f)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, rel), raw, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) provision(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, formLimit)
	defer cancel()
	for {
		err := creds.Provision(ctx, c.creds, nil, journal.Config{
			Replicas: Nodes, Pools: []journal.Pool{{Tenant: bus.DefaultTenant, Pool: OwnerName(0)}},
		})
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("make the streams: %w", err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (c *Cluster) connect(ctx context.Context) error {
	id, err := c.Identity(bus.RoleGateway, "")
	if err != nil {
		return err
	}
	auth, err := id.Auth()
	if err != nil {
		return err
	}
	c.Conn, err = nats.Connect(strings.Join(id.URLs, ","), auth, nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond),
		nats.ReconnectBufSize(-1), nats.Name("soak record"))
	if err != nil {
		return err
	}
	c.Keys = id.PublicDecisionKeys()
	c.Journal = journal.New(c.Conn, journal.Options{Keys: c.Keys})
	return ctx.Err()
}

// Identity loads the credentials of an owner, a caller or the gateways.
func (c *Cluster) Identity(role bus.Role, name string) (*bus.Credentials, error) {
	return bus.LoadCredentials(natsd.CredentialsFile(c.creds, role, bus.DefaultTenant, name))
}

// signIn gives the people their sessions, in the form in which gateways keep
// them: a link signs in one person only, and here several decide.
func (c *Cluster) signIn(ctx context.Context) error {
	js, err := jetstream.New(c.Conn)
	if err != nil {
		return err
	}
	kv, err := js.KeyValue(ctx, journal.SessionsBucket)
	if err != nil {
		return err
	}
	users, err := js.KeyValue(ctx, journal.UsersBucket)
	if err != nil {
		return err
	}
	for i := range People {
		var b [32]byte
		rand.Read(b[:]) // never fails
		p := Person{
			Principal: hitl.Principal{Kind: "person", ID: fmt.Sprintf("person%d", i), Name: fmt.Sprintf("Person %d", i)},
			Token:     base64.RawURLEncoding.EncodeToString(b[:]),
		}
		sum := sha256.Sum256([]byte(p.Token))
		raw, err := json.Marshal(map[string]any{
			"v": 1, "person": p.Principal, "channel": "web", "assurance": "session", "via": "test",
			"created_at": time.Now().UTC(), "expires_at": time.Now().Add(24 * time.Hour).UTC(),
		})
		if err != nil {
			return err
		}
		user, err := json.Marshal(map[string]any{
			"v": 1, "id": p.Principal.ID, "name": p.Principal.Name, "source": "invite", "created": time.Now().UTC(),
			"roles": []wire.Grant{{Role: wire.RoleAdmin, Projects: []string{wire.AllProjects}}},
		})
		if err != nil {
			return err
		}
		if _, err := users.Create(ctx, "user."+p.Principal.ID, user); err != nil {
			return fmt.Errorf("add %s: %w", p.Principal.ID, err)
		}
		if _, err := kv.Create(ctx, "session."+hex.EncodeToString(sum[:]), raw); err != nil {
			return fmt.Errorf("sign in %s: %w", p.Principal.ID, err)
		}
		c.Staff = append(c.Staff, p)
	}
	return nil
}

// Stop ends everything, the gateways first.
func (c *Cluster) Stop() error {
	if c.Conn != nil {
		c.Conn.Close()
	}
	g := errgroup.Group{}
	for _, p := range c.gates {
		g.Go(p.stop)
	}
	err := g.Wait()
	for _, p := range c.nodes {
		g.Go(p.stop)
	}
	return errors.Join(err, g.Wait())
}

// Trouble does what the plan says until ctx ends, and puts everything right
// before it returns. It tells count what it did.
func (c *Cluster) Trouble(ctx context.Context, f *Faults, count func(what string)) error {
	for {
		x := f.next()
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(x.After):
		}
		from := time.Now().UnixNano()
		var hit []*process
		for _, i := range x.Nodes {
			hit = append(hit, c.nodes[i])
		}
		for _, i := range x.Gates {
			hit = append(hit, c.gates[i])
		}
		for _, p := range hit {
			if !x.Pause {
				p.kill()
				count("killed: " + p.cfg.Part)
			} else if err := p.signal(true); err != nil {
				return err
			}
		}
		count("fault: " + x.What)
		select {
		case <-ctx.Done(): // put right at once
		case <-time.After(x.For):
		}
		if x.Pause {
			for _, p := range hit {
				if err := p.signal(false); err != nil {
					return err
				}
			}
			c.troubles = append(c.troubles, [2]int64{from, time.Now().UnixNano()})
			continue
		}
		if err := startAll(context.WithoutCancel(ctx), hit); err != nil {
			return err
		}
		c.troubles = append(c.troubles, [2]int64{from, time.Now().UnixNano()})
		for _, p := range hit {
			count("restarted: " + p.cfg.Part)
		}
	}
}

// Up is for how long of a time, in ns, no fault was in the way. To be called
// after Trouble.
func (c *Cluster) Up(from, to int64) time.Duration {
	up := max(0, to-from)
	for _, t := range c.troubles {
		up -= max(0, min(to, t[1])-max(from, t[0]))
	}
	return time.Duration(up)
}

// Calm is the longest time between two moments, in ns, in which no fault was in the
// way. To be called after Trouble.
func (c *Cluster) Calm(from, to int64) time.Duration {
	var longest int64
	for _, t := range c.troubles {
		if t[0] >= to {
			break
		}
		longest = max(longest, t[0]-from)
		from = max(from, t[1])
	}
	return time.Duration(max(longest, to-from))
}

// Started is when the gateway that runs now was started, in ns.
func (c *Cluster) Started(gateway int) int64 {
	at, _ := c.gates[gateway].since()
	return at
}

// Fallen are the last words of parts that ended by themselves.
func (c *Cluster) Fallen() []string {
	var all []string
	for _, p := range slices.Concat(c.nodes, c.gates) {
		_, crashes := p.since()
		for _, words := range crashes {
			all = append(all, p.name+": "+words)
		}
	}
	return all
}
