package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/services/gateway"
)

// parse turns the command line into Options; link asks for a login link.
func parse(args []string, stderr io.Writer) (o gateway.Options, link bool, err error) {
	fs := flag.NewFlagSet("banksman-gateway", flag.ContinueOnError)
	fs.SetOutput(stderr)
	creds := fs.String("creds", "", "credential `file` of the gateway (required)")
	level := slog.LevelInfo
	fs.TextVar(&level, "log", level, "log `level`: debug, info, warn or error")
	fs.StringVar(&o.Addr, "listen", gateway.DefaultAddr, "`address` to serve people on")
	fs.StringVar(&o.BaseURL, "base-url", "", "`URL` that people use, for links (default: the address above)")
	fs.Func("origin", "`origin` of another site whose pages may embed the elements and call this gateway with a session token; may be repeated", func(s string) error {
		o.Origins = append(o.Origins, s)
		return nil
	})
	fs.BoolVar(&o.AllowRemote, "allow-remote", false, "listen beyond loopback; needs an https base URL")
	fs.DurationVar(&o.OrphanAfter, "orphan-after", 0, "`time` of a worker's silence after which its requests are orphaned (default 5m)")
	fs.StringVar(&o.Tenant, "tenant", "", "tenant of sessions started here (default \"default\")")
	fs.StringVar(&o.Pool, "pool", "", "pool of workers that sessions start on (default \"agents\")")
	fs.StringVar(&o.DefaultCwd, "cwd", "", "`directory` of sessions that name none")
	fs.Func("critical", "`path or word` that makes a tool call critical; may be repeated", func(s string) error {
		if strings.TrimSpace(s) == "" {
			return errors.New("is empty")
		}
		o.Critical = append(o.Critical, s)
		return nil
	})
	issuer := &issuerFlags{}
	issuer.add(fs)
	quota := gateway.DefaultQuota()
	var mib, dayMib, talkMib int64
	fs.IntVar(&quota.Open, "quota-open", quota.Open, "`requests` an owner may have open at a time; 0: no limit")
	fs.Int64Var(&mib, "quota-open-mib", quota.OpenBytes>>20, "`MiB` that an owner's open requests may have together; 0: no limit")
	fs.Int64Var(&dayMib, "quota-day-mib", quota.DayBytes>>20, "`MiB` of requests an owner may send a day; 0: no limit")
	fs.Int64Var(&talkMib, "quota-conversation-mib", quota.DayTalk>>20, "`MiB` of conversation, states and receipts an owner may store a day; 0: no limit")
	fs.StringVar(&o.PersonName, "person", "", "`name` of who signs in (default: this user's)")
	fs.StringVar(&o.TestLogin, "test-login", "", "for tests only: write a session token to this `file`")
	fs.BoolVar(&link, "login", false, "print a login link at the start")
	if err := fs.Parse(args); err != nil {
		return o, false, err
	}
	if fs.NArg() > 0 {
		return o, false, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	if quota.Open < 0 || mib < 0 || dayMib < 0 || talkMib < 0 {
		return o, false, errors.New("-quota-...: a limit must not be negative")
	}
	quota.OpenBytes, quota.DayBytes, quota.DayTalk = mib<<20, dayMib<<20, talkMib<<20
	o.Quota = &quota
	if o.OIDC, err = issuer.read(); err != nil {
		return o, false, err
	}
	if *creds == "" {
		return o, false, errors.New("-creds is missing: name the gateway's credential file")
	}
	if o.Credentials, err = bus.LoadCredentials(*creds); err != nil {
		return o, false, err
	}
	o.Logger = slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	return o, link, nil
}
