// Package up is the command "banksman up": NATS server, gateway, notifier and
// one agent worker in one process.
package up

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/banksman/banksman/cmd/banksman/internal/cli"
	"github.com/banksman/banksman/cmd/banksman/internal/creds"
	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/metrics"
	"github.com/banksman/banksman/pkg/natsd"
	"github.com/banksman/banksman/pkg/run"
	"github.com/banksman/banksman/pkg/status"
	"github.com/banksman/banksman/pkg/telemetry"
	"github.com/banksman/banksman/services/agent"
	"github.com/banksman/banksman/services/gateway"
	"github.com/banksman/banksman/services/notifier"
)

// Options are what a person chooses; the command fills them from its flags.
type Options struct {
	Listen      string   // where people are served
	Origins     []string // of other sites that may embed the gateway
	Data        string   // everything that lasts
	NATS        string   // an outside server instead of the embedded one
	NATSPort    int      // of the embedded server; 0 keeps the chosen one
	Demo        bool     // start the demo session at once
	Durability  natsd.Durability
	TestLogin   string        // file for a session token, unattended tests only
	Claude      string        // path of the CLI; empty looks it up
	AskTimeout  time.Duration // how long people have for an answer; 0: no limit
	OrphanAfter time.Duration
	Quota       *gateway.Quota // nil: the gateway's default
	Webhooks    string         // the notifier's configuration file
	Status      string         // address of /healthz, /readyz and /metrics; empty: none
	Traces      string         // where traces go, see package telemetry; empty: nowhere
	Logger      *slog.Logger
	Stdout      io.Writer
}

const (
	startLimit = 60 * time.Second
	stopLimit  = 20 * time.Second // of each part
	lookEvery  = time.Second      // for changed accounts
)

// Run works until ctx ends, which is no error.
func Run(ctx context.Context, o Options) error {
	if err := os.MkdirAll(o.Data, 0o700); err != nil {
		return fmt.Errorf("--data: %w", err)
	}
	data, err := filepath.Abs(o.Data)
	if err != nil {
		return fmt.Errorf("--data: %w", err)
	}
	o.Data = data
	// Taken first: an address that is in use must not cost a server start.
	listener, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	traces, err := telemetry.Start(ctx, "banksman", o.Traces, o.Logger)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	defer traces.Close() // behind the parts, which end first
	s := &stack{Options: o, listener: listener, traces: traces, failed: make(chan error, 1), watched: make(chan struct{})}
	defer s.listener.Close() // again is harmless; the gateway closes it first
	life := run.New(o.Logger, s.steps()...)
	// A start that takes this long will not end by waiting.
	starting, cancel := context.WithTimeout(ctx, startLimit)
	err = life.Start(starting)
	cancel()
	if err != nil {
		if ctx.Err() != nil {
			return nil // Ctrl-C during the start
		}
		return err
	}
	select {
	case <-ctx.Done():
		err = nil
		fmt.Fprintln(o.Stdout, "\nStopping; what waits is kept.")
	case err = <-s.failed:
	}
	return errors.Join(err, life.Stop())
}

// stack is what the steps hand to each other.
type stack struct {
	Options
	listener net.Listener
	server   *natsd.Server // nil with an outside server
	watched  chan struct{} // closed by watchServer at its end
	conn     []nats.Option
	worker   *bus.Client
	traces   *telemetry.Export // nil: none
	gateway  *gateway.Gateway
	notifier *notifier.Notifier
	agent    *agent.Agent
	status   string     // where it is served
	failed   chan error // capacity 1: the first part that ended by itself
}

// steps are the parts in the order they start; they stop in reverse, so that
// the worker can still say what becomes of its sessions.
func (s *stack) steps() []run.Step {
	var steps []run.Step
	if s.NATS == "" {
		steps = append(steps, run.Step{
			Name: "NATS server", Start: s.startServer, StopTimeout: stopLimit,
			Stop: func(context.Context) error {
				s.server.Shutdown()
				<-s.watched
				return nil
			},
		})
	}
	return append(steps,
		run.Step{Name: "streams", Start: s.provision},
		s.service("gateway", func(ctx context.Context) (func(context.Context) error, error) {
			if err := s.newGateway(ctx); err != nil {
				return nil, err
			}
			return s.gateway.Run, nil
		}),
		s.service("notifier", func(ctx context.Context) (func(context.Context) error, error) {
			n, err := s.newNotifier(ctx)
			if err != nil {
				return nil, err
			}
			s.notifier = n
			return n.Run, nil
		}),
		s.service("agent worker", func(ctx context.Context) (func(context.Context) error, error) {
			a, err := s.newAgent(ctx)
			if err != nil {
				return nil, err
			}
			s.agent = a
			return func(ctx context.Context) error {
				defer s.worker.Close()
				return a.Run(ctx)
			}, nil
		}),
		s.service("status", func(context.Context) (func(context.Context) error, error) {
			if s.Status == "" {
				return func(ctx context.Context) error { <-ctx.Done(); return nil }, nil
			}
			served, err := status.Listen(s.Status, status.Options{
				Logger: s.Logger, Ready: s.health,
				Metrics: metrics.Handler("banksman", s.gateway.Metrics(), s.notifier.Metrics(), s.agent.Metrics(), s.room()),
			})
			if err != nil {
				return nil, err
			}
			s.status = "http://" + served.Addr()
			return served.Run, nil
		}),
		run.Step{Name: "announcement", Start: s.announce, Stop: func(context.Context) error {
			return os.Remove(cli.InstanceFile(s.Data))
		}},
	)
}

// room is the disk with the server's data.
func (s *stack) room() prometheus.Gatherer {
	reg := prometheus.NewRegistry()
	metrics.Disk(reg, "server", s.Data)
	return reg
}

// health is nil while every part can do its work.
func (s *stack) health() error {
	return errors.Join(s.gateway.Health(), s.notifier.Health(), s.agent.Health())
}

// service makes a step of a part that runs until its context ends. A part that
// ends before is a failure of the whole.
func (s *stack) service(name string, start func(context.Context) (func(context.Context) error, error)) run.Step {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1) // written once, by the part's goroutine
	return run.Step{
		Name: name, StopTimeout: stopLimit,
		Start: func(starting context.Context) error {
			work, err := start(starting)
			if err != nil {
				cancel()
				return err
			}
			go func() {
				err := work(ctx)
				if ctx.Err() == nil {
					if err == nil {
						err = errors.New("it ended by itself")
					}
					select {
					case s.failed <- fmt.Errorf("%s: %w", name, err):
					default:
					}
				}
				done <- err
			}()
			return nil
		},
		Stop: func(stopping context.Context) error {
			cancel()
			select {
			case err := <-done:
				return err
			case <-stopping.Done():
				return stopping.Err()
			}
		},
	}
}

func (s *stack) startServer(ctx context.Context) error {
	plan := natsd.Plan{
		Dir: s.Data, Durability: s.Durability,
		Owners: []natsd.Owner{{Name: "agents", Pool: true}, {Name: "cli", Caller: true}},
	}
	plan.Port = s.NATSPort
	// A second instance on this data must change nothing that the first one's
	// clients read.
	if err := natsd.CheckFree(s.Data); err != nil {
		return err
	}
	_, err := os.Stat(natsd.ConfigFile(s.Data))
	first := errors.Is(err, os.ErrNotExist)
	if err := natsd.Write(plan); err != nil {
		return err
	}
	var accounts string
	start := func() (err error) {
		accounts = s.accounts()
		s.server, err = natsd.Start(ctx, natsd.StartOptions{ConfigFile: natsd.ConfigFile(s.Data), Logger: s.Logger})
		return err
	}
	err = start()
	if err != nil && first && s.NATSPort == 0 {
		// Somebody took the port between its choice and now. Later the port is
		// kept, because askers wait on it.
		plan.Port = natsd.RandomPort
		if err := natsd.Write(plan); err != nil {
			return err
		}
		err = start()
	}
	if err != nil {
		return err
	}
	s.conn = []nats.Option{s.server.InProcess()}
	go s.watchServer(accounts)
	return nil
}

// watchServer ends the whole when the server cannot write any more: going on
// would look alive and decide nothing.
// It also takes over what banksman creds changes meanwhile: an owner that is
// added may connect within lookEvery. known is the accounts that the server has.
func (s *stack) watchServer(known string) {
	defer close(s.watched)
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case err := <-s.server.Broken():
			select {
			case s.failed <- fmt.Errorf("the data could not be written; what was acknowledged is kept: make room and start again: %w", err):
			default:
			}
			return
		case <-s.server.Done():
			return
		case <-look.C:
		}
		now := s.accounts()
		if now == known || now == "" {
			continue
		}
		known = now
		if err := s.server.Reload(); err != nil {
			s.Logger.Error("changed accounts are not taken over", "error", err)
			continue
		}
		s.Logger.Info("changed accounts are taken over")
	}
}

// accounts tells one version of the accounts' file from another; "" if there
// is none.
func (s *stack) accounts() string {
	info, err := os.Stat(natsd.AccountsFile(s.Data))
	if err != nil {
		return ""
	}
	return fmt.Sprint(info.ModTime().UnixNano(), " ", info.Size())
}

// provision makes the streams. With an outside server they may have been made
// by somebody else, who then holds the provisioner's credential.
func (s *stack) provision(ctx context.Context) error {
	var urls []string
	if s.NATS != "" {
		urls = []string{s.NATS}
		file := natsd.CredentialsFile(s.Data, bus.RoleProvisioner, "", "")
		if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
			return nil
		}
	}
	return creds.Provision(ctx, s.Data, urls, journal.Config{
		Pools: []journal.Pool{{Tenant: bus.DefaultTenant, Pool: "agents"}},
	}, s.conn...)
}

func (s *stack) credentials(role bus.Role, name string) (*bus.Credentials, error) {
	file := natsd.CredentialsFile(s.Data, role, bus.DefaultTenant, name)
	c, err := bus.LoadCredentials(file)
	if errors.Is(err, os.ErrNotExist) && s.NATS != "" {
		return nil, fmt.Errorf("%w\nwith --nats the credentials must be there already: banksman creds --data %s writes them, and a server configuration that knows them", err, s.Data)
	}
	if err == nil && s.NATS != "" {
		c.URLs = []string{s.NATS}
	}
	return c, err
}

func (s *stack) newGateway(ctx context.Context) error {
	c, err := s.credentials(bus.RoleGateway, "")
	if err != nil {
		return err
	}
	cwd, err := os.Getwd()
	if err != nil {
		return err
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	ask := program(exe, cwd) + " ask"
	if s.dataFlag() != "" {
		ask += " --data " + quoted(s.Data)
	}
	o := s.gatewayOptions()
	o.Logger, o.Credentials, o.NATS, o.Listener, o.DefaultCwd, o.AskCommand = s.Logger, c, s.conn, s.listener, cwd, ask
	o.Critical, o.TestLogin, o.Tracer = []string{s.Data}, s.TestLogin, s.traces.Provider()
	s.gateway, err = gateway.New(ctx, o)
	return err
}

func (s *stack) newAgent(ctx context.Context) (*agent.Agent, error) {
	c, err := s.credentials(bus.RoleOwner, "agents")
	if err != nil {
		return nil, err
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cwd, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	s.worker, err = bus.Connect(ctx, c, bus.Options{Name: "banksman agent", Logger: s.Logger, Nats: s.conn, Tracer: s.traces.Provider()})
	if err != nil {
		return nil, err
	}
	return agent.New(agent.Options{
		Logger: s.Logger, Client: s.worker, DataDir: filepath.Join(s.Data, "agent"), ClaudePath: s.Claude,
		Guard: []string{exe, agent.GuardCommand}, DefaultCwd: cwd, Timeouts: agent.AskTimeout(s.AskTimeout), Tracer: s.traces.Provider(),
	})
}

func (s *stack) newNotifier(ctx context.Context) (*notifier.Notifier, error) {
	c, err := s.credentials(bus.RoleNotifier, "")
	if err != nil {
		return nil, err
	}
	o := notifier.Options{Logger: s.Logger, Credentials: c, NATS: s.conn, BaseURL: "http://" + s.listener.Addr().String(), Tracer: s.traces.Provider()}
	if s.Webhooks != "" {
		if o.Config, err = notifier.LoadConfig(s.Webhooks); err != nil {
			return nil, fmt.Errorf("--notify: %w", err)
		}
	}
	return notifier.New(ctx, o)
}

// announce tells how to get in.
func (s *stack) announce(ctx context.Context) error {
	url, err := s.gateway.Login(ctx)
	if err != nil {
		return err
	}
	in := cli.Instance{PID: os.Getpid(), HTTP: "http://" + s.listener.Addr().String(), NATS: s.NATS, Status: s.status, StartedAt: time.Now().UTC()}
	if s.server != nil {
		in.NATS = s.server.ClientURL()
	}
	if err := in.Write(s.Data); err != nil {
		return err
	}
	fmt.Fprintf(s.Stdout, "\nBanksman is up. Open this once in your browser:\n\n  %s\n\n", url)
	fmt.Fprintf(s.Stdout, "Try it from another terminal:\n\n  %s ask --tool Bash --input '{\"command\":\"make deploy\"}'%s\n\nCtrl-C stops it; what waits is kept in %s\n", cli.Program(), s.dataFlag(), s.Data)
	if s.Demo {
		key, err := s.gateway.StartDemo(ctx)
		if err != nil {
			return fmt.Errorf("--demo: %w", err)
		}
		fmt.Fprintf(s.Stdout, "The demo session is %s\n", key)
	}
	return nil
}

func (s *stack) dataFlag() string {
	if dir, err := cli.DefaultDataDir(); err == nil && dir == s.Data {
		return ""
	}
	return " --data " + s.Data
}
