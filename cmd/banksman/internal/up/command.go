package up

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"time"

	"github.com/banksman/banksman/cmd/banksman/internal/cli"
	"github.com/banksman/banksman/pkg/natsd"
	"github.com/banksman/banksman/services/agent"
	"github.com/banksman/banksman/services/gateway"
)

const usage = `usage: banksman up [flags]

Runs the NATS server, the gateway, the notifier and one agent worker in this
process, on this machine's loopback only. Ctrl-C ends it; what waits is kept.

`

// Command is "banksman up"; it returns the exit code.
func Command(ctx context.Context, args []string, stdio cli.Stdio) int {
	o := Options{Stdout: stdio.Out}
	fs := flag.NewFlagSet("banksman up", flag.ContinueOnError)
	fs.SetOutput(stdio.Err)
	fs.Usage = func() {
		fmt.Fprint(stdio.Err, usage)
		fs.PrintDefaults()
	}
	var level slog.Level
	fs.StringVar(&o.Listen, "listen", gateway.DefaultAddr, "`address` of the web app; port 0 takes a free one")
	fs.Func("origin", "`origin` of another site whose pages may embed the elements and call this gateway with a session token; may be repeated", func(s string) error {
		o.Origins = append(o.Origins, s)
		return nil
	})
	fs.StringVar(&o.Data, "data", stdio.DataDir, "data `directory` (default $XDG_DATA_HOME/banksman or ~/.local/share/banksman)")
	fs.StringVar(&o.NATS, "nats", "", "`address` of a NATS server that runs already, instead of the embedded one; credentials come from --data")
	fs.IntVar(&o.NATSPort, "nats-port", 0, "client `port` of the embedded server (default: 4222 if free at the first start, else a free one; then kept)")
	fs.BoolVar(&o.Demo, "demo", false, "start the demo session at once: every kind of card, no model, nothing is executed")
	durability := fs.String("durability", string(natsd.DurabilityAlways), "always: every acknowledged record survives a power loss; relaxed: faster, the last two minutes may not")
	fs.StringVar(&o.TestLogin, "test-login", "", "write a session token that can decide into this `file`: for unattended tests only")
	fs.StringVar(&o.Claude, "claude", "", "`path` of the Claude Code CLI (default: found when a session starts)")
	fs.DurationVar(&o.AskTimeout, "ask-timeout", agent.DefaultAskTimeout, "how long people have to answer what a session asks; 0: no limit")
	fs.DurationVar(&o.OrphanAfter, "orphan-after", 5*time.Minute, "how long a worker may be silent before its requests count as orphaned")
	quota := gateway.DefaultQuota()
	var mib, dayMib, talkMib int64
	fs.IntVar(&quota.Open, "quota-open", quota.Open, "`requests` an owner may have open at a time; 0: no limit")
	fs.Int64Var(&mib, "quota-open-mib", quota.OpenBytes>>20, "`MiB` that an owner's open requests may have together; 0: no limit")
	fs.Int64Var(&dayMib, "quota-day-mib", quota.DayBytes>>20, "`MiB` of requests an owner may send a day; 0: no limit")
	fs.Int64Var(&talkMib, "quota-conversation-mib", quota.DayTalk>>20, "`MiB` of conversation, states and receipts an owner may store a day; 0: no limit")
	fs.StringVar(&o.Webhooks, "notify", "", "the notifier's configuration `file`")
	fs.TextVar(&level, "log", slog.LevelWarn, "log `level`: debug, info, warn or error")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return cli.ExitOK
		}
		return cli.ExitError
	}
	if fs.NArg() > 0 {
		fmt.Fprintf(stdio.Err, "banksman up: unexpected argument %q\n", fs.Arg(0))
		return cli.ExitError
	}
	if o.AskTimeout < 0 {
		fmt.Fprintf(stdio.Err, "banksman up: --ask-timeout: %s is less than 0\n", o.AskTimeout)
		return cli.ExitError
	}
	if quota.Open < 0 || mib < 0 || dayMib < 0 || talkMib < 0 {
		fmt.Fprintln(stdio.Err, "banksman up: --quota-...: a limit must not be negative")
		return cli.ExitError
	}
	quota.OpenBytes, quota.DayBytes, quota.DayTalk = mib<<20, dayMib<<20, talkMib<<20
	o.Quota = &quota
	o.Durability = natsd.Durability(*durability)
	o.Logger = slog.New(slog.NewTextHandler(stdio.Err, &slog.HandlerOptions{Level: level}))
	if o.Data == "" {
		var err error
		if o.Data, err = cli.DefaultDataDir(); err != nil {
			fmt.Fprintln(stdio.Err, "banksman up:", err)
			return cli.ExitError
		}
	}
	if err := Run(ctx, o); err != nil {
		fmt.Fprintln(stdio.Err, "banksman up:", err)
		return 1
	}
	return cli.ExitOK
}
