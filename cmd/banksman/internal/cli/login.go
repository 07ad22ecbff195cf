package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
)

const loginUsage = `login [--cli [--manage]]

Prints a new link that signs a browser in, once. With --cli it signs this
terminal in instead: it prints a code, and who is to be signed in here enters it in
the web app, or confirms it there where they use the installation alone. The
terminal may then decide for them, for a short time; with --manage also manage
people and tokens, for an hour.`

// pollEvery is how often a terminal asks whether its code is confirmed.
const pollEvery = time.Second

// login is the file that keeps a terminal's session.
type login struct {
	V         int       `json:"v"`
	Token     string    `json:"token"`
	ExpiresAt time.Time `json:"expires_at"`
}

// bareToken is a session token as the gateway makes them.
var bareToken = regexp.MustCompile(`^[A-Za-z0-9_-]{40,}$`)

// errNoLogin tells what to do about it.
var errNoLogin = errors.New("this terminal may not decide yet: run banksman login --cli")

func (c *command) loginFile(path string) string {
	if path != "" {
		return path
	}
	return filepath.Join(c.data, "cli-login.json")
}

// Token reads the person's token from a login file.
func Token(path string) (string, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", errNoLogin
	}
	if err != nil {
		return "", err
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return "", fmt.Errorf("%s: mode %04o lets others read it: run banksman login --cli for a new one", path, perm)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	// banksman up --test-login writes the bare token.
	if text := strings.TrimSpace(string(raw)); bareToken.MatchString(text) {
		return text, nil
	}
	var l login
	if err := json.Unmarshal(raw, &l); err != nil || l.V != 1 || l.Token == "" {
		return "", fmt.Errorf("%s is no login file: run banksman login --cli", path)
	}
	if !time.Now().Before(l.ExpiresAt) {
		return "", fmt.Errorf("the login has expired: run banksman login --cli")
	}
	return l.Token, nil
}

// Login is the command login.
func Login(ctx context.Context, args []string, stdio Stdio) int {
	c := newCommand("login", loginUsage, stdio)
	terminal := c.flags.Bool("cli", false, "sign this terminal in")
	manage := c.flags.Bool("manage", false, "with --cli: to manage people and tokens as well")
	file := c.flags.String("login", "", "with --cli: login `file` (default cli-login.json in the data directory)")
	rest, err := c.parse(args)
	if err != nil {
		return c.fail(err)
	}
	if len(rest) > 0 {
		return c.fail(fmt.Errorf("what is %q? (banksman login -h)", rest[0]))
	}
	if *manage && !*terminal {
		return c.fail(errors.New("--manage belongs to --cli"))
	}
	client, err := c.connect(ctx)
	if err != nil {
		return c.fail(err)
	}
	defer client.Close()
	if *terminal {
		err = c.confirm(ctx, client, c.loginFile(*file), *manage)
	} else {
		err = c.link(ctx, client)
	}
	if err != nil {
		return c.fail(err)
	}
	return ExitOK
}

func (c *command) link(ctx context.Context, client *bus.Client) error {
	r, err := call(ctx, func(ctx context.Context) (*wire.LoginReply, error) {
		return client.Login(ctx, wire.LoginCall{})
	})
	if err != nil {
		return err
	}
	if r.URL == "" {
		return errors.New("the gateway gave no link")
	}
	_, err = fmt.Fprintln(c.Out, safe(r.URL))
	return err
}

// confirm shows a code and waits until a person has confirmed it.
func (c *command) confirm(ctx context.Context, client *bus.Client, path string, manage bool) error {
	r, err := call(ctx, func(ctx context.Context) (*wire.LoginReply, error) {
		return client.Login(ctx, wire.LoginCall{CLI: true, Name: terminalName(), Manage: manage})
	})
	if err != nil {
		return err
	}
	if r.Code == "" || r.Poll == "" {
		return errors.New("the gateway gave no code")
	}
	where := "in the web app, under Settings"
	if in, err := ReadInstance(c.data); err == nil && in.HTTP != "" {
		where = "at " + in.HTTP + "/#/terminal"
	}
	c.say("Enter this code %s, or confirm it where the page shows it:", where)
	if _, err := fmt.Fprintln(c.Out, safe(r.Code)); err != nil {
		return err
	}
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return errors.New("stopped; the terminal is not signed in")
		case <-tick.C:
		}
		got, err := client.Login(ctx, wire.LoginCall{Poll: r.Poll})
		var refused *bus.ServiceError
		switch {
		case errors.Is(err, bus.ErrUnavailable):
			continue
		case errors.As(err, &refused) && refused.Body.Code == string(hitl.Unavailable):
			continue
		case errors.As(err, &refused) && refused.Body.Code == string(hitl.NotFound):
			return errors.New("nobody confirmed the code in time")
		case err != nil:
			return err
		case got.Token == "":
			continue
		}
		expires, err := time.Parse(time.RFC3339, got.ExpiresAt)
		if err != nil {
			return fmt.Errorf("the gateway's expires_at: %w", err)
		}
		if err := writeFile(path, login{V: 1, Token: got.Token, ExpiresAt: expires}); err != nil {
			return err
		}
		c.say("This terminal may decide until %s.", expires.Local().Format("2006-01-02 15:04"))
		return nil
	}
}

// terminalName is what the confirmation shows.
func terminalName() string {
	name := "terminal"
	if u, err := user.Current(); err == nil && u.Username != "" {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return name
}
