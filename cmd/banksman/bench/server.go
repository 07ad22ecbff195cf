package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/banksman/banksman/cmd/banksman/internal/creds"
	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/natsd"
)

// plan is the product's server with who asks on it.
func plan(dir string, d natsd.Durability) natsd.Plan {
	return natsd.Plan{
		Dir: dir, Port: natsd.RandomPort, Durability: d,
		Owners: []natsd.Owner{{Name: owner, Pool: true}, {Name: "cli", Caller: true}},
	}
}

func streams(replicas int) journal.Config {
	return journal.Config{Replicas: replicas, Pools: []journal.Pool{{Tenant: bus.DefaultTenant, Pool: owner}}}
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
	if err := natsd.Write(plan(p.cfg.Dir, p.cfg.Durability)); err != nil {
		return err
	}
	s, err := natsd.Start(ctx, natsd.StartOptions{ConfigFile: natsd.ConfigFile(p.cfg.Dir), Logger: p.log})
	if err != nil {
		return err
	}
	defer s.Shutdown()
	if err := creds.Provision(ctx, p.cfg.Dir, nil, streams(1), s.InProcess()); err != nil {
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

// node runs one node of a cluster.
func (p *part) node(ctx context.Context, work func() error) error {
	s, err := natsd.Start(ctx, natsd.StartOptions{ConfigFile: natsd.ConfigFile(p.cfg.Dir), Logger: p.log})
	if err != nil {
		return err
	}
	defer s.Shutdown()
	if err := p.out.Encode(partHello{URL: s.ClientURL()}); err != nil {
		return err
	}
	return work()
}

// nodes is how many a cluster has; each stream is on all of them.
const nodes = 3

// startCluster runs the nodes, each a process, and makes the streams. The
// credential files of the first node name all three and lie below dir, so that
// whoever connects is at any of them.
func startCluster(ctx context.Context, dir string, d natsd.Durability) (procs []*process, err error) {
	ports, err := freePorts(2 * nodes)
	if err != nil {
		return nil, err
	}
	var urls, routes []string
	for i := range nodes {
		urls = append(urls, fmt.Sprintf("nats://127.0.0.1:%d", ports[i]))
		routes = append(routes, fmt.Sprintf("nats://127.0.0.1:%d", ports[nodes+i]))
	}
	var dirs []string
	for i := range nodes {
		at := dir
		if i > 0 {
			at = filepath.Join(dir, fmt.Sprintf("node%d", i))
			if err := copyKeys(dir, at); err != nil {
				return nil, err
			}
		}
		pl := plan(at, d)
		pl.Port, pl.URLs, pl.StoreDir = ports[i], urls, filepath.Join(at, "store")
		pl.Cluster = &natsd.Cluster{Name: "bench", ServerName: fmt.Sprintf("n%d", i), Port: ports[nodes+i]}
		for j, r := range routes {
			if j != i {
				pl.Cluster.Routes = append(pl.Cluster.Routes, r)
			}
		}
		if err := natsd.Write(pl); err != nil {
			return nil, err
		}
		dirs = append(dirs, at)
	}
	for _, at := range dirs {
		p, err := start(ctx, partConfig{Part: partNode, Dir: at})
		if err != nil {
			return procs, err
		}
		procs = append(procs, p)
	}
	// The nodes elect first; until then a call fails or gets no answer.
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		err := creds.Provision(ctx, dir, nil, streams(nodes))
		if err == nil {
			return procs, nil
		}
		select {
		case <-ctx.Done():
			return procs, fmt.Errorf("the cluster never took the streams: %w", err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// copyKeys gives a node the accounts and keys of the first one.
func copyKeys(from, to string) error {
	if err := os.MkdirAll(filepath.Join(to, "nats"), 0o700); err != nil {
		return err
	}
	raw, err := os.ReadFile(filepath.Join(from, "nats", "plan.json"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(to, "nats", "plan.json"), raw, 0o600); err != nil {
		return err
	}
	keys := filepath.Join(to, "creds")
	if err := os.Mkdir(keys, 0o700); err != nil {
		return err
	}
	files, err := os.ReadDir(filepath.Join(from, "creds"))
	if err != nil {
		return err
	}
	for _, f := range files {
		raw, err := os.ReadFile(filepath.Join(from, "creds", f.Name()))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(keys, f.Name()), raw, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// freePorts are ports of the loopback address that nobody has now.
func freePorts(n int) (ports []int, err error) {
	for range n {
		l, e := net.Listen("tcp", "127.0.0.1:0")
		if e != nil {
			return nil, e
		}
		defer func() { err = errors.Join(err, l.Close()) }()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
