package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/banksman/banksman/cmd/banksman/bench/internal/crowd"
	"github.com/banksman/banksman/cmd/banksman/bench/internal/proc"
	"github.com/banksman/banksman/cmd/banksman/bench/internal/road"
	"github.com/banksman/banksman/cmd/banksman/internal/creds"
	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/natsd"
)

const (
	owner     = "agents"
	perPerson = 20 // sockets that one person may have
	sessions  = 20 // that change; a burst is one event of each
	busy      = "web-busy"
	eachBytes = 1000 // of a frame, about
)

// site is the product: server and worker here, the gateway a process.
type site struct {
	dir     string
	srv     *natsd.Server
	conn    *nats.Conn // with a gateway's rights, to sign people in
	worker  *bus.Client
	gateway *proc.Process
	hello   hello
	people  []crowd.Person
	holds   []*bus.Hold
	busy    *bus.Hold
	beats   sync.WaitGroup
	stop    context.CancelFunc
}

func startSite(ctx context.Context, dir string, sockets int) (s *site, err error) {
	s = &site{stop: func() {}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.dir, err = os.MkdirTemp(dir, "site-"); err != nil {
		return s, err
	}
	if err := natsd.Write(natsd.Plan{
		Dir: s.dir, Port: natsd.RandomPort, Durability: natsd.DurabilityRelaxed, // what is stored is not what is measured
		Owners: []natsd.Owner{{Name: owner, Pool: true}, {Name: "cli", Caller: true}},
	}); err != nil {
		return s, err
	}
	if s.srv, err = natsd.Start(ctx, natsd.StartOptions{ConfigFile: natsd.ConfigFile(s.dir)}); err != nil {
		return s, err
	}
	pools := []journal.Pool{{Tenant: bus.DefaultTenant, Pool: owner}}
	if err := creds.Provision(ctx, s.dir, nil, journal.Config{Replicas: 1, Pools: pools}, s.srv.InProcess()); err != nil {
		return s, err
	}
	rights, err := bus.LoadCredentials(natsd.CredentialsFile(s.dir, bus.RoleGateway, bus.DefaultTenant, ""))
	if err != nil {
		return s, err
	}
	auth, err := rights.Auth()
	if err != nil {
		return s, err
	}
	if s.conn, err = nats.Connect(rights.URLs[0], auth); err != nil {
		return s, err
	}
	if s.people, err = crowd.Sign(ctx, s.conn, (sockets+perPerson-1)/perPerson); err != nil {
		return s, err
	}
	if s.gateway, err = proc.Start(ctx, partGateway, []string{partWord, partGateway, s.dir}, &s.hello); err != nil {
		return s, err
	}
	return s, s.work(ctx)
}

// work claims the sessions and keeps them alive.
func (s *site) work(ctx context.Context) error {
	cred, err := bus.LoadCredentials(natsd.CredentialsFile(s.dir, bus.RoleOwner, bus.DefaultTenant, owner))
	if err != nil {
		return err
	}
	if s.worker, err = bus.Connect(ctx, cred, bus.Options{Name: "bench worker", Worker: "bench"}); err != nil {
		return err
	}
	names := []string{busy}
	for i := range sessions {
		names = append(names, "web-"+strconv.Itoa(i))
	}
	for i, name := range names {
		h, err := s.worker.Claim(ctx, state(name, "", 0))
		if err != nil {
			return err
		}
		if i == 0 {
			s.busy = h
		} else {
			s.holds = append(s.holds, h)
		}
	}
	beating, stop := context.WithCancel(ctx)
	s.stop = stop
	s.beats.Go(func() {
		for {
			_ = s.worker.Beat(hitl.Beat{V: 1, Worker: "bench", Runtimes: []string{"demo"}, Sessions: names, At: time.Now()}) // the next one follows
			select {
			case <-beating.Done():
				return
			case <-time.After(5 * time.Second):
			}
		}
	})
	return nil
}

func (s *site) close() error {
	s.stop()
	s.beats.Wait()
	if s.worker != nil {
		s.worker.Close()
	}
	if s.conn != nil {
		s.conn.Close()
	}
	err := s.gateway.Stop()
	if s.srv != nil {
		s.srv.Shutdown()
	}
	if s.dir != "" {
		err = errors.Join(err, os.RemoveAll(s.dir))
	}
	return err
}

// tokens are those of n sockets.
func (s *site) tokens(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = s.people[i/perPerson].Token
	}
	return out
}

func state(session, title string, pad int) *hitl.SessionState {
	now := time.Now().UTC()
	return &hitl.SessionState{
		SessionID: session, Worker: "bench", Generation: 1, Runtime: "demo", State: hitl.StateUserTurn,
		StartedAt: now, StateChangedAt: now, Title: title, Error: strings.Repeat("x", pad),
	}
}

// publish changes a session, which every page is told.
func (s *site) publish(ctx context.Context, i int, tag string, pad int) error {
	return s.holds[i].State(ctx, state("web-"+strconv.Itoa(i), event(tag, 0), pad))
}

// feed sends deltas of the busy session until ctx ends.
func (s *site) feed(ctx context.Context) error {
	data, err := json.Marshal(map[string]string{"block_id": "b", "text": strings.Repeat("x", 16<<10)})
	if err != nil {
		return err
	}
	for {
		if err := s.busy.Live(hitl.Event{Type: hitl.EventTextDelta, Data: data}); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// asked is an interaction that waits; end withdraws it.
type asked struct {
	ref string // tenant.owner.id
	id  string
	at  time.Time
	end func()
}

// ask asks, and returns once the gateway shows it or, with late, once it is stored.
func (s *site) ask(ctx context.Context, session, key string, shown bool) (*asked, error) {
	ctx, cancel := context.WithCancel(ctx)
	opened, over := make(chan bus.Opened, 1), make(chan error, 1)
	at := time.Now()
	go func() {
		_, err := s.worker.Ask(ctx, road.Request(session, key), bus.OnOpen(func(o bus.Opened) { opened <- o }))
		over <- err
	}()
	a := &asked{at: at, end: func() {
		cancel()
		<-over
	}}
	select {
	case o := <-opened:
		a.ref, a.id = o.Ref.String(), o.Ref.ID
	case err := <-over:
		cancel()
		return nil, fmt.Errorf("ask: %w", err)
	}
	if shown {
		limit, stop := context.WithTimeout(ctx, waitLimit)
		defer stop()
		if err := crowd.Shown(limit, []string{s.hello.Addr}, s.hello.Token, a.ref); err != nil {
			a.end()
			return nil, err
		}
	}
	return a, nil
}
