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

const rulesUsage = `usage: banksman rules [list]
       banksman rules revoke ID

What is decided before anybody is asked. Rules are made in the browser, at a request.
The terminal has to be signed in by banksman login --cli.
`

// Rules is the command rules.
func Rules(ctx context.Context, args []string, stdio cli.Stdio) int {
	c := newCommand("rules", rulesUsage, stdio)
	rest, err := c.parse(args)
	if err == nil {
		err = c.rules(ctx, rest)
	}
	if err != nil {
		return c.fail(err)
	}
	return cli.ExitOK
}

func (c *command) rules(ctx context.Context, rest []string) error {
	switch {
	case len(rest) == 0 || len(rest) == 1 && rest[0] == "list":
		var list wire.RuleList
		if err := c.call(ctx, http.MethodGet, "/api/rules", nil, &list); err != nil {
			return err
		}
		return c.print(list.Rules, func(w io.Writer) {
			fmt.Fprintln(w, "ID\tRULE\tMADE BY\tSTATE\tUNTIL\tUSES")
			for _, r := range list.Rules {
				uses := fmt.Sprint(r.Uses)
				if r.MaxUses > 0 {
					uses += fmt.Sprintf(" of %d", r.MaxUses)
				}
				fmt.Fprintf(w, "%s\t%s %s\t%s\t%s\t%s\t%s\n", cell(r.ID), cell(r.Effect), cell(r.Title), cell(r.Maker.Name), cell(r.State), day(r.ExpiresAt), uses)
			}
		})
	case len(rest) == 2 && rest[0] == "revoke":
		if err := c.call(ctx, http.MethodDelete, "/api/rules/"+url.PathEscape(rest[1]), nil, nil); err != nil {
			return err
		}
		c.say("Revoked.")
		return nil
	}
	return errors.New("list or revoke ID (banksman rules -h)")
}
