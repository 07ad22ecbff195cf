package bus_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
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
