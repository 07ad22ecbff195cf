package notifier

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/notifier/internal/channel"
	"github.com/banksman/banksman/services/notifier/internal/channel/push"
	"github.com/banksman/banksman/services/notifier/internal/ledger"
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
	Said    string `json:"said,omitempty"`
	Problem string `json:"problem,omitempty"` // empty: the provider has taken it

	target string
}

// Test sends a message through each address of the configuration, at once and
// whatever the hour, or only through those of one recipient or one address. It
// writes nothing down. baseURL is that of Options; cred is needed for pushes only.
func Test(ctx context.Context, log *slog.Logger, c Config, cred *bus.Credentials, baseAddress, only string) ([]Tested, error) {
	base, err := baseURL(baseAddress)
	if err != nil {
		return nil, err
	}
	policy, err := c.policy()
	if err != nil {
		return nil, err
	}
	on := ground{logger: log, source: eventSource(base, "test"), now: time.Now}
	if c.calls() {
		if cred == nil {
			return nil, errors.New("pushes need the notifier's credentials, by which the gateway is asked for the browsers")
		}
		desk, err := bus.Connect(ctx, cred, bus.Options{Name: "banksman notify test", Logger: log})
		if err != nil {
			return nil, err
		}
		defer desk.Close()
		on.desk, on.pushKey = func() push.Gateway { return desk }, func() string { return cred.PushKey }
	}
	lanes, built, err := c.lanes(policy, on)
	defer closeAll(built)
	if err != nil {
		return nil, err
	}
	var out []Tested
	for _, lane := range lanes {
		name := ""
		if lane.Recipient != nil {
			name = lane.Recipient.Name
		}
		if only != "" && only != lane.Name && only != name {
			continue
		}
		t := Tested{Address: lane.Name, target: lane.Target}
		now := time.Now().UTC()
		a := channel.Alert{
			ID: "msg_test_" + now.Format("20060102T150405.000000000"), Type: channel.Test, Key: "test", Time: now, To: lane.To,
			Data: channel.Data{
				Title: "A test message", Headline: "Banksman reaches you here", Agent: "banksman", Session: "test", Kind: hitl.KindApproval, Recipient: name,
			},
		}
		if base != "" {
			a.Data.Link = base + "/"
		}
		limit, cancel := context.WithTimeout(ctx, testLimit)
		receipt, err := lane.Channel.Send(limit, a)
		cancel()
		if err != nil {
			t.Problem = err.Error()
		}
		t.Said = receipt.Said
		out = append(out, t)
	}
	return out, nil
}

// testLimit bounds one test message.
const testLimit = 15 * time.Second
