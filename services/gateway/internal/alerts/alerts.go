// Package alerts asks the notifier of a tenant what became of the alerts about an
// interaction. What was told to whom stands in the notifier's own ledger.
package alerts

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
)

// wait is how long a notifier has for its answer.
const wait = 4 * time.Second

// Desk asks.
type Desk struct {
	Conn *nats.Conn    // not closed here
	Wait time.Duration // 0: the default
}

// Of tells what became of the alerts about the interaction of a key. Silence is no
// error: a notifier need not be there.
func (d *Desk) Of(ctx context.Context, key string) (*wire.Alerts, error) {
	ref, ok := subject.ParseRef(key)
	if !ok {
		return nil, fmt.Errorf("alerts: %q is not the key of an interaction", key)
	}
	raw, err := hitl.Marshal(wire.AlertsCall{Key: key})
	if err != nil {
		return nil, fmt.Errorf("alerts: %w", err)
	}
	m, err := d.ask(ctx, ref.Tenant, raw)
	switch {
	case errors.Is(err, errSilent):
		return &wire.Alerts{Key: key, Notifier: wire.NotifierSilent, Deliveries: []wire.AlertDelivery{}}, nil
	case err != nil:
		return nil, err
	}
	var out wire.Alerts
	if err := json.Unmarshal(m.Data, &out); err != nil {
		return nil, fmt.Errorf("alerts: the notifier's answer cannot be read: %w", err)
	}
	if out.Key != key {
		return nil, errors.New("alerts: the notifier's answer is about something else")
	}
	out.Notifier = wire.NotifierAnswered
	if out.Deliveries == nil {
		out.Deliveries = []wire.AlertDelivery{}
	}
	return &out, nil
}

// Channels are the ways by which the notifier of a tenant tells people; nil where
// none answers.
func (d *Desk) Channels(ctx context.Context, tenant string) ([]wire.AlertChannel, error) {
	raw, err := hitl.Marshal(wire.AlertsCall{Channels: true})
	if err != nil {
		return nil, fmt.Errorf("alerts: %w", err)
	}
	m, err := d.ask(ctx, tenant, raw)
	switch {
	case errors.Is(err, errSilent):
		return nil, nil
	case err != nil:
		return nil, err
	}
	var out wire.AlertChannels
	if err := json.Unmarshal(m.Data, &out); err != nil {
		return nil, fmt.Errorf("alerts: the notifier's answer cannot be read: %w", err)
	}
	return out.Channels, nil
}

// errSilent: no notifier is there, or none answered in time.
var errSilent = errors.New("alerts: no notifier answers")

func (d *Desk) ask(ctx context.Context, tenant string, raw []byte) (*nats.Msg, error) {
	asked, cancel := context.WithTimeout(ctx, cmp.Or(d.Wait, wait))
	defer cancel()
	m, err := d.Conn.RequestWithContext(asked, subject.Alerts(tenant, wire.VerbExplain), raw)
	switch {
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return nil, errSilent
	case err != nil:
		return nil, fmt.Errorf("alerts: %w", err)
	}
	return m, nil
}
