package journal_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
)

// TestRedeliveryAfterSilence: a process that died holds nothing for long.
func TestRedeliveryAfterSilence(t *testing.T) {
	t.Parallel()
	t.Run("B-48 a message of a dead gateway comes to another one", func(t *testing.T) {
		t.Parallel()
		b, nc := provisioned(t)
		doomed := b.connect(t)
		got := make(chan journal.Delivery, 2) // never closed
		died := make(chan error, 1)           // one result, never closed
		go func() {
			died <- journal.New(doomed, journal.Options{}).Intake(t.Context(), 1, func(_ context.Context, d journal.Delivery) { got <- d })
		}()
		publish(t, nc, subject.Request(ref), nil, []byte("x"))
		require.False(t, wait(t, got).Redelivered)
		doomed.Close() // without a word, as a killed process
		require.ErrorIs(t, wait(t, died), nats.ErrConnectionClosed)

		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1) // one result, never closed
		go func() {
			done <- journal.New(nc, journal.Options{}).Intake(ctx, 1, func(_ context.Context, d journal.Delivery) { got <- d })
		}()
		d := wait(t, got)
		require.True(t, d.Redelivered)
		require.EqualValues(t, 1, d.Seq)
		require.NoError(t, d.Ack())
		cancel()
		require.ErrorIs(t, wait(t, done), context.Canceled)
	})
}

// patient makes a durable wait for ever for whom it delivered to.
func patient(t *testing.T, nc *nats.Conn, stream, name string) {
	t.Helper()
	c, err := streams(t, nc).Consumer(t.Context(), stream, name)
	require.NoError(t, err)
	cfg := c.CachedInfo().Config
	cfg.AckWait = time.Hour
	_, err = streams(t, nc).UpdateConsumer(t.Context(), stream, cfg)
	require.NoError(t, err)
}

// A gateway that is slow gets nothing again that it has in hand, be it worked on
// or waiting for that, and no other gateway gets it, while what a dead one took
// just after comes again and again.
func TestASlowGatewayKeepsWhatItHolds_B48(t *testing.T) {
	t.Parallel()
	b, nc := provisioned(t)
	const pull = 32 // what a gateway with one worker asks for at once
	for i := range pull {
		publish(t, nc, fmt.Sprintf("hitl.req.t.o.i%d", i), nil, []byte("x"))
	}
	durable, err := streams(t, nc).Consumer(t.Context(), journal.Requests, journal.IntakeConsumer)
	require.NoError(t, err)
	unanswered := func(n int) {
		t.Helper()
		require.Eventually(t, func() bool {
			info, err := durable.Info(t.Context())
			return err == nil && info.NumAckPending == n
		}, patience, tick)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	intake := func(fn func(journal.Delivery)) <-chan error {
		j := journal.New(b.connect(t), journal.Options{})
		done := make(chan error, 1) // one result, never closed
		go func() { done <- j.Intake(ctx, 1, func(_ context.Context, d journal.Delivery) { fn(d) }) }()
		return done
	}
	free := make(chan struct{})                 // closed when the slow one may go on
	slow := make(chan journal.Delivery, 2*pull) // never closed
	slowDone := intake(func(d journal.Delivery) {
		<-free
		if err := d.Ack(); err != nil {
			t.Error(err)
		}
		slow <- d
	})
	unanswered(pull)

	dead := b.connect(t)
	lost, err := dead.SubscribeSync(dead.NewInbox())
	require.NoError(t, err)
	take := func() {
		require.NoError(t, dead.PublishRequest("$JS.API.CONSUMER.MSG.NEXT.HITL_REQUESTS.intake", lost.Subject, []byte("1")))
	}
	take()
	publish(t, nc, "hitl.req.t.o.last", nil, []byte("x"))
	for n := range 2 {
		m, err := lost.NextMsg(patience)
		require.NoError(t, err)
		require.Equal(t, "hitl.req.t.o.last", m.Subject, "delivery %d: what was taken before it is due before it", n+1)
		take()
	}
	dead.Close()
	other := make(chan journal.Delivery, 2*pull) // never closed
	otherDone := intake(func(d journal.Delivery) {
		if err := d.Ack(); err != nil {
			t.Error(err)
		}
		other <- d
	})
	d := wait(t, other)
	require.EqualValues(t, pull+1, d.Seq)
	require.True(t, d.Redelivered)
	close(free)
	for range pull {
		require.False(t, wait(t, slow).Redelivered)
	}
	unanswered(0)
	require.Empty(t, other)
	require.Empty(t, slow)
	cancel()
	require.ErrorIs(t, wait(t, slowDone), context.Canceled)
	require.ErrorIs(t, wait(t, otherDone), context.Canceled)
}

// A gateway that ends leaves nothing to be missed: what it worked on and what it
// had not begun comes to another one, however patient the server is.
func TestAGatewayThatEndsGivesBackWhatItHolds(t *testing.T) {
	t.Parallel()
	b, nc := provisioned(t)
	patient(t, nc, journal.Requests, journal.IntakeConsumer)
	const messages = 10
	for i := range messages {
		publish(t, nc, fmt.Sprintf("hitl.req.t.o.i%d", i), nil, []byte("x"))
	}
	ctx, cancel := context.WithCancel(t.Context())
	begun := make(chan struct{}, messages) // never closed
	done := make(chan error, 1)            // one result, never closed
	go func() {
		j := journal.New(b.connect(t), journal.Options{})
		done <- j.Intake(ctx, 1, func(ctx context.Context, d journal.Delivery) {
			begun <- struct{}{}
			<-ctx.Done()
			if err := d.Nak(0); err != nil {
				t.Error(err)
			}
		})
	}()
	wait(t, begun)
	cancel()
	require.ErrorIs(t, wait(t, done), context.Canceled)
	got := make(chan uint64, 2*messages) // never closed
	ctx, cancel = context.WithCancel(t.Context())
	go func() {
		done <- journal.New(nc, journal.Options{}).Intake(ctx, 1, func(_ context.Context, d journal.Delivery) {
			if err := d.Ack(); err != nil {
				t.Error(err)
			}
			got <- d.Seq
		})
	}()
	seen := map[uint64]bool{}
	for len(seen) < messages {
		seen[wait(t, got)] = true
	}
	cancel()
	require.ErrorIs(t, wait(t, done), context.Canceled)
}
