package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	parts "github.com/banksman/banksman/pkg/metrics"
	"github.com/banksman/banksman/pkg/trace"
	"github.com/banksman/banksman/services/agent/internal/claude"
	"github.com/banksman/banksman/services/agent/internal/claudert"
	"github.com/banksman/banksman/services/agent/internal/demo"
	"github.com/banksman/banksman/services/agent/internal/metrics"
	"github.com/banksman/banksman/services/agent/internal/runtime"
	"github.com/banksman/banksman/services/agent/internal/store"
	"github.com/banksman/banksman/services/agent/internal/worker"
)

// GuardCommand is the first argument by which an executable offers RunGuard.
const GuardCommand = claude.GuardCommand

// RunGuard watches over one CLI, see Options.Guard. A main function calls it,
// with the arguments behind GuardCommand, and exits with its result.
func RunGuard(args []string) int { return claude.RunGuard(args) }

// Timeouts of a worker. The zero value of each field takes its default.
type Timeouts struct {
	// Expires is how long people have for an answer, default ten minutes; less
	// than 0: no deadline.
	Expires time.Duration
	// Attention is when an unanswered request is brought before others, default
	// half of Expires; less than 0: never.
	Attention time.Duration
	// Start bounds the start of a CLI, default two minutes.
	Start time.Duration
	// TakeUp is how long a session of an earlier process is kept that cannot start
	// again yet, default an hour. Then it ends.
	TakeUp time.Duration
}

// DefaultAskTimeout is how long people have for an answer unless a worker says
// otherwise.
const DefaultAskTimeout = hitl.DefaultExpiresIn

// AskTimeout is the Timeouts of a worker that gives people this long for an
// answer; 0 means for ever, as the programs' flag has it.
func AskTimeout(d time.Duration) Timeouts {
	if d == 0 {
		d = -1
	}
	return Timeouts{Expires: d}
}

// Options wire an Agent.
type Options struct {
	Logger *slog.Logger
	// Client is the worker's connection, with an owner's credential. It belongs
	// to the caller, who closes it after Run.
	Client *bus.Client
	// Tenant and Pool default to the credential's, and must be those.
	Tenant, Pool string
	// WorkerID names this process; default: a name that stays with DataDir.
	WorkerID string
	// DataDir holds the worker's memory of its sessions. Each worker needs one
	// of its own; a successor continues with it. Made with mode 0700.
	DataDir string
	// SharedData: several workers of this host have the same DataDir, and each
	// takes the first directory below it that no other one holds. A worker that
	// takes the place of one that ended goes on with what that one left.
	SharedData bool
	// ClaudePath is the Claude Code CLI; empty looks it up when a session starts.
	ClaudePath string
	// ClaudeEnv is the CLI's whole environment; nil is the user's own, without
	// anything of this product.
	ClaudeEnv []string
	// Guard is the command that runs RunGuard, for example this executable and
	// GuardCommand. Without one a worker that is killed may look like a denial
	// to its CLI.
	Guard []string
	// DefaultCwd is where sessions run that name no directory.
	DefaultCwd string
	Timeouts   Timeouts
	// Tracer gets the spans of decisions on their way to an agent, and of the tools that
	// they let run; nil: none. That of the asks is the Client's.
	Tracer oteltrace.TracerProvider
	// DemoPace is the time between two words of the demo; 0 is its default, less
	// than 0 none.
	DemoPace time.Duration
}

// Agent is a worker.
type Agent struct {
	w      *worker.Worker
	client *bus.Client
	counts *metrics.Metrics
}

// Validate reports what New would refuse of a worker with this credential before it
// touches anything. What a flag sets goes by that name.
func (o *Options) Validate(cred *bus.Credentials) error {
	switch {
	case cred.Role != bus.RoleOwner:
		return fmt.Errorf("-creds: they are those of a %s, want an owner's", cred.Role)
	case o.Tenant != "" && o.Tenant != cred.Tenant:
		return fmt.Errorf("-creds: they are for the tenant %q, the worker is of %q", cred.Tenant, o.Tenant)
	case o.Pool != "" && o.Pool != cred.Name:
		return fmt.Errorf("-creds: they are for the pool %q, the worker is of %q", cred.Name, o.Pool)
	case o.DataDir == "":
		return errors.New("-data: missing")
	case o.DefaultCwd != "" && !filepath.IsAbs(o.DefaultCwd):
		return fmt.Errorf("-cwd: %q is not absolute", o.DefaultCwd)
	}
	return nil
}

// New checks the options and takes the data directory. Run gives it up again.
func New(o Options) (*Agent, error) {
	if o.Client == nil {
		return nil, errors.New("agent: Client: missing")
	}
	cred := o.Client.Credentials()
	if err := o.Validate(cred); err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	o.Pool = cmp.Or(o.Pool, cred.Name)
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(o.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("agent: DataDir: %w", err)
	}
	a := &Agent{client: o.Client}
	a.counts = metrics.New(a.Health, func() int { return a.w.Sessions() })
	parts.Disk(a.counts.Registry, metrics.Part, o.DataDir)
	options := worker.Options{
		Metrics: a.counts, Tracer: trace.New(o.Tracer),
		Logger: log, Client: o.Client, Pool: o.Pool, WorkerID: o.WorkerID, DataDir: o.DataDir,
		DefaultCwd: o.DefaultCwd, Expires: o.Timeouts.Expires, Attention: o.Timeouts.Attention,
		TakeUp: o.Timeouts.TakeUp,
		Runtimes: []runtime.Runtime{
			claudert.New(claudert.Options{
				Path: o.ClaudePath, Env: o.ClaudeEnv, Guard: o.Guard, StartLimit: o.Timeouts.Start,
			}),
			demo.New(demo.Options{Pace: o.DemoPace}),
		},
	}
	var err error
	if a.w, err = newWorker(options, o.SharedData); err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	return a, nil
}

// maxShared is how many workers of a host can share a data directory.
const maxShared = 1000

func newWorker(o worker.Options, shared bool) (w *worker.Worker, err error) {
	if !shared {
		return worker.New(o)
	}
	all := o.DataDir
	for i := range maxShared {
		o.DataDir = filepath.Join(all, fmt.Sprintf("worker-%d", i+1))
		if w, err = worker.New(o); !errors.Is(err, store.ErrInUse) {
			break
		}
	}
	return w, err
}

// Run works until ctx ends, then leaves sessions and open asks to a successor
// and returns nil. Any other end is an error, and the process should be started
// again.
func (a *Agent) Run(ctx context.Context) error { return a.w.Run(ctx) }

// Health is nil while the server can be reached; the error says that it cannot.
func (a *Agent) Health() error {
	if !a.client.IsConnected() {
		return errors.New("the NATS server cannot be reached")
	}
	return nil
}

// Metrics is what the worker counts, and what it looks at when it is asked.
func (a *Agent) Metrics() prometheus.Gatherer { return a.counts.Registry }

// Close gives up the data directory of an Agent that is not going to run.
func (a *Agent) Close() error { return a.w.Close() }
