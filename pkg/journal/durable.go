package journal

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/banksman/banksman/pkg/journal/internal/held"
	"github.com/banksman/banksman/pkg/journal/internal/pace"
	"github.com/banksman/banksman/pkg/journal/internal/pull"
	"github.com/banksman/banksman/pkg/run"
)

const nak = "-NAK"

// sweepPause is how long the sweeper lets decisions gather before it works on
// them. What it does is urgent for nobody, and each of them would compete with
// the next request and decision for the disk and the processors.
const sweepPause = 100 * time.Millisecond

// Intake implements Journal.
func (j *JetStream) Intake(ctx context.Context, workers int, fn func(context.Context, Delivery)) error {
	return j.consume(ctx, Requests, IntakeConsumer, workers, 0, fn)
}

// Sweep implements Journal. Deliveries come in bursts, at most sweepPause late
// unless there is a backlog. One that waits is not acknowledged: if this process
// ends, another one gets it.
func (j *JetStream) Sweep(ctx context.Context, workers int, fn func(context.Context, Delivery)) error {
	return j.consume(ctx, Decisions, SweeperConsumer, workers, sweepPause, fn)
}

// Collect implements Journal.
func (j *JetStream) Collect(ctx context.Context, workers int, fn func(context.Context, Delivery)) error {
	return j.consume(ctx, Mailbox, MailboxConsumer, workers, 0, fn)
}

// consume gives the messages of a shared durable to workers until ctx ends, in
// bursts: a message that nothing waits behind gathers others before it goes on, for
// less than AckWait, since nobody looks at what comes meanwhile. It
// takes few messages more than they can work on, so that other processes get
// their share, and gives back what it has not begun.
func (j *JetStream) consume(ctx context.Context, stream, name string, workers int, gather time.Duration, fn func(context.Context, Delivery)) error {
	workers = max(workers, 1)
	p, err := pull.New(j.nc, stream, name, min(max(8*workers, 32), 512))
	if err != nil {
		return err
	}
	defer p.Close()
	h := held.New(j.nc, tellEvery, HoldLimit)
	stop := make(chan struct{}) // closed below
	var telling sync.WaitGroup
	telling.Go(func() { h.Tell(stop) })
	work := make(chan taken) // closed below, by the only sender
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for t := range work {
				h.Begin(t.msg)
				fn(ctx, j.delivery(t, h))
			}
		})
	}
	err = j.feed(ctx, p, h, work, gather, stream+" "+name)
	p.GiveBack(func(m *nats.Msg) { j.giveBack(m, h) })
	close(work)
	wg.Wait()
	close(stop)
	telling.Wait()
	return err
}

// taken is a message that the server has delivered to this process.
type taken struct {
	msg  *nats.Msg
	meta pull.Meta
}

func (j *JetStream) feed(ctx context.Context, p *pull.Puller, h *held.Set, work chan<- taken, gather time.Duration, what string) error {
	// What has come and waits behind another message is held, too.
	look := time.NewTicker(tellEvery)
	defer look.Stop()
	var b pace.Backoff
	missing, again, burst := false, true, false
	for {
		if again || p.Over() {
			// Fails while the connection is down, and then reconnected follows.
			if err := p.Request(); err != nil && p.Dead() {
				return fmt.Errorf("journal: %s: %w", what, nats.ErrConnectionClosed)
			}
		}
		m, mt, sig := p.Receive(ctx)
		again = sig != pull.Message && sig != pull.Heartbeat
		switch sig {
		case pull.Message:
			b, missing = pace.Backoff{}, false
			h.Add(m)
			to := work
			if gather > 0 && !burst && !run.Pause(ctx, gather) {
				to = nil // nobody begins with it any more
			}
			burst = mt.Pending > 0 || p.Waiting()
			for given := false; !given; {
				select {
				case to <- taken{m, mt}:
					given = true
				case <-look.C:
					p.Ahead(h.Add)
				case <-ctx.Done():
					j.giveBack(m, h)
					return ctx.Err()
				}
			}
		case pull.Gone:
			if !missing {
				j.log.Warn("a consumer cannot be reached", "consumer", what)
			}
			missing = true
			if !b.Sleep(ctx) {
				return ctx.Err()
			}
		case pull.Ended:
			// A pull that ends at once, again and again, must not spin.
			if p.Quick() && !b.Sleep(ctx) {
				return ctx.Err()
			}
		case pull.Silent:
			j.log.Debug("a pull got no sign of life", "consumer", what)
		case pull.Closed:
			return fmt.Errorf("journal: %s: %w", what, nats.ErrConnectionClosed)
		case pull.Done:
			return ctx.Err()
		}
	}
}

func (j *JetStream) giveBack(m *nats.Msg, h *held.Set) {
	h.Drop(m)
	_ = j.nc.Publish(m.Reply, []byte(nak)) // unheard, it goes to another process a little later
}

func (j *JetStream) delivery(t taken, h *held.Set) Delivery {
	m := t.msg
	var used atomic.Bool
	answer := func(word string) error {
		if used.Swap(true) {
			return nil
		}
		h.Drop(m)
		if err := j.nc.Publish(m.Reply, []byte(word)); err != nil {
			return fmt.Errorf("journal: acknowledge %s: %w", m.Subject, err)
		}
		return nil
	}
	return Delivery{
		Message:     stamped(m, t.meta),
		Redelivered: t.meta.Deliveries > 1,
		Behind:      t.meta.Pending,
		Ack:         func() error { return answer("+ACK") },
		Nak: func(delay time.Duration) error {
			if delay <= 0 {
				return answer(nak)
			}
			return answer(fmt.Sprintf(nak+` {"delay": %d}`, delay.Nanoseconds()))
		},
		Term: func() error { return answer("+TERM") },
	}
}

func stamped(m *nats.Msg, mt pull.Meta) Message {
	return Message{Subject: m.Subject, Seq: mt.Seq, Time: pull.Since(m.Subject, m.Header, mt.Time), Header: m.Header, Data: m.Data}
}
