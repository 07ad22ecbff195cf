package door_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/door"
)

// Who was alerted is told to those who may decide, whatever the notifier knows.
func TestAlertsAreToldToWhoMayDecide(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	known := wire.Alerts{Notifier: wire.NotifierAnswered, PlannedAt: &at, Route: "shop", Deliveries: []wire.AlertDelivery{
		{Step: "step1", Address: "ada/mail", ChannelType: "mail", State: "sent", DueAt: at, SentAt: &at, Tries: 1, Said: "status 250"},
		{Step: "step2", Address: "bob/mail", State: "planned", DueAt: at.Add(time.Hour), Held: "quiet hours"},
	}}
	var asked []string
	broken := false
	h := newHouse(t, func(o *door.Options) {
		o.AlertsOf = func(_ context.Context, key string) (*wire.Alerts, error) {
			asked = append(asked, key)
			if broken {
				return nil, errors.New("cut off")
			}
			out := known
			out.Key = key
			return &out, nil
		}
	})
	call := bash("talk", "toolu_1")
	call.ProjectID = "shop"
	key := h.fake.ask(call).summary.Key
	path := "/api/interactions/" + key + "/alerts"
	ada := h.as(h.user("ada", grant(wire.RoleApprover, "shop")))
	status, raw := ada.get(path)
	require.Equal(t, 200, status, string(raw))
	var got wire.Alerts
	require.NoError(t, json.Unmarshal(raw, &got))
	known.Key = key
	require.Equal(t, known, got)
	require.Equal(t, []string{key}, asked)

	for who, want := range map[string]int{
		h.user("vera", grant(wire.RoleViewer, "shop")):    403,
		h.user("rita", grant(wire.RoleResponder, "shop")): 403, // answers questions only
		h.user("bank", grant(wire.RoleApprover, "bank")):  404, // not even that it exists
	} {
		status, raw := h.as(who).get(path)
		require.Equal(t, want, status, string(raw))
	}
	status, _ = ada.get("/api/interactions/default.agents.none/alerts")
	require.Equal(t, 404, status)
	require.Len(t, asked, 1, "the notifier is asked for those who may decide only")
	broken = true
	status, raw = ada.get(path)
	require.Equal(t, 503, status, string(raw))
}
