package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/wire"
)

// spread is a team on several machines, each of them a directory that has copies of
// what it needs and nothing else: three nodes as banksman creds --node makes them, two
// gateways, a notifier, a worker and somebody's terminal.
type spread struct {
	*trio
	hosts    [3]string
	port     int
	hook     *receiver
	config   string
	notifier *process
	worker   *process
	asks     map[string]*process // by key
}

func newSpread(t *testing.T) *spread {
	t.Helper()
	s := &spread{trio: &trio{home: newHome(t)}, port: freePort(t), hook: newReceiver(t), asks: map[string]*process{}}
	s.config = s.hook.config(t, 0)
	args := []string{"creds", "--port", fmt.Sprint(s.port), "--cluster-port", fmt.Sprint(freePort(t)), "--durability", "relaxed"}
	for i := range s.hosts {
		// Every node has these two ports, so each needs an address of its own.
		s.hosts[i] = fmt.Sprintf("127.%d.%d.%d", s.port>>8, s.port&255, i+2)
		s.dirs[i] = s.machine(fmt.Sprint("node-", i))
		args = append(args, "--node", s.hosts[i], "--url", s.server(i))
	}
	for i, host := range s.hosts {
		r := s.run(append(args, "--host", host, "--store", filepath.Join(s.dirs[i], "store"), "--install", host+"="+s.dirs[i])...)
		require.Zero(t, r.code, r.stderr)
	}
	for i := range s.nodes {
		s.nodes[i] = start(t, s.env, "nats-server", "-c", filepath.Join(s.dirs[i], "server.conf"))
	}
	require.Eventually(t, func() bool { return s.run("creds", "--provision", "--replicas", "3").code == 0 }, patience, 200*time.Millisecond)
	for _, name := range []string{"gateway", "notifier", "owner-agents", "owner-cli"} {
		s.give(name)
	}
	for i := range s.addrs {
		s.addrs[i] = fmt.Sprintf("127.0.0.1:%d", freePort(t))
		s.gateways = append(s.gateways, s.gateway(i))
	}
	s.startNotifier()
	s.startWorker()
	return s
}

func (s *spread) machine(name string) string { return filepath.Join(filepath.Dir(s.data), name) }

func (s *spread) server(i int) string { return fmt.Sprintf("nats://%s:%d", s.hosts[i], s.port) }

// own is the copy of a credential on a machine.
func (s *spread) own(machine, name string) string {
	return filepath.Join(s.machine(machine), name+".json")
}

// machines says where copies of a credential are.
func machines(name string) []string {
	if name == "gateway" {
		return []string{"gateway-0", "gateway-1"}
	}
	return []string{name}
}

func (s *spread) send(from, to string) {
	s.t.Helper()
	raw, err := os.ReadFile(from)
	require.NoError(s.t, err)
	require.NoError(s.t, os.MkdirAll(filepath.Dir(to), 0o700))
	require.NoError(s.t, os.WriteFile(to+".new", raw, 0o600))
	require.NoError(s.t, os.Rename(to+".new", to))
}

// give brings a credential to the machines that have it.
func (s *spread) give(name string) {
	s.t.Helper()
	for _, m := range machines(name) {
		s.send(s.creds(name+".json"), s.own(m, name))
	}
}

// accounts brings the accounts to one node after the other.
func (s *spread) accounts() {
	s.t.Helper()
	for i := range s.nodes {
		s.node(i)
	}
}

// node brings the accounts to a node and lets it read them.
func (s *spread) node(i int) {
	s.t.Helper()
	s.send(filepath.Join(s.data, "nats", "accounts.conf"), filepath.Join(s.dirs[i], "accounts.conf"))
	read := strings.Count(s.nodes[i].output(), "Reloaded server configuration")
	r := command(s.t, s.env, "", "nats-server", "--signal", fmt.Sprintf("reload=%d", s.nodes[i].cmd.Process.Pid))
	require.Zero(s.t, r.code, r.stderr)
	require.Eventually(s.t, func() bool {
		return strings.Count(s.nodes[i].output(), "Reloaded server configuration") > read
	}, patience, 10*time.Millisecond)
}

func (s *spread) gateway(i int) *instance {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), "token")
	p := start(s.t, s.env, "banksman-gateway", "--creds", s.own(fmt.Sprint("gateway-", i), "gateway"), "--listen", s.addrs[i], "--test-login", file, "--login", "--cwd", s.work)
	p.line(`/#login=`)
	g := &instance{process: p, home: s.home, url: "http://" + s.addrs[i]}
	g.ready()
	raw, err := os.ReadFile(file)
	require.NoError(s.t, err)
	s.token = strings.TrimSpace(string(raw))
	return g
}

func (s *spread) startNotifier() {
	s.notifier = start(s.t, s.env, "banksman-notifier", "--creds", s.own("notifier", "notifier"), "--config", s.config, "--base-url", "https://banksman.example", "--log", "info")
	s.notifier.line("notifier is running")
}

func (s *spread) startWorker() {
	s.worker = start(s.t, s.env, "banksman-agent", "--creds", s.own("owner-agents", "owner-agents"), "--data", s.machine("worker"), "--log", "info")
	s.worker.line("worker is ready")
}

func (s *spread) end(p *process) {
	s.t.Helper()
	require.NoError(s.t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.Zero(s.t, p.wait(), p.output())
}

// ask asks at somebody's terminal and leaves it open.
func (s *spread) ask(key string) {
	s.t.Helper()
	s.asks[key] = start(s.t, s.env, "banksman", "ask", "--creds", s.own("owner-cli", "owner-cli"), "--key", key, "--title", key,
		"--timeout", "30m", "--tool", "Bash", "--input", `{"command":"make"}`)
	s.waits(key)
}

// waits waits until people see what has this title.
func (s *spread) waits(title string) (ix wire.Interaction) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		for _, one := range s.list() {
			if one.Title == title {
				ix = one
				return true
			}
		}
		return false
	}, patience, 50*time.Millisecond, "%s is not shown", title)
	return ix
}

// answered decides at a gateway; the asker has to hear of it.
func (s *spread) answered(gateway int, key string) {
	s.t.Helper()
	ix := s.waits(key)
	require.NoError(s.t, s.allow(s.addrs[gateway], &ix))
	require.Zero(s.t, s.asks[key].wait(), s.asks[key].output())
}

func (s *spread) rotate(args ...string) result {
	s.t.Helper()
	r := s.run(append([]string{"creds", "rotate"}, args...)...)
	require.Zero(s.t, r.code, r.stderr)
	return r
}

// enters says of each node whether it takes a credential.
func (s *spread) enters(c *bus.Credentials) (in [3]bool) {
	s.t.Helper()
	for i := range s.hosts {
		auth, err := c.Auth()
		require.NoError(s.t, err)
		nc, err := nats.Connect(s.server(i), auth, nats.NoReconnect(), nats.IgnoreDiscoveredServers())
		if err == nil {
			nc.Close()
		} else {
			require.ErrorIs(s.t, err, nats.ErrAuthorization)
		}
		in[i] = err == nil
	}
	return in
}

// The keys of a cluster are rotated as docs/operations.md says, node by node, while two
// gateways, a notifier, a worker with a session and a terminal work on. What was asked
// before each step is decided after it, people are told of all of it, and at the end no
// node takes a key of before.
func TestKeysOfAClusterAreRotatedNodeByNode_B48_invariant2_invariant3(t *testing.T) {
	t.Parallel()
	s := newSpread(t)
	all, none := [3]bool{true, true, true}, [3]bool{}
	var code int
	var body string
	require.Eventually(t, func() bool { // until the worker's heartbeat is in
		code, body = s.gateways[0].call("POST", "/api/sessions", s.token, map[string]any{"runtime": "demo", "prompt": "go"})
		return code == http.StatusOK
	}, patience, 50*time.Millisecond, "%d %s", code, body)
	var asked wire.Interaction // by the worker, before everything
	require.Eventually(t, func() bool {
		l := s.list()
		if len(l) == 1 {
			asked = l[0]
		}
		return len(l) == 1
	}, patience, 50*time.Millisecond)
	s.ask("before")

	// The decision key. A gateway that has its copy late signs with the old one.
	old := regexp.MustCompile(`(?m)^(\S+)  (\S+)  signs$`).FindStringSubmatch(s.rotate("decision-key", "--announce").stdout)
	require.NotNil(t, old)
	everywhere := func() {
		for _, name := range []string{"gateway", "notifier", "owner-agents", "owner-cli"} {
			s.give(name)
		}
	}
	everywhere()
	s.rotate("decision-key")
	s.send(s.creds("gateway.json"), s.own("gateway-0", "gateway"))
	for i, key := range []string{"signed anew", "signed as before"} {
		s.ask(key)
		s.answered(i, key)
	}
	s.give("gateway")
	s.ask("late")
	s.rotate("decision-key", "--drop-old")
	everywhere()
	s.answered(1, "late")
	require.NotContains(t, s.worker.output(), "ALARM")

	// The keys to connect with.
	restart := map[string]func(){
		"gateway": func() {
			for i, g := range s.gateways {
				s.end(g.process)
				s.gateways[i] = s.gateway(i)
			}
		},
		"notifier": func() {
			s.end(s.notifier)
			s.startNotifier()
		},
		"owner-agents": func() {
			s.end(s.worker)
			s.startWorker()
		},
		"owner-cli": func() {
			for key, p := range s.asks {
				select {
				case <-p.done:
				default:
					if key != "behind" {
						p.interrupt() // it leaves its question open, which has a key
						s.ask(key)
					}
				}
			}
		},
		"provisioner": func() {},
	}
	s.ask("behind") // by a program that nobody starts again
	for _, name := range []string{"owner-cli", "owner-agents", "notifier", "gateway", "provisioner"} {
		was, err := bus.LoadCredentials(s.creds(name + ".json"))
		require.NoError(t, err)
		s.ask("before " + name)
		s.rotate(name)
		now, err := bus.LoadCredentials(s.creds(name + ".json"))
		require.NoError(t, err)
		s.node(0)
		require.Equal(t, [3]bool{true, false, false}, s.enters(now), "not before a node has the accounts")
		require.Equal(t, all, s.enters(was))
		s.node(1)
		s.node(2)
		require.Equal(t, all, s.enters(now))
		require.Equal(t, all, s.enters(was), "until it is dropped")
		s.give(name)
		restart[name]()
		s.rotate(name, "--drop-old")
		s.accounts()
		require.Equal(t, none, s.enters(was), "%s: an old key", name)
		require.Equal(t, all, s.enters(now))
		s.answered(len(name)%2, "before "+name)
	}
	r := s.run("creds", "--provision", "--replicas", "3")
	require.Zero(t, r.code, r.stderr)

	// Who was left behind was cut off without an answer; asking again goes on.
	require.Equal(t, 2, s.asks["behind"].wait(), s.asks["behind"].output())
	s.ask("behind")
	s.answered(1, "behind")

	// What was asked before everything.
	s.answered(0, "before")
	require.NoError(t, s.allow(s.addrs[1], &asked))
	s.worker.line("settled.* stage=applied")
	require.Eventually(t, func() bool { // the session goes on and asks for the next thing
		l := s.list()
		return len(l) == 1 && l[0].ID != asked.ID
	}, patience, 50*time.Millisecond)
	require.Eventually(t, func() bool {
		_, bodies := s.hook.got()
		told := strings.Join(bodies, "\n")
		for key := range s.asks {
			if !strings.Contains(told, fmt.Sprintf("%q", key)) {
				return false
			}
		}
		return true
	}, patience, 50*time.Millisecond, "somebody was not told")
	for i, n := range s.nodes {
		require.NotRegexp(t, "(Publish|Subscription) Violation", n.output(), "node %d", i)
	}
}
