// Command flood measures how long one owner's round trip takes while another
// owner publishes thousands of requests at once: on one server in this process,
// and on a cluster of three with three copies of each stream.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/banksman/banksman/cmd/banksman/internal/creds"
	"github.com/banksman/banksman/cmd/banksman/soak/internal/rig"
	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/natsd"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/gateway"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if rig.IsPart(os.Args) {
		os.Exit(rig.PartMain(ctx, os.Args))
	}
	n := flag.Int("n", 10_000, "`requests` of the flood; 0: it does not end before the round trips do")
	trips := flag.Int("trips", 10, "round trips during it")
	durability := flag.String("durability", string(natsd.DurabilityAlways), "always or relaxed")
	flag.Parse()
	for _, where := range []func(context.Context, string, natsd.Durability) (*site, error){single, cluster} {
		if err := measure(ctx, where, *n, *trips, natsd.Durability(*durability)); err != nil {
			fmt.Fprintln(os.Stderr, "flood:", err)
			os.Exit(1)
		}
	}
}

// site is a running product: whom to ask as, and where to decide.
type site struct {
	name          string
	flooder, free *bus.Credentials
	addr, token   string
	stop          func() error
}

func measure(ctx context.Context, where func(context.Context, string, natsd.Durability) (*site, error), n, trips int, d natsd.Durability) (err error) {
	dir, err := os.MkdirTemp("", "banksman-flood-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	s, err := where(ctx, dir, d)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	client, err := bus.Connect(ctx, s.free, bus.Options{})
	if err != nil {
		return err
	}
	defer client.Close()
	run := func(phase string, count int) error {
		var took []time.Duration
		for i := range count {
			d, err := s.roundTrip(ctx, client, fmt.Sprintf("%s-%d", phase, i))
			if err != nil {
				return fmt.Errorf("%s: %w", phase, err)
			}
			took = append(took, d)
		}
		slices.Sort(took)
		load, _ := os.ReadFile("/proc/loadavg")
		fmt.Printf("%-28s %-8s %-7s median %v, slowest %v of %d; load %.14s\n", s.name, d, phase,
			took[len(took)/2].Round(time.Millisecond), took[len(took)-1].Round(time.Millisecond), count, load)
		return nil
	}
	if err := run("before", trips); err != nil {
		return err
	}
	endless, end := context.WithCancel(ctx)
	defer end()
	flood, done, err := publish(endless, s.flooder, n)
	if err != nil {
		return err
	}
	defer flood.Close()
	if err := run("during", trips); err != nil {
		return err
	}
	end()
	return <-done
}

// publish sends n requests of one owner without waiting for any; 0: until ctx ends.
func publish(ctx context.Context, c *bus.Credentials, n int) (*nats.Conn, <-chan error, error) {
	auth, err := c.Auth()
	if err != nil {
		return nil, nil, err
	}
	nc, err := nats.Connect(strings.Join(c.URLs, ","), auth)
	if err != nil {
		return nil, nil, err
	}
	done := make(chan error, 1)
	go func() {
		for i := 0; ctx.Err() == nil && (n == 0 || i < n); i++ {
			r := request(fmt.Sprintf("flood-%d", i))
			r.V, r.Tenant, r.Owner = 1, c.Tenant, c.Name
			r.ID = hitl.ID(r.Tenant, r.Owner, r.Key, 1)
			raw, err := hitl.Marshal(r)
			if err == nil {
				err = nc.Publish(subject.Request(subject.NewRef(r.Tenant, r.Owner, r.ID)), raw)
			}
			if err != nil {
				done <- err
				return
			}
		}
		done <- nc.FlushTimeout(10 * time.Minute)
	}()
	return nc, done, nil
}

func request(key string) *hitl.Request {
	return &hitl.Request{
		Key: key, Kind: hitl.KindApproval, SessionID: "s1", Title: "Run make test",
		Tool: &hitl.Tool{Name: "Bash", Input: json.RawMessage(`{"command":"make test"}`)},
	}
}

// roundTrip asks, decides as soon as it is shown, and waits for the decision.
func (s *site) roundTrip(ctx context.Context, c *bus.Client, key string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	began := time.Now()
	got := make(chan error, 1)
	go func() {
		_, err := c.Ask(ctx, request(key))
		got <- err
	}()
	id := c.Credentials()
	path := "/api/interactions/" + subject.NewRef(id.Tenant, id.Name, hitl.ID(id.Tenant, id.Name, key, 1)).String()
	var ix struct{ State, Digest string }
	for ix.State != "pending" {
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		if err := s.call(ctx, http.MethodGet, path, "", &ix); err != nil {
			time.Sleep(2 * time.Millisecond)
		}
	}
	if err := s.call(ctx, http.MethodPost, path+"/decision", `{"decision":"allow","digest":"`+ix.Digest+`"}`, &struct{}{}); err != nil {
		return 0, err
	}
	err := <-got
	return time.Since(began), err
}

func (s *site) call(ctx context.Context, method, path, body string, out any) error {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+s.addr+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", res.Status, raw)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, out)
}

// single is one server and one gateway in this process.
func single(ctx context.Context, dir string, d natsd.Durability) (*site, error) {
	if err := natsd.Write(natsd.Plan{
		Dir: dir, Port: natsd.RandomPort, Durability: d, Owners: []natsd.Owner{{Name: "evil"}, {Name: "free"}},
	}); err != nil {
		return nil, err
	}
	srv, err := natsd.Start(ctx, natsd.StartOptions{ConfigFile: natsd.ConfigFile(dir)})
	if err != nil {
		return nil, err
	}
	s := &site{name: "one server, in process", stop: func() error { srv.Shutdown(); return nil }}
	fail := func(err error) (*site, error) { return nil, errors.Join(err, s.stop()) }
	if err := creds.Provision(ctx, dir, nil, journal.Config{}); err != nil {
		return fail(err)
	}
	load := func(role bus.Role, name string) (c *bus.Credentials) {
		if err == nil {
			c, err = bus.LoadCredentials(natsd.CredentialsFile(dir, role, bus.DefaultTenant, name))
		}
		return c
	}
	s.flooder, s.free = load(bus.RoleOwner, "evil"), load(bus.RoleOwner, "free")
	o := gateway.Options{
		Credentials: load(bus.RoleGateway, ""), Addr: "127.0.0.1:0", TestLogin: filepath.Join(dir, "login"),
		Logger: slog.New(slog.DiscardHandler),
	}
	if err != nil {
		return fail(err)
	}
	g, err := gateway.New(ctx, o)
	if err != nil {
		return fail(err)
	}
	run, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- g.Run(run) }()
	s.stop = func() error {
		cancel()
		err := <-ended
		srv.Shutdown()
		return err
	}
	token, err := os.ReadFile(o.TestLogin)
	if err != nil {
		return fail(err)
	}
	s.addr, s.token = g.Addr(), strings.TrimSpace(string(token))
	select {
	case <-g.Ready():
		return s, nil
	case <-ctx.Done():
		return fail(ctx.Err())
	}
}

// cluster is three servers and three gateways as processes.
func cluster(ctx context.Context, dir string, d natsd.Durability) (*site, error) {
	c, err := rig.Start(ctx, dir, d, 0, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	s := &site{name: "three servers, R3", addr: c.Addrs[0], token: c.Staff[0].Token, stop: c.Stop}
	if s.flooder, err = c.Identity(bus.RoleOwner, rig.OwnerName(0)); err == nil {
		s.free, err = c.Identity(bus.RoleOwner, rig.OwnerName(1))
	}
	if err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return s, nil
}
