package notifier

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/notifier/internal/channel"
	"github.com/banksman/banksman/services/notifier/internal/ledger"
)

// Explanation is what became, or will become, of the alerts about an interaction.
type Explanation struct {
	Key string `json:"key"`
	// PlannedAt is when its plan was made; zero: it was over before, or nobody has
	// looked yet.
	PlannedAt time.Time `json:"planned_at,omitzero"`
	// Route is the one it follows: empty without routes, "none" where none matches.
	Route string `json:"route,omitempty"`
	// Outcome and OverAt are set once it is over.
	Outcome hitl.Outcome `json:"outcome,omitempty"`
	OverAt  *time.Time   `json:"over_at,omitempty"`
	// Claim is who looks after it.
	Claim *Claim `json:"claim,omitempty"`
	// Deliveries are in the order of time.
	Deliveries []Delivery `json:"deliveries"`
}

// Delivery is one alert to one address.
type Delivery struct {
	Step    string `json:"step"`
	Address string `json:"address"` // recipient/channel, or a channel alone
	// State is planned, claimed, sent, retracted, failed, dead, or skipped.
	State string `json:"state"`
	// DueAt is when it is, or was, to be sent next.
	DueAt  time.Time  `json:"due_at"`
	SentAt *time.Time `json:"sent_at,omitempty"`
	Tries  int        `json:"tries"`
	// Said is what the provider said, Problem what went wrong last or why nothing
	// is sent, Held why it was put off.
	Said    string `json:"said,omitempty"`
	Problem string `json:"problem,omitempty"`
	Held    string `json:"held,omitempty"`
	// Digest: it went out in one message with others.
	Digest bool `json:"digest,omitempty"`
	// Uncertain: it may have arrived without our knowing.
	Uncertain bool `json:"uncertain,omitempty"`
}

// skipped is the state of what was never meant to be sent.
const skipped = "skipped"

// Explain tells who was told of an interaction, when and by what, what the
// provider said, and what comes next. ErrUnknown if the ledger knows nothing.
func (l *Ledger) Explain(ctx context.Context, ref subject.Ref) (*Explanation, error) {
	x := &Explanation{Key: ref.String()}
	p, err := l.ledger.PlanOf(ctx, ref)
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return nil, err
	}
	over, err := l.ledger.Over(ctx, ref)
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return nil, err
	}
	stored, err := l.ledger.Deliveries(ctx, ref)
	if err != nil {
		return nil, err
	}
	if p == nil && over == nil && len(stored) == 0 {
		return nil, ErrUnknown
	}
	if over != nil {
		x.Outcome, x.OverAt = over.Outcome, &over.At
	}
	if x.Claim, err = l.ledger.ClaimOf(ctx, ref); err != nil {
		return nil, err
	}
	for _, r := range stored {
		x.Deliveries = append(x.Deliveries, delivery(r))
	}
	if p != nil {
		x.PlannedAt, x.Route = p.At, p.Route
		for _, d := range p.Deliveries {
			if !slices.ContainsFunc(x.Deliveries, func(have Delivery) bool { return have.Step == d.Step && have.Address == d.Address }) {
				why := d.Skip
				if why == "" {
					why = "its time had come already, or the endpoint wants no more messages"
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
}

// Test sends a message through each address of the configuration, at once and
// whatever the hour, or only through those of one recipient or one address. It
// writes nothing down. baseURL is that of Options.
func Test(ctx context.Context, log *slog.Logger, c Config, baseAddress, only string) ([]Tested, error) {
	base, err := baseURL(baseAddress)
	if err != nil {
		return nil, err
	}
	policy, err := c.policy()
	if err != nil {
		return nil, err
	}
	lanes, built, err := c.lanes(policy, log, eventSource(base, "test"))
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
		t := Tested{Address: lane.Name}
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
