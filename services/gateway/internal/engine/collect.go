package engine

import (
	"context"
	"errors"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/journal/relay"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/gateway/internal/card"
	"github.com/banksman/banksman/services/gateway/internal/quota"
	"github.com/banksman/banksman/services/gateway/internal/record"
)

// forwarder is what collect needs of a relay.
type forwarder interface {
	Forward(ctx context.Context, at string, header map[string][]string, data []byte, left time.Time) error
}

// collect passes on what owners have left while no gateway was there. What is over by
// now is recorded as that, and nobody is shown it.
func (e *Engine) collect(owners forwarder) func(context.Context, journal.Delivery) {
	return func(ctx context.Context, d journal.Delivery) {
		over, err := e.overMeanwhile(ctx, d.Message)
		if !over && err == nil {
			err = owners.Forward(ctx, d.Subject, d.Header, d.Data, d.Time)
		}
		if errors.Is(err, relay.ErrNotMeant) {
			p, _ := subject.Parse(d.Subject) // nobody's, if it is none
			if e.ledger.Note(quota.Owner{Tenant: p.Tenant, Name: p.Owner}) {
				e.log.WarnContext(ctx, "removed something that was left and cannot be passed on", "owner", p.Owner, "seq", d.Seq, "error", err)
			}
			over, err = true, nil
		}
		if over && err == nil {
			err = record.DropWithdrawal(ctx, e.opts.Journal, d.Subject)
		}
		e.finish(ctx, d, err)
	}
}

// overMeanwhile ends a request whose time has run out or whose asker took it back
// while it lay there.
func (e *Engine) overMeanwhile(ctx context.Context, m journal.Message) (over bool, err error) {
	p, err := subject.Parse(m.Subject)
	if err != nil || p.Tail != "req" {
		return false, nil
	}
	ref := p.Ref()
	var c hitl.Content
	var at time.Time
	switch w, err := e.opts.Journal.Left(ctx, subject.Withdraw(ref)); {
	case err == nil:
		c, at = record.Withdrawn(*w), w.Time
	case !errors.Is(err, journal.ErrNotFound):
		return false, err
	default:
		r := &hitl.Request{}
		if r, err = hitl.ParseRequest(m.Data); err != nil {
			return false, nil // intake says what is wrong with it
		}
		c, at = hitl.Content{Outcome: hitl.Expired}, card.Deadline(r, m.Time)
		if over, err := e.clock.Over(ctx, e.opts.Journal, at); !over || err != nil {
			return false, err
		}
	}
	return e.endLeft(ctx, ref, m, at, c, "withdrawal")
}

// endLeft decides a request that lies where it was left. False: it cannot be, and goes
// the usual way, on which it is refused.
func (e *Engine) endLeft(ctx context.Context, ref subject.Ref, m journal.Message, at time.Time, c hitl.Content, channel string) (done bool, err error) {
	if w, err := e.winner(ctx, ref); w != nil || err != nil {
		return w != nil, err
	}
	m.Subject, m.Seq = subject.Request(ref), 0
	r, a, bad := record.Examine(&e.policy, ref, m)
	if bad != nil || !e.ledger.Charge(quota.Owner{Tenant: ref.Tenant, Name: ref.Owner}, len(m.Data)) {
		return false, nil
	}
	t := &record.Target{Admission: a, Raw: m.Data, Digest: hitl.Digest(m.Data), Request: r}
	_, err = e.settleAs(ctx, ref, t, at, c, asker(ref), channel)
	return err == nil, err
}
