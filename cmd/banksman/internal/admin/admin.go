// Package admin is banksman users and banksman tokens: who may sign in, and
// which programs may act. It calls the gateway over HTTP, as a terminal that
// banksman login --cli --manage let in.
package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/banksman/banksman/cmd/banksman/internal/cli"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
)

// callWait bounds one call.
const callWait = 20 * time.Second

// maxReply is the largest answer that is read, in bytes.
const maxReply = 16 << 20

// command is one run of a command.
type command struct {
	cli.Stdio
	name  string
	flags *flag.FlagSet
	data  *string
	url   *string
	login *string
	json  *bool
}

func newCommand(name, usage string, stdio cli.Stdio) *command {
	fs := flag.NewFlagSet("banksman "+name, flag.ContinueOnError)
	fs.SetOutput(stdio.Err)
	fs.Usage = func() {
		fmt.Fprint(stdio.Err, usage+"\nflags:\n")
		fs.PrintDefaults()
	}
	return &command{
		Stdio: stdio, name: name, flags: fs,
		data:  fs.String("data", stdio.DataDir, "data `directory` of the instance"),
		url:   fs.String("url", "", "`address` of the gateway (default: that of the instance)"),
		login: fs.String("login", "", "login `file` (default cli-login.json in the data directory)"),
		json:  fs.Bool("json", false, "print JSON"),
	}
}

// parse reads flags wherever they stand.
func (c *command) parse(args []string) (rest []string, err error) {
	for {
		if err := c.flags.Parse(args); err != nil {
			return nil, err
		}
		if args = c.flags.Args(); len(args) == 0 {
			break
		}
		rest, args = append(rest, args[0]), args[1:]
	}
	if *c.data == "" {
		*c.data, err = cli.DefaultDataDir()
	}
	if *c.login == "" {
		*c.login = filepath.Join(*c.data, "cli-login.json")
	}
	return rest, err
}

// fail tells the person and returns the exit code.
func (c *command) fail(err error) int {
	if errors.Is(err, flag.ErrHelp) {
		return cli.ExitOK
	}
	c.say("banksman %s: %v", c.name, err)
	return cli.ExitError
}

func (c *command) say(format string, args ...any) {
	fmt.Fprintln(c.Err, cli.Safe(fmt.Sprintf(format, args...)))
}

// print writes v as JSON, or else its table.
func (c *command) print(v any, table func(w io.Writer)) error {
	return cli.Print(c.Out, *c.json, v, table)
}

// call calls the gateway. in and out may be nil.
func (c *command) call(ctx context.Context, method, path string, in, out any) error {
	base := *c.url
	if base == "" {
		instance, err := cli.ReadInstance(*c.data)
		if err != nil {
			return fmt.Errorf("no running instance at %s: name the gateway with --url (%w)", *c.data, err)
		}
		base = instance.HTTP
	}
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())) {
		return fmt.Errorf("--url: %q must begin with https://, or with http:// and this machine", base)
	}
	token, err := cli.Token(*c.login)
	if err != nil {
		return fmt.Errorf("%w (for this command: banksman login --cli --manage)", err)
	}
	ctx, cancel := context.WithTimeout(ctx, callWait)
	defer cancel()
	var body io.Reader
	if in != nil {
		raw, err := hitl.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(base, "/")+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // the token is for this address alone
	}}
	defer client.CloseIdleConnections()
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }() // it was only read
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxReply))
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		var said wire.Error
		if json.Unmarshal(raw, &said) != nil || said.Error == "" {
			return fmt.Errorf("the gateway answered %d", res.StatusCode)
		}
		return errors.New(said.Error)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(raw, out)
}

func loopback(host string) bool {
	return host == "127.0.0.1" || host == "localhost" || host == "::1"
}

// grants are the flags --role, --project and --tenant.
type grants struct{ roles, projects, tenants []string }

func (c *command) grants() *grants {
	g := &grants{}
	collect := func(to *[]string) func(string) error {
		return func(s string) error {
			if s == "" {
				return errors.New("is empty")
			}
			*to = append(*to, s)
			return nil
		}
	}
	c.flags.Func("role", "viewer, responder, approver or admin; may be repeated", collect(&g.roles))
	c.flags.Func("project", "`project` the roles are for, or '*' for all; may be repeated", collect(&g.projects))
	c.flags.Func("tenant", "`tenant` the roles hold in; without it they hold in all; may be repeated", collect(&g.tenants))
	return g
}

func (g *grants) list() ([]wire.Grant, error) {
	if len(g.roles) == 0 {
		return nil, errors.New("--role: is missing")
	}
	if len(g.projects) == 0 {
		return nil, errors.New("--project: is missing; '*' stands for all")
	}
	var list []wire.Grant
	for _, r := range g.roles {
		list = append(list, wire.Grant{Role: r, Projects: g.projects, Tenants: g.tenants})
	}
	return list, nil
}

// words are roles in a table.
func words(list []wire.Grant) string {
	var parts []string
	for _, g := range list {
		part := g.Role + " of " + strings.Join(g.Projects, ",")
		if len(g.Tenants) > 0 {
			part += " in " + strings.Join(g.Tenants, ",")
		}
		parts = append(parts, part)
	}
	return cell(strings.Join(parts, "; "))
}

// cell is safe text on one line.
func cell(s string) string { return cli.Safe(strings.Join(strings.Fields(s), " ")) }

func day(t time.Time) string { return t.Local().Format("2006-01-02 15:04") }
