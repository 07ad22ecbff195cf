package bus_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
)

// Of several workers with one approval the first to claim it has it.
func TestTake_D4_05_OneUseOfAnApproval(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	a, b := n.owner(t), n.owner(t)
	ref := subject.NewRef("default", "agents", "i1")
	for _, c := range []struct {
		client       *bus.Client
		decision, by string
		want         bool
	}{{a, "d1", "a", true}, {b, "d1", "b", false}, {a, "d1", "a", true}, {a, "d2", "a", false}} {
		won, err := c.client.Take(t.Context(), ref, c.decision, c.by)
		require.NoError(t, err)
		require.Equal(t, c.want, won, "%s by %s", c.decision, c.by)
	}
	require.Equal(t, 1, n.count(t, "HITL_TRANSCRIPTS", subject.Ack(ref, subject.Taken)))
}

// The claim lands and its acknowledgement is lost: it is a claim all the same.
func TestTake_D4_05_ALostAcknowledgementIsReadBack_invariant7(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	d := &deafDialer{}
	c := n.owner(t, nats.SetCustomDialer(d))
	d.arm("hitl.ack.")
	ref := subject.NewRef("default", "agents", "i1")
	result := make(chan error, 1)
	go func() {
		won, err := c.Take(context.Background(), ref, "d1", "a")
		if err == nil && !won {
			err = errors.New("lost")
		}
		result <- err
	}()
	require.Eventually(t, func() bool { return n.count(t, "HITL_TRANSCRIPTS", subject.Ack(ref, subject.Taken)) == 1 }, patience, 5*time.Millisecond)
	d.cut()
	require.NoError(t, <-result)
}

// What a gateway does not let into the stream ends with a clear error at once, and
// what comes later is stored again: nothing hangs and nothing is out of step.
func TestOverTheQuotaOfConversation(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	c := n.owner(t)
	hold, err := c.Claim(t.Context(), state("s", "w1", hitl.StateStarting))
	require.NoError(t, err)
	ref := subject.NewRef(bus.DefaultTenant, "agents", "i1")
	won, err := c.Take(t.Context(), ref, "d1", "me")
	require.NoError(t, err)
	require.True(t, won)

	n.overQuota.Store(true)
	for name, call := range map[string]func() error{
		"event": func() error {
			return hold.Event(t.Context(), hitl.Event{Type: hitl.EventText, Data: []byte(`{"text":"a"}`)})
		},
		"state": func() error { return hold.State(t.Context(), state("s", "w1", hitl.StateUserTurn)) },
		"claim of a session": func() error {
			_, err := c.Claim(t.Context(), state("other", "w1", hitl.StateStarting))
			return err
		},
		"claim of an approval": func() error {
			won, err := c.Take(t.Context(), subject.NewRef(bus.DefaultTenant, "agents", "i2"), "d2", "me")
			require.False(t, won)
			return err
		},
		"receipt": func() error { return c.Ack(t.Context(), ref, hitl.Applied, "d1", "") },
	} {
		err := call()
		require.ErrorIs(t, err, bus.ErrOverQuota, name)
		require.ErrorContains(t, err, "quota.conversation: no room for", name)
		require.NotErrorIs(t, err, bus.ErrUnavailable, name)
	}
	n.overQuota.Store(false)
	require.NoError(t, hold.Event(t.Context(), hitl.Event{Type: hitl.EventText, Data: []byte(`{"text":"b"}`)}))
	require.NoError(t, hold.State(t.Context(), state("s", "w1", hitl.StateUserTurn)))
	won, err = c.Take(t.Context(), ref, "d1", "another copy")
	require.NoError(t, err)
	require.False(t, won, "the claim of before counts")
	require.Equal(t, 1, n.count(t, "HITL_TRANSCRIPTS", "hitl.evt.>"))
	require.Equal(t, 2, n.count(t, "HITL_TRANSCRIPTS", "hitl.ses.>"))
	require.Equal(t, 1, n.count(t, "HITL_TRANSCRIPTS", "hitl.ack.>"))
}
