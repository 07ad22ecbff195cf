// Package press takes what people decide by the buttons of a chat to the gateway. Who
// pressed is the account that the platform vouches for, never the chat; it decides as the
// person that the list of the configuration makes of it. Who is not on the list decides
// nothing.
package press

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
)

// Gateway takes decisions; *bus.Client is one.
type Gateway interface {
	Call(ctx context.Context, verb string, in, out any) error
}

// Press is a button that somebody pressed.
type Press struct {
	Account string // the presser's own id at the platform
	// Token and Decision are the button's.
	Token, Decision string
}

// Desk takes presses. It is safe for concurrent use.
type Desk struct {
	Gateway func() Gateway
	// People are the users of the gateway by their accounts.
	People map[string]string
	// Hold reports whether this replica is the one that asks the platform for presses,
	// where only one may; it is asked again at least every HoldFor.
	Hold   func(ctx context.Context) (bool, error)
	Logger *slog.Logger
}

// HoldFor is how long a replica holds what it was given by Hold.
const HoldFor = 30 * time.Second

// callLimit bounds the gateway's answer.
const callLimit = 8 * time.Second

// Take decides, and returns what to tell whoever pressed.
func (d *Desk) Take(ctx context.Context, p Press) string {
	person := d.People[p.Account]
	if person == "" {
		d.Logger.Warn("a press of somebody who is not on the list", "account", p.Account)
		return "Nothing was decided: you are not on the list of those who decide here."
	}
	if p.Decision != hitl.VerbAllow && p.Decision != hitl.VerbDeny {
		return "Nothing was decided: this is no button of ours."
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	var rec wire.Receipt
	call := wire.DecideCall{Token: p.Token, Person: person, AsTold: true, Response: hitl.Response{Decision: p.Decision}}
	if err := d.Gateway().Call(ctx, wire.VerbDecide, call, &rec); err != nil {
		d.Logger.Warn("a press did not reach the gateway", "account", p.Account, "error", err)
		return "It is not known whether this was stored. Pressing again is safe."
	}
	d.Logger.Info("a button was pressed", "account", p.Account, "person", person, "decision", p.Decision, "status", rec.Status)
	return words(&rec, p.Decision)
}

// words are a receipt for people.
func words(rec *wire.Receipt, decision string) string {
	did := map[string]string{hitl.VerbAllow: "approved", hitl.VerbDeny: "denied"}[decision]
	switch rec.Status {
	case hitl.Accepted:
		return "You have " + did + " it."
	case hitl.Duplicate:
		return "You had " + did + " it already."
	case hitl.AlreadyDecided:
		return "Too late: " + winner(rec.Decision)
	case hitl.TooLate:
		return "Too late: its time was over."
	case hitl.DigestMismatch:
		return "Nothing was decided: this is not the request any more that was told here."
	case hitl.Unavailable:
		return "It is not known whether this was stored. Pressing again is safe."
	}
	return "Nothing was decided: " + cmp.Or(rec.Error, "it was refused") + "."
}

// winner says who was first, how and when.
func winner(d *hitl.Decision) string {
	if d == nil {
		return "it was decided before."
	}
	how, ok := map[hitl.Outcome]string{hitl.Allowed: "approved", hitl.Denied: "denied", hitl.Answered: "answered", hitl.Expired: "expired", hitl.Cancelled: "withdrawn"}[d.Outcome]
	if !ok {
		how = "settled"
	}
	who := ""
	if d.Principal.Kind != "system" {
		name, _ := hitl.Visible(cmp.Or(d.Principal.Name, d.Principal.ID))
		who = " by " + name
	}
	return how + who + " at " + d.DecidedAt.UTC().Format("15:04 UTC") + "."
}
