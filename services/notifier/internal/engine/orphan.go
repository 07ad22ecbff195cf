package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/notifier/internal/channel"
	"github.com/banksman/banksman/services/notifier/internal/ledger"
	"github.com/banksman/banksman/services/notifier/internal/message"
	"github.com/banksman/banksman/services/notifier/internal/plan"
)

// nobodys is why such a delivery is given up.
const nobodys = "the address is not in the configuration any more"

// runOrphans gives overdue deliveries up and tells whom the configuration names
// instead, until ctx ends.
func (e *Engine) runOrphans(ctx context.Context) error {
	for {
		due, wait := e.orphans.Due(e.Clock.Now(), maxIdle)
		for _, r := range due {
			if err := e.adopt(ctx, r); err != nil {
				e.Logger.Warn("a delivery to an address that is not configured cannot be given up yet", "channel", r.Key.Channel, "error", err)
				wait = again
			}
		}
		fires, stop := e.Clock.Timer(wait)
		select {
		case <-ctx.Done():
			stop()
			return nil
		case <-e.orphans.Wake:
		case <-fires:
		}
		stop()
	}
}

// adopt plans what today's configuration says of the request, then gives the
// delivery up: in this order, so that a replica that is killed in between loses
// nothing.
func (e *Engine) adopt(ctx context.Context, r *ledger.Record) error {
	if !r.Key.Step.Ends() {
		if err := e.replan(ctx, r); err != nil {
			return err
		}
	}
	next := r.Entry
	next.State, next.Until, next.Problem, next.Alert = ledger.Dead, nil, nobodys, nil
	next.Uncertain = next.Uncertain || r.State == ledger.Claimed
	call, cancel := context.WithTimeout(ctx, recordLimit)
	defer cancel()
	stored, won, err := e.Ledger.Update(call, r, next)
	if err != nil {
		return err
	}
	if won {
		e.Logger.Warn("a delivery is given up: "+nobodys, "channel", r.Key.Channel, "interaction", r.Key.Ref.String(), "step", r.Key.Step)
	}
	if stored == nil {
		stored = &ledger.Record{Key: r.Key, Revision: r.Revision, Entry: next} // it has gone meanwhile
	}
	e.observe(stored, false)
	if won && !stored.Told() && !r.Key.Step.Ends() {
		e.untold(ctx, stored)
	}
	return nil
}

// replan adds to the plan of an open request whom the configuration names now and
// the plan does not.
func (e *Engine) replan(ctx context.Context, r *ledger.Record) error {
	ctx, cancel := context.WithTimeout(ctx, recordLimit)
	defer cancel()
	ref, now, a := r.Key.Ref, e.Clock.Now(), *r.Alert
	if at := a.Data.ExpiresAt; at != nil && !at.After(now) {
		return nil
	}
	if over, err := e.Ledger.IsOver(ctx, ref); over || err != nil {
		return err
	}
	p, err := e.Ledger.PlanOf(ctx, ref)
	if errors.Is(err, ledger.ErrNotFound) { // of a build that made none
		p, err = &ledger.Plan{At: a.Time, Deliveries: []plan.Delivery{{Step: string(r.Key.Step), Address: r.Key.Channel, Due: r.DueAt}}}, nil
	}
	if err != nil {
		return err
	}
	d := &a.Data
	route, deliveries := e.Policy.Deliveries(&plan.Interaction{
		Tenant: ref.Tenant, Project: d.Project, Session: d.Session, Agent: d.Agent, Kind: d.Kind, Tool: d.Tool, Risk: d.Risk,
		Created: p.At, Attention: p.Attention, Expires: d.ExpiresAt,
	})
	var more []plan.Delivery
	for _, x := range deliveries {
		known := slices.ContainsFunc(p.Deliveries, func(y plan.Delivery) bool { return y.Address == x.Address })
		// People are waiting by now, so no service is asked first any more.
		if !known && x.Skip == "" && x.Wait == 0 && !(plan.IsReminder(x.Step) && x.Due.Before(now)) {
			more = append(more, x)
		}
	}
	if len(more) == 0 {
		return e.createAll(ctx, ref, p, &a)
	}
	p.Route, p.Deliveries = route, append(p.Deliveries, more...)
	won, err := e.Ledger.UpdatePlan(ctx, ref, p)
	if err != nil || !won {
		return errors.Join(err, errPlanChanged)
	}
	return e.createAll(ctx, ref, p, &a)
}

// errPlanChanged: another replica does the same.
var errPlanChanged = errors.New("another replica has changed the plan")

// createAll creates the deliveries of p that the configuration has an address for
// and that do not exist.
func (e *Engine) createAll(ctx context.Context, ref subject.Ref, p *ledger.Plan, a *channel.Alert) error {
	now := e.Clock.Now()
	for _, d := range p.Deliveries {
		if e.lane(d.Address) == nil || d.Skip != "" || d.Wait > 0 || plan.IsReminder(d.Step) && d.Due.Before(now) {
			continue
		}
		x := *a
		x.Type, x.Until = channel.Opened, time.Time{}
		if d.Again {
			x.Type = channel.Reminder
		}
		x.Data.Recipient, _ = message.Recipient(d.Address)
		if err := e.plan(ctx, ledger.Key{Ref: ref, Step: ledger.Step(d.Step), Channel: d.Address}, d.Due, x, nil); err != nil {
			return err
		}
	}
	return nil
}

// planOfOld makes up a plan from the deliveries of a request that opened under a
// build which wrote none; nil: there are none.
func (e *Engine) planOfOld(ctx context.Context, ref subject.Ref) (*ledger.Plan, error) {
	stored, err := e.Ledger.Deliveries(ctx, ref)
	if err != nil || len(stored) == 0 {
		return nil, err
	}
	p := &ledger.Plan{}
	for _, r := range stored {
		if !r.Key.Step.Ends() {
			p.Deliveries = append(p.Deliveries, plan.Delivery{Step: string(r.Key.Step), Address: r.Key.Channel, Due: r.DueAt})
		}
	}
	return p, nil
}
