package bus_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/natsd"
	"github.com/banksman/banksman/pkg/subject"
)

func TestDecisionKeysAreRotatedWhileAnAskerWaits_invariant2(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	c, log := n.client(t, bus.RoleOwner, "agents")
	one, two := ask(t, c, approval(`{"n":1}`)), ask(t, c, approval(`{"n":2}`))
	ref1, ref2 := one.open(t).Ref, two.open(t).Ref

	old := *n // decides with the old key
	keys, err := natsd.RotateDecisionKey(n.dir)
	require.NoError(t, err)
	creds, err := bus.LoadCredentials(natsd.CredentialsFile(n.dir, bus.RoleGateway, "", ""))
	require.NoError(t, err)
	n.id, n.key, err = creds.Signer()
	require.NoError(t, err)
	require.Equal(t, keys.Signing, n.id)
	require.NotEqual(t, old.id, n.id)

	// Each of the two is taken.
	allowed := hitl.Content{Outcome: hitl.Allowed}
	n.decide(t, ref2, allowed)
	answer, err := two.wait(t)
	require.NoError(t, err)
	require.Equal(t, hitl.Allowed, answer.Decision.Outcome)
	old.decide(t, ref1, allowed)
	answer, err = one.wait(t)
	require.NoError(t, err)
	require.Equal(t, hitl.Allowed, answer.Decision.Outcome)
	require.NotContains(t, log.String(), "ALARM")

	// Dropped, also for who has connected before.
	three := ask(t, c, approval(`{"n":3}`))
	ref3 := three.open(t).Ref
	_, err = natsd.DropDecisionKeys(n.dir)
	require.NoError(t, err)
	old.write(t, old.signed(t, ref3, old.decision(t, ref3, allowed)))
	require.Eventually(t, func() bool { return contains([]byte(log.String()), "ALARM") }, patience, 5*time.Millisecond)
	require.Contains(t, log.String(), "unknown signer")
	three.waiting(t)
	four := ask(t, c, approval(`{"n":4}`))
	n.decide(t, four.open(t).Ref, allowed)
	_, err = four.wait(t)
	require.NoError(t, err)
	three.waiting(t)
}

// A program that was not given its new key in time ends, and can be started
// again; it does not hang.
func TestADroppedKeyEndsTheClient(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	c, _ := n.client(t, bus.RoleOwner, "quiet")
	require.NoError(t, natsd.RotateKey(n.dir, "owner-quiet"))
	require.NoError(t, n.srv.Reload())
	waiting := ask(t, c, approval(`{"n":1}`))
	waiting.open(t)
	require.NoError(t, natsd.DropOldKeys(n.dir, "owner-quiet"))
	require.NoError(t, n.srv.Reload())
	_, err := waiting.wait(t)
	require.ErrorIs(t, err, bus.ErrClosed)
	select {
	case <-c.Done():
		require.ErrorContains(t, c.Err(), "Authorization Violation")
	case <-time.After(patience):
		t.Fatal("the client goes on")
	}
	again, _ := n.client(t, bus.RoleOwner, "quiet")
	require.True(t, again.IsConnected())
}

// The record keeps a decision for a year or so. Who has kept a copy for longer,
// and may write, can store it again: signature, subject and digest are right.
func TestADecisionThatWasPutBackIsRefused_invariant2_invariant4(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	c, log := n.client(t, bus.RoleOwner, "agents")
	old := func(ref subject.Ref, age time.Duration) *nats.Msg {
		d := n.decision(t, ref, hitl.Content{Outcome: hitl.Allowed})
		d.RequestedAt, d.DecidedAt = d.RequestedAt.Add(-age), d.DecidedAt.Add(-age)
		m := n.signed(t, ref, d)
		m.Header.Add("Nats-Time-Stamp", d.DecidedAt.Format(time.RFC3339Nano)) // as if it were stored then
		return m
	}
	for i, age := range []time.Duration{25 * time.Hour, 366 * 24 * time.Hour} {
		// It comes while somebody waits; and it is there when somebody asks again.
		first := ask(t, c, keyed(numbered("k", i), `{"n":1}`))
		at := first.open(t)
		n.write(t, old(at.Ref, age))
		n.sweep(t, at.Ref)
		for _, a := range []*asking{first, ask(t, c, keyed(numbered("k", i), `{"n":1}`))} {
			_, err := a.wait(t)
			require.ErrorIs(t, err, bus.ErrOldDecision)
			require.ErrorContains(t, err, at.Ref.ID)
		}
		require.Contains(t, log.String(), "put back")
	}
	// A gateway whose clock is hours behind decides all the same.
	late := ask(t, c, approval(`{"n":2}`))
	n.write(t, old(late.open(t).Ref, 23*time.Hour))
	answer, err := late.wait(t)
	require.NoError(t, err)
	require.Equal(t, hitl.Allowed, answer.Decision.Outcome)
}
