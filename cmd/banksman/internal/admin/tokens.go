package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/banksman/banksman/cmd/banksman/internal/cli"
	"github.com/banksman/banksman/pkg/wire"
)

const tokensUsage = `usage: banksman tokens [list]
       banksman tokens create NAME --role ROLE --project PROJECT [--expires 90d] [--owner OWNER]
       banksman tokens revoke ID

Tokens by which programs call the gateway. A new one is printed once, on standard
output. With --owner it does not decide what that asker asks. The terminal has to
be signed in by banksman login --cli --manage.
`

// Tokens is the command tokens.
func Tokens(ctx context.Context, args []string, stdio cli.Stdio) int {
	c := newCommand("tokens", tokensUsage, stdio)
	g := c.grants()
	expires := c.flags.String("expires", "90d", "`time` until it ends, in days (90d) or hours (12h)")
	owner := c.flags.String("owner", "", "`asker` that uses it")
	rest, err := c.parse(args)
	if err == nil {
		err = c.tokens(ctx, rest, g, *expires, *owner)
	}
	if err != nil {
		return c.fail(err)
	}
	return cli.ExitOK
}

func (c *command) tokens(ctx context.Context, rest []string, g *grants, expires, owner string) error {
	switch {
	case len(rest) == 0 || len(rest) == 1 && rest[0] == "list":
		var list wire.APITokenList
		if err := c.call(ctx, http.MethodGet, "/api/tokens", nil, &list); err != nil {
			return err
		}
		return c.print(list.Tokens, func(w io.Writer) {
			fmt.Fprintln(w, "ID\tNAME\tROLES\tUNTIL\tLAST USED")
			for _, t := range list.Tokens {
				until, used := day(t.ExpiresAt), "never"
				if t.RevokedAt != nil {
					until = "revoked " + day(*t.RevokedAt)
				}
				if t.LastUsed != nil {
					used = day(*t.LastUsed)
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", cell(t.ID), cell(t.Name), words(t.Roles), until, used)
			}
		})
	case len(rest) == 2 && rest[0] == "create":
		roles, err := g.list()
		if err != nil {
			return err
		}
		ttl, err := duration(expires)
		if err != nil {
			return fmt.Errorf("--expires: %w", err)
		}
		var made wire.CreatedAPIToken
		err = c.call(ctx, http.MethodPost, "/api/tokens", wire.NewAPIToken{
			Name: rest[1], Roles: roles, Owner: owner, ExpiresIn: int64(ttl / time.Second),
		}, &made)
		if err != nil {
			return err
		}
		c.say("Token %s, until %s. It is shown this once:", made.ID, day(made.ExpiresAt))
		return c.print(made, func(w io.Writer) { fmt.Fprintln(w, cell(made.Token)) })
	case len(rest) == 2 && rest[0] == "revoke":
		if err := c.call(ctx, http.MethodDelete, "/api/tokens/"+url.PathEscape(rest[1]), nil, nil); err != nil {
			return err
		}
		c.say("Revoked.")
		return nil
	}
	return errors.New("list, create NAME or revoke ID (banksman tokens -h)")
}

// duration reads days, which Go's durations have not, and hours.
func duration(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.Atoi(days)
		if err != nil || n < 1 || n > 3650 {
			return 0, fmt.Errorf("%q is no number of days such as 90d", text)
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Second {
		return 0, fmt.Errorf("%q is no time such as 90d or 12h", text)
	}
	return d, nil
}
