package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/banksman/banksman/cmd/banksman/bench/internal/peer"
	"github.com/banksman/banksman/cmd/banksman/bench/internal/road"
	"github.com/banksman/banksman/pkg/natsd"
)

// peerStack is somebody else's server and who decides there; who asks is here.
type peerStack struct {
	server  *peer.Server
	durable bool
	decider *process
	asked   int
	name    string // of what is asked, unique in the server
}

func startPeer(ctx context.Context, s *peer.Server, d natsd.Durability, name string) (*peerStack, error) {
	p := &peerStack{server: s, durable: d == natsd.DurabilityAlways, name: name}
	var err error
	p.decider, err = start(ctx, partConfig{Part: partPeer, Peer: s.Kind, URL: s.URL(p.durable)})
	return p, err
}

func (p *peerStack) stop() error { return p.decider.stop() }

// measure asks n times, so many at once, after some to warm up. Each answer
// names its ask.
func (p *peerStack) measure(ctx context.Context, n, inFlight int) (x *sample, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s, %d in flight: %w", p.server.Version, inFlight, err)
		}
	}()
	a, err := p.server.Connect(ctx, p.durable, inFlight)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	body := bytes.Repeat([]byte("x"), road.Bytes)
	trip := func(ctx context.Context, i int) error {
		id := fmt.Sprintf("%s-%d", p.name, i)
		got, err := a.Ask(ctx, id, body)
		if err == nil && !bytes.Equal(got, peer.Decision(id)) {
			err = fmt.Errorf("%s got another answer: %s", id, got)
		}
		return err
	}
	warm := warmUp(inFlight)
	x = &sample{asked: warm + n}
	if _, _, err := trips(ctx, warm, inFlight, p.unique(trip)); err != nil {
		return nil, err
	}
	x.trip, x.rate, err = trips(ctx, n, inFlight, p.unique(trip))
	return x, err
}

// unique numbers what is asked beyond all that was asked before.
func (p *peerStack) unique(trip func(context.Context, int) error) func(context.Context, int) error {
	from := p.asked
	p.asked += 1 << 20
	return func(ctx context.Context, i int) error { return trip(ctx, from+i) }
}

// startPeers runs the servers that the rows need, once for the whole run.
func (r *run) startPeers(ctx context.Context) error {
	if err := peer.Install(ctx, r.Progress); err != nil {
		return err
	}
	for _, kind := range []peer.Kind{peer.Redis, peer.Postgres} {
		s, err := peer.Start(ctx, kind, filepath.Join(r.dir, string(kind)))
		if err != nil {
			return err
		}
		r.peers = append(r.peers, s)
	}
	return nil
}
