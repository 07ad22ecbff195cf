package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/banksman/banksman/cmd/banksman/internal/creds"
	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/natsd"
	"github.com/banksman/banksman/services/gateway"
)

// The parts that run as processes of their own.
const (
	partBare    = "bare"    // a NATS server without accounts
	partEcho    = "echo"    // who replies on it
	partServer  = "server"  // the product's NATS server
	partGateway = "gateway" // a gateway on it
	partWhole   = "whole"   // server, gateway and asker in one process
)

// partWord as the first argument makes the binary a part.
const partWord = "bench-part"

func isPart(args []string) bool { return len(args) > 2 && args[1] == partWord }

// partConfig tells a part what it is; it is the argument after partWord.
type partConfig struct {
	Part       string           `json:"part"`
	Dir        string           `json:"dir,omitempty"` // data directory
	Durability natsd.Durability `json:"durability,omitempty"`
	URL        string           `json:"url,omitempty"` // of the server, for echo
}

// partHello is the first line a part writes, once it works.
type partHello struct {
	URL   string `json:"url,omitempty"`   // of a server
	Addr  string `json:"addr,omitempty"`  // of a gateway
	Token string `json:"token,omitempty"` // of a session that may decide there
}

// owner is who asks.
const owner = "agents"

// partMain is the main of a part: it says hello, serves jobs if it can ask, and
// ends with its input.
func partMain(ctx context.Context, args []string) int {
	var cfg partConfig
	err := json.Unmarshal([]byte(args[0]), &cfg)
	if err == nil {
		err = runPart(ctx, cfg, os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: %s: %v\n", cfg.Part, err)
		return 1
	}
	return 0
}

func runPart(ctx context.Context, cfg partConfig, in io.Reader, out io.Writer) error {
	p := &part{
		cfg: cfg, out: json.NewEncoder(out),
		log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	jobs := make(chan job) // closed with the input
	go func() {            // a part that fails leaves it behind: the process ends then
		defer close(jobs)
		defer cancel() // the parent is gone or wants no more
		for lines := bufio.NewScanner(in); lines.Scan(); {
			var j job
			if json.Unmarshal(lines.Bytes(), &j) != nil {
				return
			}
			select {
			case jobs <- j:
			case <-ctx.Done():
				return
			}
		}
	}()
	switch cfg.Part {
	case partBare:
		return p.bare(ctx)
	case partEcho:
		return p.echo(ctx)
	case partServer:
		return p.server(ctx, func(*natsd.Server) error {
			<-ctx.Done()
			return nil
		})
	case partGateway:
		return p.gateway(ctx, nil, func() error {
			<-ctx.Done()
			return nil
		})
	case partWhole:
		return p.server(ctx, func(s *natsd.Server) error {
			inside := []nats.Option{s.InProcess()}
			return p.gateway(ctx, inside, func() error { return p.serveJobs(ctx, inside, jobs) })
		})
	}
	return errors.New("unknown part")
}

type part struct {
	cfg   partConfig
	log   *slog.Logger
	out   *json.Encoder
	hello partHello
}

// bare runs a server that knows nothing of the product.
func (p *part) bare(ctx context.Context) error {
	if err := os.MkdirAll(p.cfg.Dir, 0o700); err != nil {
		return err
	}
	file := filepath.Join(p.cfg.Dir, "server.conf")
	text := fmt.Sprintf("host: 127.0.0.1\nport: -1\njetstream { store_dir: %q }\n", filepath.Join(p.cfg.Dir, "store"))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	s, err := natsd.Start(ctx, natsd.StartOptions{ConfigFile: file, Logger: p.log})
	if err != nil {
		return err
	}
	defer s.Shutdown()
	if err := p.out.Encode(partHello{URL: s.ClientURL()}); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

func (p *part) echo(ctx context.Context) error {
	nc, err := nats.Connect(p.cfg.URL)
	if err != nil {
		return err
	}
	defer nc.Close()
	reply := make([]byte, replyBytes)
	if _, err := nc.Subscribe(echoSubject, func(m *nats.Msg) { _ = m.Respond(reply) }); err != nil {
		return err
	}
	if err := nc.Flush(); err != nil {
		return err
	}
	if err := p.out.Encode(partHello{}); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// server runs the product's server with its accounts and streams while work
// does.
func (p *part) server(ctx context.Context, work func(*natsd.Server) error) error {
	err := natsd.Write(natsd.Plan{
		Dir: p.cfg.Dir, Port: natsd.RandomPort, Durability: p.cfg.Durability,
		Owners: []natsd.Owner{{Name: owner, Pool: true}, {Name: "cli", Caller: true}},
	})
	if err != nil {
		return err
	}
	s, err := natsd.Start(ctx, natsd.StartOptions{ConfigFile: natsd.ConfigFile(p.cfg.Dir), Logger: p.log})
	if err != nil {
		return err
	}
	defer s.Shutdown()
	err = creds.Provision(ctx, p.cfg.Dir, nil, journal.Config{
		Pools: []journal.Pool{{Tenant: bus.DefaultTenant, Pool: owner}},
	}, s.InProcess())
	if err != nil {
		return err
	}
	p.hello.URL = s.ClientURL()
	if p.cfg.Part == partServer {
		if err := p.out.Encode(p.hello); err != nil {
			return err
		}
	}
	return work(s)
}

// gateway runs a gateway while work does, and says hello.
func (p *part) gateway(ctx context.Context, more []nats.Option, work func() error) (err error) {
	c, err := credentials(p.cfg.Dir, bus.RoleGateway)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	file := filepath.Join(p.cfg.Dir, "session")
	g, err := gateway.New(ctx, gateway.Options{
		Logger: p.log, Credentials: c, NATS: more, Listener: l, TestLogin: file,
	})
	if err != nil {
		return err
	}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- g.Run(run) }()
	defer func() {
		stop()
		err = errors.Join(err, <-done)
	}()
	select {
	case <-g.Ready():
	case err := <-done:
		done <- nil
		return fmt.Errorf("the gateway ended: %w", err)
	case <-ctx.Done():
		return ctx.Err()
	}
	token, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	p.hello.Addr, p.hello.Token = g.Addr(), strings.TrimSpace(string(token))
	if err := p.out.Encode(p.hello); err != nil {
		return err
	}
	return work()
}

// serveJobs asks what the parent wants to be asked, over memory.
func (p *part) serveJobs(ctx context.Context, more []nats.Option, jobs <-chan job) error {
	c, err := connectOwner(ctx, p.cfg.Dir, more)
	if err != nil {
		return err
	}
	defer c.Close()
	for j := range jobs {
		if err := p.out.Encode(askAll(ctx, c, j)); err != nil {
			return err
		}
	}
	return nil
}

func credentials(dir string, role bus.Role) (*bus.Credentials, error) {
	name := ""
	if role == bus.RoleOwner {
		name = owner
	}
	return bus.LoadCredentials(natsd.CredentialsFile(dir, role, bus.DefaultTenant, name))
}

func connectOwner(ctx context.Context, dir string, more []nats.Option) (*bus.Client, error) {
	c, err := credentials(dir, bus.RoleOwner)
	if err != nil {
		return nil, err
	}
	return bus.Connect(ctx, c, bus.Options{Name: "bench asker", Worker: "bench", Nats: more})
}
