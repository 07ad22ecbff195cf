package bus

import (
	"context"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
)

// withdrawLater withdraws in the background, for a bounded time. The caller is
// a counted call.
func (a *ask) withdrawLater(w hitl.Withdrawal) {
	c, ref, stored, m, at := a.c, a.ref, a.stored, a.message(), a.at
	c.link.Later(lastWords, func(ctx context.Context) {
		ctx = at.In(ctx)
		if !stored {
			// It may still wait its turn at a gateway that stores it later than this
			// withdrawal, which then has to find it.
			brief, cancel := context.WithTimeout(ctx, lastWords/4)
			err := c.link.Leave(brief, m)
			cancel()
			if err != nil {
				c.log.DebugContext(ctx, "the request was not left before its withdrawal", "interaction", ref.ID, "error", err)
			}
		}
		if err := c.withdraw(ctx, ref, w); err != nil {
			c.log.WarnContext(ctx, "could not withdraw", "interaction", ref.ID, "error", err)
		}
	})
}

// Withdraw takes a request back. An interaction that has its decision keeps it.
func (c *Client) Withdraw(ctx context.Context, ref subject.Ref, w hitl.Withdrawal) error {
	if !c.link.Begin() {
		return ErrClosed
	}
	defer c.link.End()
	ctx, cancel := c.link.Bound(ctx)
	defer cancel(nil)
	w.V = 1
	return c.withdraw(ctx, ref, w)
}

func (c *Client) withdraw(ctx context.Context, ref subject.Ref, w hitl.Withdrawal) error {
	data, err := hitl.Marshal(w)
	if err != nil {
		return err
	}
	return c.link.SendOnce(ctx, subject.Withdraw(ref), data)
}

// Ack tells what became of a decision here: stage is one of hitl.Delivered,
// hitl.Applied and hitl.Refused. Of repeated acks of a stage the first counts.
func (c *Client) Ack(ctx context.Context, ref subject.Ref, stage, decisionID, detail string) error {
	if !c.link.Begin() {
		return ErrClosed
	}
	defer c.link.End()
	ctx, cancel := c.link.Bound(ctx)
	defer cancel(nil)
	data, err := hitl.Marshal(hitl.Ack{V: 1, Stage: stage, DecisionID: decisionID, At: time.Now().UTC(), Detail: detail})
	if err != nil {
		return err
	}
	return c.link.StoreOnce(ctx, subject.Ack(ref, stage), data)
}
