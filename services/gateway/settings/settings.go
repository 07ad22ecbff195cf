// Package settings makes the options of a gateway from its command line, the
// environment and a file.
package settings

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/settings"
	"github.com/banksman/banksman/services/gateway"
)

// Gateway is what the settings of one gateway say.
type Gateway struct {
	gateway.Options
	*settings.Common
	Login bool // print a login link at the start
}

// set makes the flags, which fill g; finish reads what they name.
func set(g *Gateway) (fs *settings.Set, finish func(stderr io.Writer) error) {
	o := &g.Options
	fs = settings.New("banksman-gateway")
	creds := fs.String("creds", "", "credential `file` of the gateway (required)")
	g.Common = fs.Common(slog.LevelInfo)
	fs.StringVar(&o.Addr, "listen", gateway.DefaultAddr, "`address` to serve people on")
	fs.StringVar(&o.BaseURL, "base-url", "", "`URL` that people use, for links (default: the address above)")
	fs.List("origin", "`origin` of another site whose pages may embed the elements and call this gateway with a session token; may be repeated", func(s string) error {
		o.Origins = append(o.Origins, s)
		return nil
	})
	fs.BoolVar(&o.AllowRemote, "allow-remote", false, "listen beyond loopback; needs an https base URL")
	fs.List("trusted-proxy", "`address, network or host name` of a proxy that says in X-Forwarded-For where a request came from; may be repeated", func(s string) error {
		o.TrustedProxies = append(o.TrustedProxies, s)
		return nil
	})
	fs.DurationVar(&o.Drain, "drain", 0, "how long to serve on after SIGTERM while /readyz says 503, so that a proxy sends people elsewhere first")
	fs.DurationVar(&o.OrphanAfter, "orphan-after", gateway.DefaultOrphanAfter, "`time` of a worker's silence after which its requests are orphaned, 15s at least")
	fs.StringVar(&o.Tenant, "tenant", "", "`tenant` of sessions started here (default \"default\")")
	fs.StringVar(&o.Pool, "pool", "", "`pool` of workers that sessions start on (default \"agents\")")
	fs.StringVar(&o.DefaultCwd, "cwd", "", "`directory` of sessions that name none")
	fs.List("critical", "`path or word` that makes a tool call critical; may be repeated", func(s string) error {
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
	fs.IntVar(&quota.Sessions, "quota-sessions", quota.Sessions, "`sessions` of an owner that may live at a time; 0: no limit")
	fs.StringVar(&o.PersonName, "person", "", "`name` of who signs in (default: this user's)")
	fs.StringVar(&o.TestLogin, "test-login", "", "for tests only: write a session token to this `file`")
	fs.BoolVar(&g.Login, "login", false, "print a login link at the start")
	return fs, func(stderr io.Writer) (err error) {
		if quota.Open < 0 || mib < 0 || dayMib < 0 || talkMib < 0 || quota.Sessions < 0 {
			return errors.New("-quota-...: a limit must not be negative")
		}
		quota.OpenBytes, quota.DayBytes, quota.DayTalk = mib<<20, dayMib<<20, talkMib<<20
		o.Quota = &quota
		if o.OIDC, err = issuer.read(); err != nil {
			return err
		}
		if *creds == "" {
			return errors.New("-creds is missing: name the gateway's credential file")
		}
		if o.Credentials, err = bus.LoadCredentials(*creds); err != nil {
			return fmt.Errorf("-creds: %w", err)
		}
		if o.Logger, err = g.Log(stderr); err != nil {
			return err
		}
		if o.OrphanAfter < gateway.MinOrphanAfter {
			return fmt.Errorf("-orphan-after: %s is less than %s, in which a live worker is heard for sure", o.OrphanAfter, gateway.MinOrphanAfter)
		}
		return o.Validate()
	}
}

// Flags are the flags themselves, for who explains them.
func Flags() *settings.Set {
	fs, _ := set(&Gateway{})
	return fs
}

// Parse reads the settings; environ is as of os.Environ. It writes to stderr
// only the help, where that is asked for; the log goes there as well.
func Parse(args, environ []string, stderr io.Writer) (Gateway, error) {
	var g Gateway
	fs, finish := set(&g)
	if err := fs.ParseOrHelp(args, environ, "usage: banksman-gateway [flags]\n\n", stderr); err != nil {
		return g, err
	}
	return g, finish(stderr)
}
