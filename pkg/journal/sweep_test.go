package journal_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/hitltest"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
)

// TestASweepMayWait: what the sweeper lets gather is not lost with the process,
// and a backlog does not wait again and again.
func TestASweepMayWait_invariant3(t *testing.T) {
	t.Parallel()
	held := func(t *testing.T) (b *node, nc, holder *nats.Conn, letGo func() error) {
		b, nc = provisioned(t)
		holder = b.connect(t)
		_, _, err := journal.New(nc, journal.Options{Signer: newKey(t)}).Decide(t.Context(), ref, decision("d"))
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1) // one result, never closed
		go func() {
			done <- journal.New(holder, journal.Options{}).SweepAfter(ctx, time.Hour, func(context.Context, journal.Delivery) {
				t.Error("the pause is not over")
			})
		}()
		c, err := streams(t, b.connect(t)).Consumer(t.Context(), journal.Decisions, journal.SweeperConsumer)
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			info, err := c.Info(t.Context())
			return err == nil && info.NumAckPending == 1
		}, patience, tick)
		return b, nc, holder, func() error {
			cancel()
			return wait(t, done)
		}
	}
	next := func(t *testing.T, nc *nats.Conn) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		got := make(chan journal.Delivery, 1) // never closed
		err := journal.New(nc, journal.Options{}).Sweep(ctx, 1, func(_ context.Context, d journal.Delivery) {
			got <- d
			cancel()
		})
		require.ErrorIs(t, err, context.Canceled)
		d := wait(t, got)
		require.True(t, d.Redelivered)
		require.NoError(t, d.Ack())
	}
	t.Run("one that ends gives it back", func(t *testing.T) {
		t.Parallel()
		_, nc, _, letGo := held(t)
		patient(t, nc, journal.Decisions, journal.SweeperConsumer)
		require.ErrorIs(t, letGo(), context.Canceled)
		next(t, nc)
	})
	t.Run("B-48 one that is killed loses it to another", func(t *testing.T) {
		t.Parallel()
		_, nc, holder, letGo := held(t)
		holder.Close() // without a word
		require.Error(t, letGo())
		next(t, nc)
	})
	t.Run("a backlog waits once", func(t *testing.T) {
		t.Parallel()
		_, nc := provisioned(t)
		j := journal.New(nc, journal.Options{Signer: newKey(t)})
		const many = 100 // more than one pull of a single worker
		for i := range many {
			r := subject.NewRef("t", "o", fmt.Sprintf("i%d", i))
			_, _, err := j.Decide(t.Context(), r, hitltest.SampleDecision(r, "d", hitl.Allowed))
			require.NoError(t, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		n := 0
		err := j.SweepAfter(ctx, patience/30, func(_ context.Context, d journal.Delivery) {
			if err := d.Ack(); err != nil {
				t.Error(err)
			}
			if n++; n == many {
				cancel()
			}
		})
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, many, n)
	})
}
