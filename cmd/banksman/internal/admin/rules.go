package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/banksman/banksman/cmd/banksman/internal/cli"
	"github.com/banksman/banksman/pkg/wire"
)

const rulesUsage = `usage: banksman rules [list]
       banksman rules show ID      what it matches, who changed it, and what it decided last
       banksman rules revoke ID

What is decided before anybody is asked. Rules are made in the browser, at a request,
and changed there by whoever made them: an agent may sit at the terminal.
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
				fmt.Fprintf(w, "%s\t%s %s\t%s\t%s\t%s\t%s\n", cell(r.ID), cell(r.Effect), cell(r.Title), cell(r.Maker.Name), cell(r.State), until(&r), used(&r))
			}
		})
	case len(rest) == 2 && rest[0] == "show":
		return c.rule(ctx, rest[1])
	case len(rest) == 2 && rest[0] == "revoke":
		if err := c.call(ctx, http.MethodDelete, "/api/rules/"+url.PathEscape(rest[1]), nil, nil); err != nil {
			return err
		}
		c.say("Revoked.")
		return nil
	}
	return errors.New("list, show ID or revoke ID (banksman rules -h)")
}

// shown is a rule with what it decided last, as JSON prints it.
type shown struct {
	wire.Rule
	Decisions []wire.Interaction `json:"decisions"`
	// Next says that there may be older ones.
	Next string `json:"next,omitempty"`
}

// rule tells all of one rule.
func (c *command) rule(ctx context.Context, id string) error {
	var list wire.RuleList
	if err := c.call(ctx, http.MethodGet, "/api/rules", nil, &list); err != nil {
		return err
	}
	for _, r := range list.Rules {
		if r.ID != id {
			continue
		}
		var page wire.ListReply
		query := url.Values{"state": {wire.StateDecided}, "rule": {id}, "limit": {"20"}}
		if err := c.call(ctx, http.MethodGet, "/api/interactions?"+query.Encode(), nil, &page); err != nil {
			return err
		}
		return c.print(shown{r, page.Interactions, page.Next}, func(w io.Writer) {
			fmt.Fprintf(w, "%s\n", cell(r.Text))
			fmt.Fprintf(w, "made by\t%s (%s), %s\n", cell(r.Maker.Name), cell(r.Maker.ID), day(r.CreatedAt))
			fmt.Fprintf(w, "state\t%s, until %s\n", cell(r.State), until(&r))
			fmt.Fprintf(w, "uses\t%s\n", used(&r))
			if r.RevokedBy != nil {
				fmt.Fprintf(w, "revoked by\t%s\n", cell(r.RevokedBy.Name))
			}
			for _, ch := range r.Changes {
				fmt.Fprintf(w, "version %d\t%s: %s, by %s\n", ch.Version, day(ch.At), cell(ch.What), cell(ch.By.Name))
				if ch.Text != "" {
					fmt.Fprintf(w, "  before\t%s\n", cell(ch.Text))
				}
			}
			for _, ix := range page.Interactions {
				at, outcome := ix.CreatedAt, ix.Outcome
				if ix.Decision != nil {
					at = ix.Decision.DecidedAt
				}
				fmt.Fprintf(w, "%s\t%s %s\n", at.Local().Format("2006-01-02 15:04"), cell(string(outcome)), cell(ix.Headline))
			}
			switch {
			case page.Next != "":
				fmt.Fprintln(w, "There may be older ones in the record.")
			case len(page.Interactions) == 0:
				fmt.Fprintln(w, "The record has no decision of it that you may see.")
			}
		})
	}
	return errors.New("no such rule")
}

// until is the end of a rule, and how near it is.
func until(r *wire.Rule) string {
	s := day(r.ExpiresAt)
	if left := time.Until(r.ExpiresAt); r.State == wire.RuleActive && left < time.Hour {
		s += fmt.Sprintf(" (in %s)", left.Round(time.Minute))
	}
	return s
}

// used is how often a rule was used, and may be.
func used(r *wire.Rule) string {
	s := fmt.Sprint(r.Uses)
	if r.Uses == 0 {
		s = "never used"
	}
	if r.MaxUses > 0 {
		s += fmt.Sprintf(", %d of %d left", max(0, r.MaxUses-r.Uses), r.MaxUses)
	}
	return s
}
