package notifier_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/notifier/internal/ledger"
	"github.com/banksman/banksman/services/notifier/internal/plan"
)

// explained is what a gateway hears of a request; nil: nothing, in time.
func (b *bench) explained(t *testing.T, nc *nats.Conn, key string, wait time.Duration) *wire.Alerts {
	t.Helper()
	m, err := nc.Request(subject.Alerts(bus.DefaultTenant, wire.VerbExplain), []byte(`{"key":"`+key+`"}`), wait)
	if err != nil {
		return nil
	}
	var out wire.Alerts
	require.NoError(t, json.Unmarshal(m.Data, &out))
	require.NotContains(t, string(m.Data), toolInput)
	require.NotContains(t, string(m.Data), "hidden")
	return &out
}

func of(x *wire.Alerts, step, address string) wire.AlertDelivery {
	for _, d := range x.Deliveries {
		if d.Step == step && d.Address == address {
			return d
		}
	}
	return wire.AlertDelivery{}
}

// A gateway that asks hears who was told and by what, and of everybody who was not
// the reason: quiet hours, the pace, a look, a claim, or that it goes out later.
func TestAGatewayHearsWhoWasToldAndWhyNot(t *testing.T) {
	t.Parallel()
	b, clk := newBench(t), newClock(time.Date(2026, 3, 2, 23, 0, 0, 0, time.UTC))
	hook := newReceiver(t, nil)
	o := hook.people(t, `recipients:
  - {name: ada, channels: [{channel: hook}], messages: 1, per: 1h, group: 0s}
  - {name: bob, channels: [{channel: hook}], quiet: [{from: "22:00", to: "07:00"}]}
  - {name: eve, channels: [{channel: hook}]}
routes:
  - name: all
    remind: []
    steps:
      - {to: [ada]}
      - {after: 1m, to: [bob]}
      - {after: 1m, to: [eve]}
      - {after: 3h, to: [eve]}
`)
	o.Clock = clk
	b.notify(t, o)
	gw := b.connect(t, bus.RoleGateway)
	first, second := newRef(1), newRef(2)
	b.open(t, first, summary(first, clk.Now()))
	hook.next(t)
	b.awaitAt(t, first, "step1", "ada/hook", ledger.Sent)
	_, err := b.ledger.Claim(t.Context(), first, plan.Claim{By: "ada", Until: clk.Now().Add(2 * time.Hour)}, clk.Now())
	require.NoError(t, err)
	b.open(t, second, summary(second, clk.Now()))
	clk.move(time.Minute)
	require.Eventually(t, func() bool {
		x := b.explained(t, gw, first.String(), patience)
		return of(x, "step2", "bob/hook").Held != "" && of(x, "step3", "eve/hook").Held != ""
	}, patience, tick)
	x := b.explained(t, gw, first.String(), patience)
	require.Equal(t, wire.NotifierAnswered, x.Notifier)
	require.Equal(t, "all", x.Route)
	require.Equal(t, "ada", x.Claim.By)
	told := of(x, "step1", "ada/hook")
	require.Equal(t, []string{"sent", "status 204", "webhook"}, []string{told.State, told.Said, told.ChannelType})
	require.NotNil(t, told.SentAt)
	require.Equal(t, "quiet hours", of(x, "step2", "bob/hook").Held, "which last longer than the claim")
	require.Equal(t, "ada looks after it", of(x, "step3", "eve/hook").Held)
	next := of(x, "step4", "eve/hook")
	require.Equal(t, []string{"planned", ""}, []string{next.State, next.Held}, "its time has not come")

	require.Eventually(t, func() bool {
		return of(b.explained(t, gw, second.String(), patience), "step1", "ada/hook").Held != ""
	}, patience, tick)
	require.Equal(t, "it is grouped with what else comes: the next message to ada may leave at 2026-03-03T00:00:00Z",
		of(b.explained(t, gw, second.String(), patience), "step1", "ada/hook").Held)

	m, err := gw.Request(subject.Alerts(bus.DefaultTenant, wire.VerbExplain), []byte(`{"channels":true}`), patience)
	require.NoError(t, err)
	var ways wire.AlertChannels
	require.NoError(t, json.Unmarshal(m.Data, &ways))
	require.Len(t, ways.Channels, 1, string(m.Data))
	way := ways.Channels[0]
	require.NotNil(t, way.LastSuccess)
	require.WithinDuration(t, *told.SentAt, *way.LastSuccess, time.Minute)
	way.LastSuccess = nil
	require.Equal(t, wire.AlertChannel{Type: "webhook", Addresses: 3}, way)
	require.NotContains(t, string(m.Data), "ada", "how many, and not who")

	unknown := b.explained(t, gw, newRef(3).String(), patience)
	require.Equal(t, wire.NotifierAnswered, unknown.Notifier)
	require.Empty(t, unknown.Deliveries)
	require.Nil(t, unknown.PlannedAt)
	require.Nil(t, b.explained(t, gw, "default.agents", 300*time.Millisecond), "what is no key is no question")
	require.Nil(t, b.explained(t, gw, "other.agents.0b0a", 300*time.Millisecond), "and another tenant is another notifier's")
}
