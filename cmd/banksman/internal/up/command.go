package up

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/banksman/banksman/cmd/banksman/internal/cli"
	"github.com/banksman/banksman/pkg/natsd"
	"github.com/banksman/banksman/pkg/settings"
	"github.com/banksman/banksman/pkg/trace"
	"github.com/banksman/banksman/services/agent"
	"github.com/banksman/banksman/services/gateway"
)

const usage = `usage: banksman up [flags]

Runs the NATS server, the gateway, the notifier and one agent worker in this
process, on this machine's loopback only. Ctrl-C ends it; what waits is kept.

`

// set makes the flags, which fill o; finish reads what they name.
func set(o *Options, dataDir string) (fs *settings.Set, finish func(stderr io.Writer) error) {
	fs = settings.New("banksman up")
	var level slog.Level
	fs.StringVar(&o.Listen, "listen", gateway.DefaultAddr, "`address` of the web app; port 0 takes a free one")
	fs.List("origin", "`origin` of another site whose pages may embed the elements and call this gateway with a session token; may be repeated", func(s string) error {
		o.Origins = append(o.Origins, s)
		return nil
	})
	fs.StringVar(&o.Data, "data", dataDir, "data `directory` (default $XDG_DATA_HOME/banksman or ~/.local/share/banksman)")
	fs.StringVar(&o.NATS, "nats", "", "`address` of a NATS server that runs already, instead of the embedded one; credentials come from --data")
	fs.IntVar(&o.NATSPort, "nats-port", 0, "client `port` of the embedded server (default: 4222 if free at the first start, else a free one; then kept)")
	fs.BoolVar(&o.Demo, "demo", false, "start the demo session at once: every kind of card, no model, nothing is executed")
	durability := fs.String("durability", string(natsd.DurabilityAlways), "`when` the disk is flushed: always (every acknowledged record survives a power loss) or relaxed (faster, the last two minutes may not)")
	fs.StringVar(&o.TestLogin, "test-login", "", "write a session token that can decide into this `file`: for unattended tests only")
	fs.StringVar(&o.Claude, "claude", "", "`path` of the Claude Code CLI (default: found when a session starts)")
	fs.DurationVar(&o.AskTimeout, "ask-timeout", agent.DefaultAskTimeout, "how long people have to answer what a session asks; 0: no limit")
	fs.DurationVar(&o.OrphanAfter, "orphan-after", gateway.DefaultOrphanAfter, "how long a worker may be silent before its requests count as orphaned, 15s at least")
	quota := gateway.DefaultQuota()
	var mib, dayMib, talkMib int64
	fs.IntVar(&quota.Open, "quota-open", quota.Open, "`requests` an owner may have open at a time; 0: no limit")
	fs.Int64Var(&mib, "quota-open-mib", quota.OpenBytes>>20, "`MiB` that an owner's open requests may have together; 0: no limit")
	fs.Int64Var(&dayMib, "quota-day-mib", quota.DayBytes>>20, "`MiB` of requests an owner may send a day; 0: no limit")
	fs.Int64Var(&talkMib, "quota-conversation-mib", quota.DayTalk>>20, "`MiB` of conversation, states and receipts an owner may store a day; 0: no limit")
	fs.IntVar(&quota.Sessions, "quota-sessions", quota.Sessions, "`sessions` of an owner that may live at a time; 0: no limit")
	fs.StringVar(&o.Webhooks, "notify", "", "the notifier's configuration `file`")
	fs.StringVar(&o.Status, "status", "", "`address` that serves /healthz, /readyz and /metrics, without authentication (default: none)")
	fs.Traces(&o.Traces)
	fs.TextVar(&level, "log", slog.LevelWarn, "log `level`: debug, info, warn or error")
	return fs, func(stderr io.Writer) (err error) {
		if quota.Open < 0 || mib < 0 || dayMib < 0 || talkMib < 0 || quota.Sessions < 0 {
			return errors.New("--quota-...: a limit must not be negative")
		}
		quota.OpenBytes, quota.DayBytes, quota.DayTalk = mib<<20, dayMib<<20, talkMib<<20
		o.Quota = &quota
		o.Durability = natsd.Durability(*durability)
		o.Logger = trace.Log(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
		if o.Data == "" {
			if o.Data, err = cli.DefaultDataDir(); err != nil {
				return err
			}
		}
		return o.check()
	}
}

// Flags are the flags themselves, for who explains them.
func Flags() *settings.Set {
	fs, _ := set(&Options{}, "")
	return fs
}

// Parse reads the settings; environ is as of os.Environ.
func Parse(args, environ []string, stdio cli.Stdio) (Options, error) {
	o := Options{Stdout: stdio.Out}
	fs, finish := set(&o, stdio.DataDir)
	if err := fs.ParseOrHelp(args, environ, usage, stdio.Err); err != nil {
		return o, err
	}
	return o, finish(stdio.Err)
}

// Command is "banksman up"; it returns the exit code.
func Command(ctx context.Context, args []string, stdio cli.Stdio) int {
	o, err := Parse(args, os.Environ(), stdio)
	if errors.Is(err, flag.ErrHelp) {
		return cli.ExitOK
	}
	if err != nil {
		fmt.Fprintln(stdio.Err, "banksman up:", err)
		return cli.ExitError
	}
	if err := Run(ctx, o); err != nil {
		fmt.Fprintln(stdio.Err, "banksman up:", err)
		return 1
	}
	return cli.ExitOK
}
