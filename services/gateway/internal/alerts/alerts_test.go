package alerts_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/natsd"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/alerts"
)

const patience = 20 * time.Second

func connect(t *testing.T, dir string, role bus.Role) *nats.Conn {
	t.Helper()
	cred, err := bus.LoadCredentials(natsd.CredentialsFile(dir, role, "", ""))
	require.NoError(t, err)
	auth, err := cred.Auth()
	require.NoError(t, err)
	nc, err := nats.Connect(cred.URLs[0], auth)
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	return nc
}

// What the notifier of the tenant says is handed on; its silence, and that there is
// none, is said as such, and whoever asks does not wait for long.
func TestTheNotifierIsAskedAcrossAccounts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, natsd.Write(natsd.Plan{Dir: dir, Port: natsd.RandomPort, Durability: natsd.DurabilityRelaxed}))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	srv, err := natsd.Start(ctx, natsd.StartOptions{ConfigFile: natsd.ConfigFile(dir)})
	require.NoError(t, err)
	t.Cleanup(srv.Shutdown)
	gw, nc := connect(t, dir, bus.RoleGateway), connect(t, dir, bus.RoleNotifier)
	const key = "default.agents.0b0a"
	silent := &wire.Alerts{Key: key, Notifier: wire.NotifierSilent, Deliveries: []wire.AlertDelivery{}}

	desk := &alerts.Desk{Conn: gw, Wait: time.Hour}
	got, err := desk.Of(ctx, key)
	require.NoError(t, err)
	require.Equal(t, silent, got, "nobody is there, which is known at once")

	said := `{"key":"` + key + `","deliveries":[{"step":"step1","address":"ada/mail","state":"sent","due_at":"2026-03-01T10:00:00Z","tries":1}]}`
	sub, err := nc.Subscribe(subject.Alerts("default", wire.VerbExplain), func(m *nats.Msg) {
		if string(m.Data) == `{"key":"`+key+`"}` && said != "" {
			_ = m.Respond([]byte(said))
		}
	})
	require.NoError(t, err)
	require.NoError(t, nc.Flush())
	got, err = desk.Of(ctx, key)
	require.NoError(t, err)
	require.Equal(t, wire.NotifierAnswered, got.Notifier)
	require.Len(t, got.Deliveries, 1)
	require.Equal(t, "ada/mail", got.Deliveries[0].Address)

	_, err = desk.Of(ctx, "default.agents.more.than")
	require.ErrorContains(t, err, "not the key")
	for name, wrong := range map[string]string{"another request": `{"key":"default.agents.other","deliveries":[]}`, "no JSON": `told`} {
		require.NoError(t, sub.Unsubscribe())
		sub, err = nc.Subscribe(subject.Alerts("default", wire.VerbExplain), func(m *nats.Msg) { _ = m.Respond([]byte(wrong)) })
		require.NoError(t, err)
		require.NoError(t, nc.Flush())
		_, err = desk.Of(ctx, key)
		require.Error(t, err, name)
	}

	require.NoError(t, sub.Unsubscribe())
	require.NoError(t, nc.Flush())
	ways, err := desk.Channels(ctx, "default")
	require.NoError(t, err)
	require.Nil(t, ways, "nobody is there")
	answer := `{"channels":[{"type":"mail","addresses":2,"failing":1,"gone":0,"last_success":"2026-03-01T10:00:00Z"}]}`
	sub, err = nc.Subscribe(subject.Alerts("default", wire.VerbExplain), func(m *nats.Msg) {
		if string(m.Data) == `{"channels":true}` {
			_ = m.Respond([]byte(answer))
		}
	})
	require.NoError(t, err)
	require.NoError(t, nc.Flush())
	ways, err = desk.Channels(ctx, "default")
	require.NoError(t, err)
	at := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	require.Equal(t, []wire.AlertChannel{{Type: "mail", Addresses: 2, Failing: 1, LastSuccess: &at}}, ways)
	require.NoError(t, sub.Unsubscribe())
	sub, err = nc.Subscribe(subject.Alerts("default", wire.VerbExplain), func(m *nats.Msg) { _ = m.Respond([]byte("[")) })
	require.NoError(t, err)
	require.NoError(t, nc.Flush())
	_, err = desk.Channels(ctx, "default")
	require.ErrorContains(t, err, "cannot be read")
	require.NoError(t, sub.Unsubscribe())
	_, err = nc.Subscribe(subject.Alerts("default", wire.VerbExplain), func(*nats.Msg) {}) // it hangs
	require.NoError(t, err)
	require.NoError(t, nc.Flush())
	desk.Wait = 50 * time.Millisecond
	got, err = desk.Of(ctx, key)
	require.NoError(t, err)
	require.Equal(t, silent, got)
}
