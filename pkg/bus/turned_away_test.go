package bus_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
)

// turnAway does what a gateway does: the request goes, and its asker is told.
func (n *node) turnAway(t *testing.T, ref subject.Ref, remove, tell bool) {
	t.Helper()
	if remove {
		n.sweep(t, ref)
	}
	if !tell {
		return
	}
	m := nats.NewMsg(subject.Inbox(ref))
	m.Header.Set(wire.HeaderTurnedAway, "quota.rate: used up")
	require.NoError(t, n.gateway.PublishMsg(m))
	require.NoError(t, n.gateway.Flush())
	require.NoError(t, n.gateway.LastError())
}

func TestAskIsToldThatItWasTurnedAway(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	owner := n.owner(t)
	a := ask(t, owner, keyed("k", "1"))
	ref := a.open(t).Ref
	n.turnAway(t, ref, true, true)
	_, err := a.wait(t)
	require.ErrorIs(t, err, bus.ErrTurnedAway)
	require.ErrorContains(t, err, "quota.rate: used up")
	// The key is as good as before.
	a = ask(t, owner, keyed("k", "1"))
	require.Equal(t, ref, a.open(t).Ref)
	n.decide(t, ref, hitl.Content{Outcome: hitl.Allowed})
	got, err := a.wait(t)
	require.NoError(t, err)
	require.Equal(t, hitl.Allowed, got.Decision.Outcome)
	require.Equal(t, 1, got.Attempt)
}

// The word alone ends nothing: what counts is whether the request is stored.
func TestAWordForAnEarlierAskingEndsNothing(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	a := ask(t, n.owner(t), keyed("k", "1"))
	ref := a.open(t).Ref
	n.turnAway(t, ref, false, true)
	a.waiting(t)
	n.decide(t, ref, hitl.Content{Outcome: hitl.Denied})
	got, err := a.wait(t)
	require.NoError(t, err)
	require.Equal(t, hitl.Denied, got.Decision.Outcome)
}

// Who missed the word asks again after a while, and after a reconnect.
func TestARequestThatIsGoneIsSentAgain_invariant3(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	a := ask(t, n.owner(t), keyed("k", "1"))
	ref := a.open(t).Ref
	n.turnAway(t, ref, true, false)
	require.Eventually(t, func() bool { return n.stored(t, "HITL_REQUESTS", subject.Request(ref)) != nil }, patience, 5*time.Millisecond)
	n.decide(t, ref, hitl.Content{Outcome: hitl.Allowed})
	got, err := a.wait(t)
	require.NoError(t, err)
	require.Equal(t, hitl.Allowed, got.Decision.Outcome)
	require.Equal(t, hitl.Digest(got.Request), got.Decision.Digest)
}
