package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/banksman/banksman/cmd/banksman/internal/cli"
	"github.com/banksman/banksman/pkg/wire"
)

const usersUsage = `usage: banksman users [list]
       banksman users invite ID [--name NAME] --role ROLE --project PROJECT
       banksman users link ID
       banksman users roles ID --role ROLE --project PROJECT
       banksman users disable|enable|logout|forget-passkeys ID

Who may sign in. invite adds somebody and prints a link by which they register a
passkey, once; link prints another one for somebody who is there. Whoever is
changed has to sign in again. The terminal has to be signed in by
banksman login --cli --manage.
`

// Users is the command users.
func Users(ctx context.Context, args []string, stdio cli.Stdio) int {
	c := newCommand("users", usersUsage, stdio)
	g := c.grants()
	name := c.flags.String("name", "", "what the person is `called`")
	rest, err := c.parse(args)
	if err == nil {
		err = c.users(ctx, rest, g, *name)
	}
	if err != nil {
		return c.fail(err)
	}
	return cli.ExitOK
}

func (c *command) users(ctx context.Context, rest []string, g *grants, name string) error {
	if len(rest) == 0 || len(rest) == 1 && rest[0] == "list" {
		return c.listUsers(ctx)
	}
	if len(rest) != 2 {
		return errors.New("list, or what and whom (banksman users -h)")
	}
	path := "/api/users/" + url.PathEscape(rest[1])
	change := func(in wire.ChangeUser) error {
		var u wire.User
		if err := c.call(ctx, http.MethodPost, path, in, &u); err != nil {
			return err
		}
		c.say("Changed; %s has to sign in again.", u.ID)
		return nil
	}
	switch rest[0] {
	case "invite":
		roles, err := g.list()
		if err != nil {
			return err
		}
		in := wire.NewUser{ID: rest[1], Name: name, Roles: roles}
		if err := c.call(ctx, http.MethodPost, "/api/users", in, nil); err != nil {
			return err
		}
		return c.link(ctx, path)
	case "link":
		return c.link(ctx, path)
	case "roles":
		roles, err := g.list()
		if err != nil {
			return err
		}
		return change(wire.ChangeUser{Roles: &roles})
	case "disable", "enable":
		off := rest[0] == "disable"
		return change(wire.ChangeUser{Disabled: &off})
	case "forget-passkeys":
		return change(wire.ChangeUser{ForgetPasskeys: true})
	case "logout":
		if err := c.call(ctx, http.MethodPost, path+"/logout", nil, nil); err != nil {
			return err
		}
		c.say("Signed out everywhere.")
		return nil
	}
	return fmt.Errorf("what is %q? (banksman users -h)", rest[0])
}

// link prints a link by which somebody registers a passkey.
func (c *command) link(ctx context.Context, path string) error {
	var in wire.Invitation
	if err := c.call(ctx, http.MethodPost, path+"/invite", nil, &in); err != nil {
		return err
	}
	c.say("For %s alone, once, until %s:", in.User.ID, day(in.ExpiresAt))
	return c.print(in, func(w io.Writer) { fmt.Fprintln(w, cell(in.URL)) })
}

func (c *command) listUsers(ctx context.Context) error {
	var list wire.UserList
	if err := c.call(ctx, http.MethodGet, "/api/users", nil, &list); err != nil {
		return err
	}
	return c.print(list.Users, func(w io.Writer) {
		fmt.Fprintln(w, "ID\tNAME\tROLES\tPASSKEYS\tSTATE")
		for _, u := range list.Users {
			state := "active"
			switch {
			case u.Disabled:
				state = "disabled"
			case u.Source == "oidc":
				state = "active, by the issuer"
			case u.Passkeys == 0:
				state = "invited"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\n", cell(u.ID), cell(u.Name), words(u.Roles), u.Passkeys, state)
		}
	})
}
