package journal_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/natsd"
	"github.com/banksman/banksman/pkg/subject"
)

// TestRights runs the journal on a server as we configure it: the
// provisioner's rights suffice to provision, a gateway's for everything else,
// and a gateway cannot provision.
func TestRights(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, natsd.Write(natsd.Plan{
		Dir: dir, Port: natsd.RandomPort, Owners: []natsd.Owner{{Tenant: "t", Name: "p", Pool: true}},
	}))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	srv, err := natsd.Start(ctx, natsd.StartOptions{ConfigFile: natsd.ConfigFile(dir)})
	require.NoError(t, err)
	t.Cleanup(srv.Shutdown)
	connect := func(role bus.Role) (*nats.Conn, *bus.Credentials) {
		cred, err := bus.LoadCredentials(natsd.CredentialsFile(dir, role, "", ""))
		require.NoError(t, err)
		auth, err := cred.Auth()
		require.NoError(t, err)
		nc, err := nats.Connect(cred.URLs[0], auth, nats.ReconnectBufSize(-1), nats.ErrorHandler(
			func(_ *nats.Conn, _ *nats.Subscription, err error) { t.Log(role, err) }))
		require.NoError(t, err)
		t.Cleanup(nc.Close)
		return nc, cred
	}
	provisioner, _ := connect(bus.RoleProvisioner)
	gateway, cred := connect(bus.RoleGateway)
	short, cancelShort := context.WithTimeout(ctx, time.Second) // a forbidden call gets no answer
	defer cancelShort()
	require.Error(t, journal.Provision(short, gateway, small))
	require.ErrorContains(t, journal.Check(ctx, gateway, small), "stream HITL_REQUESTS is missing")
	require.NoError(t, journal.Provision(ctx, provisioner, small))
	require.NoError(t, journal.Check(ctx, gateway, small))

	id, key, err := cred.Signer()
	require.NoError(t, err)
	j := journal.New(gateway, journal.Options{Signer: journal.Signer{KeyID: id, Key: key}, Keys: cred.PublicDecisionKeys()})
	publish(t, gateway, subject.Request(ref), nil, []byte("ask"))
	m, err := j.Request(ctx, ref)
	require.NoError(t, err)
	_, won, err := j.Decide(ctx, ref, decision("d"))
	require.NoError(t, err)
	require.True(t, won)
	_, won, err = j.Decide(ctx, ref, decision("late"))
	require.NoError(t, err)
	require.False(t, won)
	_, err = j.WriteEvent(ctx, subject.Event(ref, "s", subject.Open), []byte("x"))
	require.NoError(t, err)
	require.NoError(t, j.WriteGatewayState(ctx, subject.NewSession("t", "o", "s"), []byte("x")))
	require.NoError(t, j.Enqueue(ctx, &hitl.Start{Tenant: "t", Pool: "p"}))

	taken := make(chan journal.Delivery, 2) // never closed
	seen := make(chan journal.Message, 2)   // never closed
	run, stop := context.WithCancel(ctx)
	done := make(chan error, 3) // three results, never closed
	take := func(_ context.Context, d journal.Delivery) {
		if err := d.Ack(); err != nil {
			t.Error(err)
		}
		taken <- d
	}
	go func() { done <- j.Intake(run, 1, take) }()
	go func() { done <- j.Sweep(run, 1, take) }()
	go func() {
		done <- j.Follow(run, journal.Events, 0, nil, func(m journal.Message) error {
			seen <- m
			return nil
		})
	}()
	for range 2 {
		wait(t, taken)
		wait(t, seen)
	}
	require.Eventually(t, func() bool {
		in, sw, err := j.Floors(ctx)
		return err == nil && in == 1 && sw == 1
	}, patience, tick)
	stop()
	for range 3 {
		require.ErrorIs(t, wait(t, done), context.Canceled)
	}
	require.NoError(t, j.DeleteRequest(ctx, m.Seq))
	n := 0
	require.NoError(t, j.Read(ctx, journal.Events, 0, nil, func(journal.Message) error { n++; return nil }))
	require.NoError(t, j.Last(ctx, journal.Transcripts, nil, func(journal.Message) error { n++; return nil }))
	require.Equal(t, 2, n)
	s, err := streams(t, provisioner).Stream(ctx, journal.Events)
	require.NoError(t, err)
	for name := range s.ConsumerNames(ctx).Name() {
		require.Equal(t, "notifier-t", name, "the gateway may remove what it made")
	}
}
