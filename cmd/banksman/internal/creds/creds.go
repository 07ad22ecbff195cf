// Package creds is the command "banksman creds": it writes accounts,
// credentials and the server configuration, and can make the streams.
package creds

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/banksman/banksman/cmd/banksman/internal/cli"
	"github.com/banksman/banksman/cmd/banksman/internal/plan"
	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/journal/epoch"
	"github.com/banksman/banksman/pkg/natsd"
)

const usage = `banksman creds writes NATS accounts, credential files and a server configuration.

  banksman creds --data DIR                 one machine: owners agents and cli
  banksman creds --data DIR --owner ci      one more owner; nothing else changes
  banksman creds --data DIR --provision     makes the streams on the running server
  banksman creds rotate WHAT                a new key for one of them; see its --help
  banksman creds revoke NAME                cuts off an owner or a caller; see its --help
  banksman creds --data DIR --install gateway=/out    also a copy for one part alone

Start the server with: nats-server -c DIR/nats/server.conf
After adding an owner: nats-server --signal reload=PID, twice; no restart is needed.

`

// Command is "banksman creds"; it returns the exit code.
func Command(ctx context.Context, args []string, stdio cli.Stdio) int {
	if len(args) > 0 {
		switch args[0] {
		case "rotate":
			return rotate(args[1:], stdio)
		case "revoke":
			return revoke(args[1:], stdio)
		}
	}
	stdout, stderr := stdio.Out, stdio.Err
	fs := flag.NewFlagSet("banksman creds", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.Usage = func() {
		fmt.Fprint(stderr, usage)
		fs.PrintDefaults()
	}
	var plan natsd.Plan
	var owners, callers, urls, installs, nodes list
	durability := fs.String("durability", "", "always (default) or relaxed: flush before each acknowledgement, or every two minutes")
	fs.StringVar(&plan.Dir, "data", stdio.DataDir, "data `directory` (default as of banksman up)")
	fs.StringVar(&plan.Host, "host", "", "`address` the server listens on (default 127.0.0.1)")
	fs.IntVar(&plan.Port, "port", 0, "client `port` (default 4222 if free, else a free one; then kept)")
	fs.Var(&owners, "owner", "add an owner `name` (tenant/name for another tenant); repeatable")
	fs.Var(&callers, "caller", "add a caller of the service API; repeatable")
	fs.Var(&urls, "url", "`address` of the server as clients reach it; repeatable")
	fs.StringVar(&plan.StoreDir, "store", "", "`directory` of the server's streams (default nats/store in the data directory)")
	fs.IntVar(&plan.MonitorPort, "monitor-port", 0, "`port` of the server's monitoring, on 127.0.0.1 (default none)")
	fs.Var(&nodes, "node", "`host` of a node of a cluster, by its name or address; repeatable. Its configuration is installed by --install HOST=DIR")
	clusterPort := fs.Int("cluster-port", 6222, "`port` by which nodes reach each other")
	fs.Var(&installs, "install", "`PART=DIR`: copy into DIR what one part needs and nothing else. PART is nats, a --node, or a credential file without its ending, such as gateway or owner-agents; repeatable")
	provision := fs.Bool("provision", false, "make the streams on the running server")
	keep := fs.Int("keep-days", 0, "how long decisions are kept, in `days`; default 365 for a new record, and what it is for one that exists. Less deletes what is older, for good (with --provision)")
	sizes := map[string]int64{}
	fs.Func("stream-mib", "`STREAM=MIB`: how large a stream may become; repeatable (with --provision)", func(s string) error {
		name, text, ok := strings.Cut(s, "=")
		mib, err := strconv.ParseInt(text, 10, 32)
		if !ok || err != nil || mib < 1 {
			return errors.New("want STREAM=MIB, for example HITL_DECISIONS=16384")
		}
		if !slices.Contains(journal.Streams(), name) {
			return fmt.Errorf("%s is none of %s", name, strings.Join(journal.Streams(), ", "))
		}
		sizes[name] = mib << 20
		return nil
	})
	restored := fs.Bool("restored", false, "the server's data were put back from a copy: pages begin anew instead of going on from places in what was lost (with --provision)")
	replicas := fs.Int("replicas", 0, "copies of each stream, 3 in a cluster; default 1 for a new stream, and what it is for one that exists (with --provision)")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return cli.ExitOK
		}
		return cli.ExitError
	}
	if *keep < 0 || *keep > maxKeep {
		fmt.Fprintf(stderr, "banksman creds: --keep-days: want 0 to %d\n", maxKeep)
		return cli.ExitError
	}
	if *replicas < 0 {
		fmt.Fprintln(stderr, "banksman creds: --replicas: is negative")
		return cli.ExitError
	}
	if idle := withoutProvision(fs); !*provision && len(idle) > 0 {
		fmt.Fprintf(stderr, "banksman creds: --provision is missing: without it %s would do nothing\n", strings.Join(idle, ", "))
		return cli.ExitError
	}
	if fs.NArg() > 0 {
		fmt.Fprintf(stderr, "banksman creds: unexpected argument %q\n", fs.Arg(0))
		return 2
	}
	if plan.Dir == "" {
		var err error
		if plan.Dir, err = cli.DefaultDataDir(); err != nil {
			fmt.Fprintln(stderr, "banksman creds:", err)
			return 1
		}
	}
	plan.Durability = natsd.Durability(*durability)
	plan.URLs = urls
	plan.Owners = []natsd.Owner{{Name: "agents", Pool: true}, {Name: "cli", Caller: true}}
	for _, o := range owners {
		tenant, name := split(o)
		plan.Owners = append(plan.Owners, natsd.Owner{Tenant: tenant, Name: name, Pool: true, Caller: true})
	}
	for _, c := range callers {
		tenant, name := split(c)
		plan.Callers = append(plan.Callers, natsd.Caller{Tenant: tenant, Name: name})
	}
	if err := write(plan, nodes, *clusterPort, installs); err != nil {
		fmt.Fprintln(stderr, "banksman creds:", err)
		return 1
	}
	fmt.Fprintf(stdout, "configuration: %s\ncredentials:   %s/creds\n", natsd.ConfigFile(plan.Dir), plan.Dir)
	if *provision {
		cfg := journal.Config{Replicas: *replicas, MaxBytes: sizes, RecordAge: time.Duration(*keep) * 24 * time.Hour}
		if err := Provision(ctx, plan.Dir, nil, cfg); err != nil {
			fmt.Fprintln(stderr, "banksman creds: make the streams:", err)
			return 1
		}
		if *restored {
			if err := Restored(ctx, plan.Dir); err != nil {
				fmt.Fprintln(stderr, "banksman creds: begin anew after a restore:", err)
				return 1
			}
		}
		fmt.Fprintln(stdout, "streams:       ready")
	}
	return 0
}

// maxKeep is a hundred years, in days: the server's ages have room for more, but not for all.
const maxKeep = 36500

// withoutProvision names the flags that were given and say something of streams.
func withoutProvision(fs *flag.FlagSet) (given []string) {
	fs.Visit(func(f *flag.Flag) {
		if slices.Contains([]string{"keep-days", "stream-mib", "restored", "replicas"}, f.Name) {
			given = append(given, "--"+f.Name)
		}
	})
	return given
}

// Provision makes what is missing of the streams, with the provisioner's
// credential below dir, and the pools and tenants that the plan there has besides
// those of cfg. urls, where given, replace the file's.
func Provision(ctx context.Context, dir string, urls []string, cfg journal.Config, opts ...nats.Option) error {
	p, err := plan.Read(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	cfg.Tenants = append(cfg.Tenants, p.Streams().Tenants...)
	cfg.Pools = append(cfg.Pools, p.Streams().Pools...)
	nc, err := provisioner(dir, urls, opts...)
	if err != nil {
		return err
	}
	defer nc.Close()
	return journal.Provision(ctx, nc, cfg)
}

// Restored says that the server's data were put back from a copy. Gateways see it
// when they start.
func Restored(ctx context.Context, dir string) error {
	nc, err := provisioner(dir, nil)
	if err != nil {
		return err
	}
	defer nc.Close()
	return epoch.Begin(ctx, nc)
}

// provisioner connects with the provisioner's credential below dir; the caller
// closes it.
func provisioner(dir string, urls []string, opts ...nats.Option) (*nats.Conn, error) {
	c, err := bus.LoadCredentials(natsd.CredentialsFile(dir, bus.RoleProvisioner, "", ""))
	if err != nil {
		return nil, err
	}
	auth, err := c.Auth()
	if err != nil {
		return nil, err
	}
	if len(urls) == 0 {
		urls = c.URLs
	}
	nc, err := nats.Connect(strings.Join(urls, ","), append(opts, auth, nats.Name("banksman provisioner"))...)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", strings.Join(urls, ","), err)
	}
	return nc, nil
}

// list is a flag that may be given several times.
type list []string

func (l *list) String() string { return strings.Join(*l, ",") }

func (l *list) Set(v string) error {
	*l = append(*l, v)
	return nil
}

func split(s string) (tenant, name string) {
	if t, n, ok := strings.Cut(s, "/"); ok {
		return t, n
	}
	return bus.DefaultTenant, s
}
