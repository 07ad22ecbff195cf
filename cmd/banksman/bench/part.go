package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/banksman/banksman/cmd/banksman/bench/internal/front"
	"github.com/banksman/banksman/cmd/banksman/bench/internal/peer"
	"github.com/banksman/banksman/cmd/banksman/bench/internal/road"
	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/bus/dial"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/journal/relay"
	"github.com/banksman/banksman/pkg/natsd"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/gateway"
)

// The parts that run as processes of their own.
const (
	partBare    = "bare"    // a NATS server without accounts
	partEcho    = "echo"    // who replies on it
	partServer  = "server"  // the product's NATS server
	partNode    = "node"    // one of the product's cluster, planned by the parent
	partGateway = "gateway" // a gateway on either
	partWhole   = "whole"   // server, gateway and asker in one process
	partDecider = "decider" // in place of a gateway: decides what is stored, shows nothing
	partBus     = "bus"     // server, decider and asker in one process
	partPeer    = "peer"    // who decides at somebody else's server
)

// partWord as the first argument makes the binary a part.
const partWord = "bench-part"

func isPart(args []string) bool { return len(args) > 2 && args[1] == partWord }

// partConfig tells a part what it is; it is the argument after partWord.
type partConfig struct {
	Part       string           `json:"part"`
	Dir        string           `json:"dir,omitempty"` // data directory
	Durability natsd.Durability `json:"durability,omitempty"`
	URL        string           `json:"url,omitempty"`  // of the server, for echo and peer
	Peer       peer.Kind        `json:"peer,omitempty"` // what server that is
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
	jobs := make(chan road.Job) // closed with the input
	go func() {                 // a part that fails leaves it behind: the process ends then
		defer close(jobs)
		defer cancel() // the parent is gone or wants no more
		for lines := bufio.NewScanner(in); lines.Scan(); {
			var j road.Job
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
	wait := func() error {
		<-ctx.Done()
		return nil
	}
	switch cfg.Part {
	case partBare:
		return p.bare(ctx)
	case partEcho:
		return p.echo(ctx)
	case partServer:
		return p.server(ctx, func(*natsd.Server) error { return wait() })
	case partNode:
		return p.node(ctx, wait)
	case partGateway:
		return p.gateway(ctx, nil, wait)
	case partDecider:
		return p.decider(ctx, nil, wait)
	case partPeer:
		return p.peer(ctx, wait)
	case partWhole, partBus:
		front := p.gateway
		if cfg.Part == partBus {
			front = p.decider
		}
		return p.server(ctx, func(s *natsd.Server) error {
			inside := []nats.Option{s.InProcess()}
			return front(ctx, inside, func() error { return p.serveJobs(ctx, inside, jobs) })
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

// gateway runs a gateway while work does, and says hello.
func (p *part) gateway(ctx context.Context, more []nats.Option, work func() error) error {
	return front.Serve(ctx, p.cfg.Dir, gateway.Options{NATS: more}, func(g *gateway.Gateway, token string) error {
		p.hello.Addr, p.hello.Token = g.Addr(), token
		if err := p.out.Encode(p.hello); err != nil {
			return err
		}
		return work()
	})
}

// serveJobs asks what the parent wants to be asked, over memory.
func (p *part) serveJobs(ctx context.Context, more []nats.Option, jobs <-chan road.Job) error {
	c, err := connectOwner(ctx, p.cfg.Dir, more)
	if err != nil {
		return err
	}
	defer c.Close()
	for j := range jobs {
		if err := p.out.Encode(road.AskAll(ctx, c, j)); err != nil {
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

// deciders is how many requests a decider works on at once, as many as a
// gateway.
const deciders = 64

// decider allows whatever is stored, while work does: the bus and the record
// without anything that a person needs, and without what a gateway does after
// the decision: the closed event, and the deletion of the request.
func (p *part) decider(ctx context.Context, more []nats.Option, work func() error) (err error) {
	c, err := credentials(p.cfg.Dir, bus.RoleGateway)
	if err != nil {
		return err
	}
	_, key, err := c.Signer()
	if err != nil {
		return err
	}
	conn, err := dial.Service(ctx, "bench decider", c, more, p.log)
	if err != nil {
		return err
	}
	defer conn.Shut()
	lines, err := dial.Service(ctx, "bench relay", c, more, p.log)
	if err != nil {
		return err
	}
	defer lines.Shut()
	owners, err := relay.Start(relay.Options{Conn: lines.Conn, Logger: p.log})
	if err != nil {
		return err
	}
	defer owners.Close()
	j := journal.New(conn.Conn, journal.Options{
		Signer: journal.NewSigner(key), Keys: c.PublicDecisionKeys(), Logger: p.log,
	})
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() {
		done <- j.Intake(run, deciders, func(ctx context.Context, d journal.Delivery) { p.allow(ctx, j, d) })
	}()
	defer func() {
		stop()
		if e := <-done; !errors.Is(e, context.Canceled) {
			err = errors.Join(err, e)
		}
	}()
	if err := p.out.Encode(p.hello); err != nil {
		return err
	}
	return work()
}

func (p *part) allow(ctx context.Context, j journal.Journal, d journal.Delivery) {
	s, err := subject.Parse(d.Subject)
	if err == nil {
		t := hitl.Decision{
			V: 1, DecisionID: uuid.NewString(), InteractionID: s.Ref().ID, Digest: hitl.Digest(d.Data),
			Content: hitl.Content{Outcome: hitl.Allowed}, Principal: hitl.Principal{Kind: "rule", ID: "bench"}, Channel: "bench",
			DecidedAt: time.Now().UTC(), RequestSeq: d.Seq, RequestedAt: d.Time.UTC(),
			RequestB64: base64.StdEncoding.EncodeToString(d.Data),
		}
		_, _, err = j.Decide(ctx, s.Ref(), &t)
	}
	if err == nil {
		err = d.Ack()
	}
	if err != nil && ctx.Err() == nil { // it comes again, or the run finds that it is missing
		p.log.Error("not decided", "subject", d.Subject, "error", err)
	}
}

// peer decides at somebody else's server while work does.
func (p *part) peer(ctx context.Context, work func() error) error {
	d, err := peer.Decide(ctx, p.cfg.Peer, p.cfg.URL)
	if err != nil {
		return err
	}
	if err := p.out.Encode(partHello{}); err != nil {
		return errors.Join(err, d.Close())
	}
	return errors.Join(work(), d.Close())
}
