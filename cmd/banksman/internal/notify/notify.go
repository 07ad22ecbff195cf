// Package notify is banksman notify: whether messages arrive, who was told of a
// request, and who looks after one. It reads the notifier's ledger with the
// notifier's own credentials, so it runs where the data directory is.
package notify

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/banksman/banksman/cmd/banksman/internal/cli"
	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/notifier"
)

const usage = `usage: banksman notify test [--config FILE] [RECIPIENT[/CHANNEL] | DECIDER]
       banksman notify explain ID
       banksman notify claim ID --as RECIPIENT [--for 15m]
       banksman notify dead
       banksman notify replay ID|all [RECIPIENT/CHANNEL]

test sends a message through every channel of a configuration and to every service
that is asked first, at once and whatever the hour, and says what they answered.
Without a configuration it tries what banksman up does by itself: a log, and the
browsers of whoever wants to be notified.
explain tells who was told of a request, when and by what, what the provider
said, what was put off or left out and why, and what comes next.
claim says that somebody looks after a request: until then nobody else is told.
dead lists the messages that were given up or refused.
replay has the notifier send such messages again, under the ids they had.
`

// connectWait is how long a command waits for the server.
const connectWait = 10 * time.Second

type command struct {
	cli.Stdio
	flags              *flag.FlagSet
	data, creds        string
	nats, config, base string
	as                 string
	span               time.Duration
	json               bool
}

// Command is the command notify.
func Command(ctx context.Context, args []string, stdio cli.Stdio) int {
	c := &command{Stdio: stdio, flags: flag.NewFlagSet("banksman notify", flag.ContinueOnError)}
	c.flags.SetOutput(stdio.Err)
	c.flags.Usage = func() {
		fmt.Fprint(stdio.Err, usage+"\nflags:\n")
		c.flags.PrintDefaults()
	}
	c.flags.StringVar(&c.data, "data", stdio.DataDir, "data `directory` of the instance")
	c.flags.StringVar(&c.creds, "creds", "", "credential `file` (default creds/notifier.json in the data directory)")
	c.flags.StringVar(&c.nats, "nats", "", "server `address`, in place of the credential file's")
	c.flags.StringVar(&c.config, "config", "", "the notifier's configuration `file`, for test (default: as banksman up without --notify)")
	c.flags.StringVar(&c.base, "base-url", "", "`URL` that people use, for the link in a test message")
	c.flags.StringVar(&c.as, "as", "", "`recipient` who looks after it, for claim")
	c.flags.DurationVar(&c.span, "for", 15*time.Minute, "how long somebody looks after it, for claim")
	c.flags.BoolVar(&c.json, "json", false, "print JSON")
	err := c.run(ctx, args)
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return cli.ExitOK
	}
	fmt.Fprintln(c.Err, cli.Safe("banksman notify: "+err.Error()))
	return cli.ExitError
}

func (c *command) run(ctx context.Context, args []string) error {
	var rest []string
	for {
		if err := c.flags.Parse(args); err != nil {
			return err
		}
		if args = c.flags.Args(); len(args) == 0 {
			break
		}
		rest, args = append(rest, args[0]), args[1:]
	}
	switch {
	case len(rest) >= 1 && len(rest) <= 2 && rest[0] == "test":
		return c.test(ctx, strings.Join(rest[1:], ""))
	case len(rest) == 2 && rest[0] == "explain":
		return c.with(ctx, rest[1], c.explain)
	case len(rest) == 1 && rest[0] == "dead":
		return c.open(ctx, c.dead)
	case len(rest) >= 2 && len(rest) <= 3 && rest[0] == "replay":
		address := strings.Join(rest[2:], "")
		if rest[1] == "all" {
			return c.open(ctx, func(ctx context.Context, l *notifier.Ledger) error { return c.replay(ctx, l, "", address) })
		}
		return c.with(ctx, rest[1], func(ctx context.Context, l *notifier.Ledger, ref subject.Ref) error {
			return c.replay(ctx, l, ref.String(), address)
		})
	case len(rest) == 2 && rest[0] == "claim":
		switch {
		case c.as == "":
			return errors.New("--as: missing: who looks after it")
		case !subject.ValidToken(c.as):
			return errors.New("--as: not the name of a recipient")
		case c.span <= 0:
			return errors.New("--for: must be more than 0s")
		}
		return c.with(ctx, rest[1], c.claim)
	}
	return errors.New("test, explain ID, claim ID, dead or replay ID (banksman notify -h)")
}

// test fails where one of the messages was not taken.
func (c *command) test(ctx context.Context, only string) error {
	log := slog.New(slog.NewTextHandler(c.Err, nil))
	cred, err := c.credentials()
	if missing := errors.Is(err, fs.ErrNotExist); missing && c.config != "" {
		cred, err = nil, nil // whatever needs them says so
	} else if missing {
		return fmt.Errorf("--config: missing: the file that the notifier runs with; and what banksman up does without one needs its data directory (--data): %w", err)
	}
	if err != nil {
		return err
	}
	var cfg notifier.Config
	if c.config == "" {
		fmt.Fprintln(c.Err, "No --config: this tries what banksman up does without --notify.")
		c.here()
	} else if cfg, err = notifier.LoadConfig(c.config); err != nil {
		return err
	}
	results, err := notifier.Test(ctx, log, cfg, cred, c.base, only)
	if err != nil {
		return err
	}
	if len(results) == 0 {
		return fmt.Errorf("the configuration leads nowhere by the name %q", only)
	}
	err = c.print(results, func(w io.Writer) {
		fmt.Fprintln(w, "ADDRESS\tRESULT")
		for _, r := range results {
			word := "taken: " + r.Said
			if r.Decider {
				word = "reachable: " + r.Said
			}
			if r.Problem != "" {
				word = "FAILED: " + r.Problem
			}
			fmt.Fprintf(w, "%s\t%s\n", r.Address, cli.Safe(word))
		}
	})
	c.welcome(ctx, results)
	for _, r := range results {
		if r.Problem != "" {
			return errors.Join(err, errors.New("not every message was taken"))
		}
	}
	return err
}

// here has the link lead to the page of the data directory, where nobody named another
// address and it runs.
func (c *command) here() {
	if c.base != "" || c.data == "" {
		return
	}
	if in, err := cli.ReadInstance(c.data); err == nil {
		c.base = in.HTTP
	}
}

// welcome has the notifier send again to what a test reached and was gone before. It
// needs the ledger, which need not be in reach of who only tries a file.
func (c *command) welcome(ctx context.Context, results []notifier.Tested) {
	if c.noLedger() || !slices.ContainsFunc(results, func(t notifier.Tested) bool { return t.Problem == "" }) {
		return
	}
	err := c.open(ctx, func(ctx context.Context, l *notifier.Ledger) error {
		n, err := l.Welcome(ctx, results)
		if n > 0 {
			fmt.Fprintf(c.Err, "%d of them wanted no more messages before, and get them again.\n", n)
		}
		return err
	})
	if err != nil {
		fmt.Fprintln(c.Err, cli.Safe("The notifier's ledger cannot be reached: an address that wanted no more messages gets none until a notifier starts anew ("+err.Error()+")"))
	}
}

// noLedger reports that there are no credentials for it.
func (c *command) noLedger() bool {
	file := c.creds
	if file == "" {
		dir := c.data
		if dir == "" {
			var err error
			if dir, err = cli.DefaultDataDir(); err != nil {
				return true
			}
		}
		file = filepath.Join(dir, "creds", "notifier.json")
	}
	_, err := os.Stat(file)
	return err != nil
}

// open connects and hands the ledger on.
func (c *command) open(ctx context.Context, do func(context.Context, *notifier.Ledger) error) (err error) {
	cred, err := c.credentials()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, connectWait)
	defer cancel()
	l, err := notifier.OpenLedger(ctx, cred)
	if err != nil {
		return err
	}
	defer l.Close()
	return do(ctx, l)
}

// credentials are the notifier's.
func (c *command) credentials() (_ *bus.Credentials, err error) {
	if c.data == "" && c.creds == "" {
		if c.data, err = cli.DefaultDataDir(); err != nil {
			return nil, err
		}
	}
	if c.creds == "" {
		c.creds = filepath.Join(c.data, "creds", "notifier.json")
	}
	cred, err := bus.LoadCredentials(c.creds)
	if err == nil && c.nats != "" {
		cred.URLs = []string{c.nats}
	}
	return cred, err
}

// with is open, and finds the request.
func (c *command) with(ctx context.Context, id string, do func(context.Context, *notifier.Ledger, subject.Ref) error) error {
	return c.open(ctx, func(ctx context.Context, l *notifier.Ledger) error {
		refs, err := l.Find(ctx, id)
		if err != nil {
			return err
		}
		if len(refs) > 1 {
			var keys []string
			for _, r := range refs {
				keys = append(keys, r.String())
			}
			return fmt.Errorf("several requests have this id; give one of %s", strings.Join(keys, ", "))
		}
		return do(ctx, l, refs[0])
	})
}

func (c *command) dead(ctx context.Context, l *notifier.Ledger) error {
	list, err := l.Dead(ctx)
	if err != nil {
		return err
	}
	return c.print(list, func(w io.Writer) {
		if len(list) == 0 {
			fmt.Fprintln(w, "No message was given up or refused.")
			return
		}
		fmt.Fprintln(w, "WHEN\tREQUEST\tSTEP\tTO\tSTATE\tWHAT IS KNOWN")
		for _, d := range list {
			word := known(&d.Delivery)
			if !d.Again {
				word += "; cannot be sent again"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", clock(d.DueAt), d.Key, d.Step, d.Address, d.State, cli.Safe(word))
		}
	})
}

func (c *command) replay(ctx context.Context, l *notifier.Ledger, key, address string) error {
	n, err := l.Replay(ctx, key, address)
	if err != nil {
		return err
	}
	if n == 0 {
		return errors.New("there is no such message that was given up or refused and can be sent again (banksman notify dead)")
	}
	return c.print(map[string]int{"replayed": n}, func(w io.Writer) {
		fmt.Fprintf(w, "%d to be sent again, by a notifier that runs; banksman notify explain ID tells what came of it.\n", n)
	})
}

func (c *command) explain(ctx context.Context, l *notifier.Ledger, ref subject.Ref) error {
	x, err := l.Explain(ctx, ref)
	if err != nil {
		return err
	}
	return c.print(x, func(w io.Writer) {
		fmt.Fprintln(w, cli.Safe(head(x)))
		if len(x.Deliveries) == 0 {
			fmt.Fprintln(w, "Nobody is told of it.")
			return
		}
		fmt.Fprintln(w, "WHEN\tSTEP\tTO\tSTATE\tWHAT IS KNOWN")
		for _, d := range x.Deliveries {
			at := d.DueAt
			if d.SentAt != nil {
				at = *d.SentAt
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", clock(at), d.Step, d.Address, d.State, cli.Safe(known(&d)))
		}
	})
}

func clock(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") }

// head says where the request stands.
func head(x *notifier.Explanation) string {
	s := "It waits."
	if x.OverAt != nil {
		s = fmt.Sprintf("It is over since %s: %s.", clock(*x.OverAt), x.Outcome)
	}
	switch x.Route {
	case "":
	case "none":
		s += " No route matches it."
	default:
		s += " It follows the route " + x.Route + "."
	}
	if x.Claim != nil && x.OverAt == nil && x.Claim.Until.After(time.Now()) {
		s += fmt.Sprintf(" %s looks after it until %s.", x.Claim.By, clock(x.Claim.Until))
	}
	return s
}

// known is what there is to say of a delivery, beside its state.
func known(d *notifier.Delivery) string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if d.Said != "" {
		add("the provider said %s", d.Said)
	}
	if d.Digest {
		add("in one message with others")
	}
	if d.Problem != "" {
		add("%s", d.Problem)
	}
	if d.Held != "" {
		add("put off: %s", d.Held)
	}
	if d.Tries > 1 {
		add("%d attempts", d.Tries)
	}
	if d.Uncertain && d.SentAt == nil {
		add("it may have arrived all the same")
	}
	return strings.Join(parts, "; ")
}

func (c *command) claim(ctx context.Context, l *notifier.Ledger, ref subject.Ref) error {
	got, err := l.Claim(ctx, ref, c.as, time.Now().Add(c.span))
	if err != nil {
		return err
	}
	if got.By != c.as {
		return fmt.Errorf("%s looks after it until %s", got.By, clock(got.Until))
	}
	return c.print(got, func(w io.Writer) {
		fmt.Fprintf(w, "%s looks after it until %s; nobody else is told until then.\n", got.By, clock(got.Until))
	})
}

func (c *command) print(v any, table func(io.Writer)) error {
	return cli.Print(c.Out, c.json, v, table)
}
