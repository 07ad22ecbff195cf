package notifier

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/notifier/internal/channel"
	"github.com/banksman/banksman/services/notifier/internal/ledger"
	"github.com/banksman/banksman/services/notifier/internal/trial"
)

// Explanation is what became, or will become, of the alerts about an interaction.
type Explanation = wire.Alerts

// Delivery is one alert to one address.
type Delivery = wire.AlertDelivery

// skipped is the state of what was never meant to be sent.
const skipped = "skipped"

// Explain tells who was told of an interaction, when and by what, what the
// provider said, and what comes next. ErrUnknown if the ledger knows nothing.
func (l *Ledger) Explain(ctx context.Context, ref subject.Ref) (*Explanation, error) {
	return explain(ctx, l.ledger, ref)
}

func explain(ctx context.Context, l *ledger.Ledger, ref subject.Ref) (*Explanation, error) {
	x := &Explanation{Key: ref.String(), Deliveries: []Delivery{}}
	p, err := l.PlanOf(ctx, ref)
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return nil, err
	}
	over, err := l.Over(ctx, ref)
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return nil, err
	}
	stored, err := l.Deliveries(ctx, ref)
	if err != nil {
		return nil, err
	}
	if p == nil && over == nil && len(stored) == 0 {
		return nil, ErrUnknown
	}
	if over != nil {
		x.Outcome, x.OverAt = over.Outcome, &over.At
	}
	c, err := l.ClaimOf(ctx, ref)
	if err != nil {
		return nil, err
	}
	if c != nil {
		x.Claim = &wire.AlertClaim{By: c.By, Until: c.Until}
	}
	for _, r := range stored {
		x.Deliveries = append(x.Deliveries, delivery(r))
	}
	if p != nil {
		x.PlannedAt, x.Route = &p.At, p.Route
		for _, d := range p.Deliveries {
			if !slices.ContainsFunc(x.Deliveries, func(have Delivery) bool { return have.Step == d.Step && have.Address == d.Address }) {
				why := d.Skip
				if why == "" {
					why = "its time had come already, or the endpoint wanted no more messages"
				}
				x.Deliveries = append(x.Deliveries, Delivery{Step: d.Step, Address: d.Address, State: skipped, DueAt: d.Due, Problem: why})
			}
		}
	}
	slices.SortStableFunc(x.Deliveries, func(a, b Delivery) int { return a.DueAt.Compare(b.DueAt) })
	return x, nil
}

func delivery(r *ledger.Record) Delivery {
	d := Delivery{
		Step: string(r.Key.Step), Address: r.Key.Channel, State: string(r.State), DueAt: r.DueAt, SentAt: r.SentAt, Tries: r.Tries,
		Problem: r.Problem, Held: r.Held, Digest: r.Many, Uncertain: r.Uncertain,
	}
	if r.Receipt != nil {
		d.Said = r.Receipt.Said
	}
	return d
}

// Tested is what came of one test message.
type Tested struct {
	Address string `json:"address"`
	// Decider: the address is a service that is asked first.
	Decider bool   `json:"decider,omitempty"`
	Said    string `json:"said,omitempty"`
	Problem string `json:"problem,omitempty"` // empty: the provider has taken it

	target string
}

// Test sends a message through each address of the configuration and to each of its
// deciders, at once and whatever the hour, or only through those of one recipient or one
// address. It writes nothing down, and no answer decides anything. baseURL is that of
// Options; cred is needed for pushes and for deciders on the bus, and may be nil.
func Test(ctx context.Context, log *slog.Logger, c Config, cred *bus.Credentials, baseAddress, only string) ([]Tested, error) {
	base, err := baseURL(baseAddress)
	if err != nil {
		return nil, err
	}
	policy, err := c.policy()
	if err != nil {
		return nil, err
	}
	line := &trial.Line{Credentials: cred, Logger: log}
	defer line.Close()
	source := eventSource(base, "test")
	lanes, built, err := c.lanes(policy, ground{logger: log, source: source, now: time.Now, desk: line.Gateway, pushKey: line.PushKey})
	defer func() { closeAll(built) }()
	if err != nil {
		return nil, err
	}
	asking, more, err := c.asking(asks{source: source, tenant: line.Tenant(), bus: line.Request, clock: time.Now})
	built = append(built, more...)
	if err != nil {
		return nil, err
	}
	var out []Tested
	for _, lane := range slices.Concat(lanes, asking) {
		if only != "" && only != lane.Name && (lane.Recipient == nil || only != lane.Recipient.Name) {
			continue
		}
		t := Tested{Address: lane.Name, target: lane.Target, Decider: lane.Type == typeDecider}
		var receipt channel.Receipt
		var err error
		if c.onBus(lane) {
			err = line.Open(ctx)
		}
		if err == nil {
			receipt, err = trial.Send(ctx, lane, base)
		}
		if err != nil {
			t.Problem = err.Error()
		}
		t.Said = receipt.Said
		out = append(out, t)
	}
	return out, nil
}
