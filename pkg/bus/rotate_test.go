package bus_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/natsd"
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
