package gate

import (
	"errors"
	"fmt"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
)

type keepError struct{ err error }

func (e *keepError) Error() string { return "could not be kept: " + e.err.Error() }
func (e *keepError) Unwrap() error { return e.err }

// explain tells the agent why there is no decision. It must never read like a
// person's "no".
func explain(r *hitl.Request, err error) string {
	var (
		keep    *keepError
		large   *bus.TooLargeError
		wait    *bus.WaitError
		invalid *hitl.InvalidError
	)
	why := "no decision could be had (" + err.Error() + ")"
	switch {
	case errors.As(err, &keep):
		why = "its request could not be stored on the agent's machine, and nobody was asked"
	case errors.As(err, &large):
		why = fmt.Sprintf("its request is too large to be shown for approval: %d bytes, the limit is %d; nobody was asked", large.Size, large.Limit)
	case errors.As(err, &invalid):
		why = "its request cannot be shown to a person (" + invalid.Error() + "); nobody was asked"
	case errors.Is(err, bus.ErrKeyConflict):
		why = "the same call was asked before with other content; nobody was asked again"
	case errors.Is(err, bus.ErrBadDecision):
		why = "the stored decision is not about this request"
	case errors.Is(err, bus.ErrOldDecision):
		why = "the stored decision is an old one that was put back, and does not count"
	case errors.Is(err, bus.ErrTurnedAway):
		why = "too many requests are being sent (" + err.Error() + "), and nobody was asked; try it again later"
	case errors.Is(err, bus.ErrForbidden):
		why = "this agent is not allowed to ask; nobody was asked"
	case errors.Is(err, bus.ErrNoDecision) && errors.As(err, &wait) && wait.Stored:
		kind, ok := hitl.LookupKind(r.Kind)
		if ok {
			return kind.ExpiredText(r.Expiry()) + "; no decision reached the agent"
		}
		why = "nobody decided in time"
	case errors.Is(err, bus.ErrNoDecision):
		why = "the approval service could not be reached within " + hitl.Budget(r.Expiry()) + "; nobody denied it"
	}
	return "The tool was not run: " + why
}
