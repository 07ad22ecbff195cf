// Package doctor is banksman doctor: it looks at an installation, changes nothing,
// and says what is wrong and how to mend it.
package doctor

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/banksman/banksman/cmd/banksman/internal/cli"
	"github.com/banksman/banksman/cmd/banksman/internal/plan"
)

const usage = `usage: banksman doctor [flags]

Looks at an installation and says what is wrong and how to mend it. It changes
nothing. Exit code 0: nothing is wrong; 1: something is; 2: it could not look.
What it can see depends on the credential files it finds; with a data directory
of "banksman up" or "banksman creds" that is everything.

`

// limit bounds one look at something on the network.
const limit = 5 * time.Second

// Finding is something that is wrong.
type Finding struct {
	// Check names what was looked at; it does not change between versions.
	Check   string `json:"check"`
	Problem string `json:"problem"`
	Fix     string `json:"fix"`
	// Note: it may be meant, and does not count.
	Note bool `json:"note,omitempty"`
}

// Look is what was looked at.
type Look struct {
	Check string `json:"check"`
	// Seen is what was found, or why it was not looked at.
	Seen    string `json:"seen"`
	Skipped bool   `json:"skipped,omitempty"`
}

// Report is the whole.
type Report struct {
	Healthy  bool      `json:"healthy"`
	Findings []Finding `json:"findings"`
	Looks    []Look    `json:"looks"`
}

func (r *Report) bad(check, fix, problem string, args ...any) {
	r.Findings = append(r.Findings, Finding{Check: check, Problem: fmt.Sprintf(problem, args...), Fix: fix})
}

func (r *Report) note(check, fix, problem string, args ...any) {
	r.bad(check, fix, problem, args...)
	r.Findings[len(r.Findings)-1].Note = true
}

func (r *Report) ok(check, seen string, args ...any) {
	r.Looks = append(r.Looks, Look{Check: check, Seen: fmt.Sprintf(seen, args...)})
}

func (r *Report) skip(check, why string) {
	r.Looks = append(r.Looks, Look{Check: check, Seen: why, Skipped: true})
}

// list is a flag that may be given several times.
type list []string

func (l *list) String() string     { return strings.Join(*l, ",") }
func (l *list) Set(v string) error { *l = append(*l, v); return nil }

// options are what a person chooses.
type options struct {
	data, nats, url, notify, claude, keyFile, ca string
	status                                       list
	json                                         bool
}

// Command is "banksman doctor"; it returns the exit code.
func Command(ctx context.Context, args []string, stdio cli.Stdio) int {
	var o options
	fs := flag.NewFlagSet("banksman doctor", flag.ContinueOnError)
	fs.SetOutput(stdio.Err)
	fs.Usage = func() {
		fmt.Fprint(stdio.Err, usage+"flags:\n")
		fs.PrintDefaults()
	}
	fs.StringVar(&o.data, "data", stdio.DataDir, "data `directory`, of banksman up or banksman creds")
	fs.StringVar(&o.nats, "nats", "", "server `address`, in place of the credential files'")
	fs.StringVar(&o.url, "url", "", "`URL` that people use (default: that of the running banksman up)")
	fs.Var(&o.status, "status", "`address` of a service's -status, to read its readiness, version and channels; repeatable")
	fs.StringVar(&o.notify, "notify", "", "the notifier's configuration `file`")
	fs.StringVar(&o.claude, "claude", "", "`path` of the Claude Code CLI (default: looked up)")
	fs.StringVar(&o.keyFile, "claude-key-file", "", "`file` with the CLI's API key, as the worker has it")
	fs.StringVar(&o.ca, "ca", "", "`file` with certificates to trust for --url, besides the system's")
	fs.BoolVar(&o.json, "json", false, "for programs")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return cli.ExitOK
		}
		return cli.ExitError
	}
	if fs.NArg() > 0 {
		fmt.Fprintf(stdio.Err, "banksman doctor: unexpected argument %q\n", fs.Arg(0))
		return cli.ExitError
	}
	if o.data == "" {
		var err error
		if o.data, err = cli.DefaultDataDir(); err != nil {
			fmt.Fprintln(stdio.Err, "banksman doctor:", err)
			return cli.ExitError
		}
	}
	r := examine(ctx, o)
	if err := cli.Print(stdio.Out, o.json, r, r.write); err != nil {
		fmt.Fprintln(stdio.Err, "banksman doctor:", err)
		return cli.ExitError
	}
	if !r.Healthy {
		return 1
	}
	return cli.ExitOK
}

// examine looks at everything.
func examine(ctx context.Context, o options) *Report {
	r := &Report{Findings: []Finding{}, Looks: []Look{}}
	p := &patient{options: o, Report: r, log: slog.New(slog.DiscardHandler)}
	p.instance()
	p.files()
	p.bus(ctx)
	p.door(ctx)
	p.services(ctx)
	p.agentCLI()
	p.notifier()
	p.versions()
	r.Healthy = true
	for _, f := range r.Findings {
		r.Healthy = r.Healthy && f.Note
	}
	return r
}

// patient is an installation under examination.
type patient struct {
	options
	*Report
	log   *slog.Logger
	plan  plan.Plan
	built map[string][]string // programs by version
}

// instance reads what a running "banksman up" says of itself.
func (p *patient) instance() {
	in, err := cli.ReadInstance(p.data)
	if err != nil {
		return
	}
	if p.url == "" {
		p.url = in.HTTP
	}
	if in.Status != "" {
		p.status = append(p.status, in.Status)
	}
}

func (r *Report) write(w io.Writer) {
	for _, l := range r.Looks {
		word := "ok"
		if l.Skipped {
			word = "skipped"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", word, l.Check, cli.Safe(l.Seen))
	}
	bad := 0
	for _, f := range r.Findings {
		word := "note"
		if !f.Note {
			word = "WRONG"
			bad++
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", word, f.Check, cli.Safe(f.Problem))
		fmt.Fprintf(w, "\t\tfix: %s\n", cli.Safe(f.Fix))
	}
	switch bad {
	case 0:
		fmt.Fprintln(w, "Nothing is wrong that can be seen from here.")
	case 1:
		fmt.Fprintln(w, "One thing is wrong.")
	default:
		fmt.Fprintf(w, "%d things are wrong.\n", bad)
	}
}

func (p *patient) creds(name string) string { return filepath.Join(p.data, "creds", name) }
