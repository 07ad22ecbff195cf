package cli

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
)

const pendingUsage = `pending [--state pending|closed] [--json]

Lists what waits for a decision, or what is decided.`

// Pending is the command pending.
func Pending(ctx context.Context, args []string, stdio Stdio) int {
	c := newCommand("pending", pendingUsage, stdio)
	asJSON := c.flags.Bool("json", false, "print a JSON array")
	state := c.flags.String("state", wire.StatePending, "`pending` or closed")
	limit := c.flags.Int("limit", 0, "at most `n`")
	rest, err := c.parse(args)
	if err != nil {
		return c.fail(err)
	}
	switch {
	case len(rest) > 0:
		return c.fail(fmt.Errorf("what is %q? (banksman pending -h)", rest[0]))
	case *state != wire.StatePending && *state != wire.StateClosed:
		return c.fail(fmt.Errorf("--state: must be pending or closed, not %q", *state))
	case *limit < 0:
		return c.fail(fmt.Errorf("--limit: must not be negative"))
	}
	client, err := c.connect(ctx)
	if err != nil {
		return c.fail(err)
	}
	defer client.Close()
	list, err := call(ctx, func(ctx context.Context) ([]wire.Interaction, error) {
		return client.List(ctx, wire.ListCall{State: *state, Limit: *limit})
	})
	if err != nil {
		return c.fail(err)
	}
	if *asJSON {
		if list == nil {
			list = []wire.Interaction{}
		}
		err = c.print(list)
	} else {
		err = c.table(list, *state)
	}
	if err != nil {
		return c.fail(err)
	}
	return ExitOK
}

func (c *command) table(list []wire.Interaction, state string) error {
	if len(list) == 0 {
		words := "Nothing waits for a decision."
		if state == wire.StateClosed {
			words = "Nothing is decided yet."
		}
		_, err := fmt.Fprintln(c.Out, words)
		return err
	}
	w := tabwriter.NewWriter(c.Out, 0, 8, 2, ' ', 0)
	last := "UNTIL"
	if state == wire.StateClosed {
		last = "OUTCOME"
	}
	fmt.Fprintf(w, "ID\tASKED\t%s\tRISK\tWHAT\n", last)
	for i := range list {
		ix := &list[i]
		end := "-"
		switch {
		case state == wire.StateClosed:
			end = cell(outcome(ix))
		case ix.ExpiresAt != nil:
			end = "in " + round(ix.ExpiresAt.Sub(ix.ServerTime))
		}
		what := cell(ix.Headline)
		if ix.Title != "" {
			what += ": " + cell(ix.Title)
		}
		fmt.Fprintf(w, "%s\t%s ago\t%s\t%s\t%s\n", cell(ix.ID), round(ix.ServerTime.Sub(ix.CreatedAt)), end, cell(orDash(ix.Risk)), what)
	}
	return w.Flush()
}

func outcome(ix *wire.Interaction) string {
	if ix.Decision == nil || ix.Decision.Principal == (hitl.Principal{}) {
		return string(ix.Outcome)
	}
	return string(ix.Outcome) + " by " + who(ix.Decision.Principal)
}

// round words an age or a rest by the server's clock.
func round(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours())/24)
}
