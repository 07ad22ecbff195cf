package engine

import (
	"container/heap"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/trace"
	"github.com/banksman/banksman/services/notifier/internal/channel"
	"github.com/banksman/banksman/services/notifier/internal/ledger"
	"github.com/banksman/banksman/services/notifier/internal/message"
	"github.com/banksman/banksman/services/notifier/internal/plan"
)

// A paced lane sends one message at a time, which stands for one delivery or for
// many. Which message that is, and when the last ones went out, is shared by all
// replicas in the ledger. In this order, each step a compare-and-swap:
//
//  1. The message is claimed, with nothing in it.
//  2. Its deliveries are claimed for it, and looked at whether they are over.
//  3. Its text is stored with it. From here on it does not change.
//  4. It is sent, under the same id as often as it takes.
//  5. That it was sent is stored with it, then with its deliveries; then the next
//     one may follow.
//
// A message that could not be sent rests between two attempts. What is critical does not
// wait for it, nor for the pause between two messages: ahead sends it on its own.
//
// A replica that finds a message whose claim has run out goes on where the other
// one stopped. Before step 3 nothing was sent, so the deliveries are free again.

const (
	// maxBatch is how many deliveries one message stands for at most.
	maxBatch = 2000
	// maxLook is how long another replica's message is waited for before the
	// ledger is looked at again.
	maxLook = time.Second
	// keepDone is how many messages are remembered as sent.
	keepDone = 16
)

// task is an item in hand: busy, with the version it had when it was taken.
type task struct {
	it   *item
	rec  *ledger.Record
	owed *result
}

// take marks an item as busy; the caller holds the lock.
func take(it *item) *task {
	it.busy = true
	return &task{it, it.rec, it.owed}
}

func (l *lane) paced() bool { return l.Recipient != nil && l.Recipient.Pace().Messages > 0 }

// runPaced works until ctx ends; what is under way is finished.
func (l *lane) runPaced(ctx context.Context) error {
	for {
		ripe, wait := l.ripe()
		if wait <= 0 {
			l.turn(context.WithoutCancel(ctx), ripe)
			if ctx.Err() != nil {
				return nil
			}
			continue
		}
		fires, stop := l.e.Clock.Timer(wait)
		select {
		case <-ctx.Done():
			stop()
			return nil
		case <-l.wake:
		case <-fires:
		}
		stop()
	}
}

// ripe takes the items that are due, or tells how long there is nothing to do.
func (l *lane) ripe() ([]*task, time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.e.Clock.Now()
	var out []*task
	looking := l.look.IsZero() || !l.look.After(now)
	wait := maxIdle
	if !l.look.IsZero() {
		wait = min(wait, l.look.Sub(now))
	}
	if !looking && !l.urgent.IsZero() {
		for _, it := range slices.Clone(l.due) {
			left := max(it.at.Sub(now), l.urgent.Sub(now))
			switch {
			case !grave(it.rec) || len(out) == maxBatch:
			case left > 0:
				wait = min(wait, left)
			default:
				heap.Remove(&l.due, it.index)
				out = append(out, take(it))
			}
		}
		looking = len(out) > 0 // what else is due may go along
	}
	for looking && len(l.due) > 0 && len(out) < maxBatch && !l.due[0].at.After(now) {
		out = append(out, take(heap.Pop(&l.due).(*item)))
	}
	if len(out) > 0 {
		return out, 0
	}
	if len(l.due) > 0 && looking {
		wait = min(wait, l.due[0].at.Sub(now))
	}
	return nil, wait
}

// back puts items back as they are.
func (l *lane) back(items []*task, err error) {
	for _, it := range items {
		l.done(it.it, it.rec, it.owed, err)
	}
}

// turn does what can be done now with the items that are due, and sets when to
// look again.
func (l *lane) turn(ctx context.Context, ripe []*task) {
	now := l.e.Clock.Now()
	l.look, l.urgent = time.Time{}, time.Time{}
	ready := l.sift(ctx, ripe, now)
	wait, err := l.message(ctx, ready, now)
	if err != nil {
		l.e.Logger.Warn("the pace of a recipient cannot be read or written", "channel", l.Name, "error", err)
		wait, l.urgent = again, time.Time{}
	}
	if wait > 0 {
		l.look = now.Add(wait)
	}
}

// sift deals with what goes alone or not at all, and returns the rest.
func (l *lane) sift(ctx context.Context, ripe []*task, now time.Time) (ready []*task) {
	for _, it := range ripe {
		r := it.rec
		if it.owed == nil && !l.updates(r) {
			if r.State == ledger.Claimed {
				ready = append(ready, it)
				continue
			}
			next, err := l.before(ctx, r, now)
			if err == nil && next == nil {
				ready = append(ready, it)
				continue
			}
		}
		last, owed, err := l.attempt(ctx, r, it.owed)
		l.done(it.it, last, owed, err)
	}
	return ready
}

// message brings the message under way one step further, or begins one. It puts
// all items of ready back.
func (l *lane) message(ctx context.Context, ready []*task, now time.Time) (wait time.Duration, err error) {
	left := ready
	defer func() { l.back(left, err) }()
	call, cancel := context.WithTimeout(ctx, recordLimit)
	defer cancel()
	if l.owes != nil {
		won, err := l.keep(ctx, l.owes)
		if err != nil {
			return 0, err
		}
		if !won {
			l.e.Logger.Error("another replica went on with a message that was sent here", "channel", l.Name)
		}
		l.owes = nil
	}
	p, err := l.e.Ledger.PaceOf(call, l.Name)
	if err != nil {
		return 0, err
	}
	b := p.Batch
	switch {
	case b != nil && b.By != "" && b.By != l.e.Replica && b.Until.After(now):
		return min(b.Until.Sub(now), maxLook), nil
	case b != nil && b.Alert != nil && b.SentAt == nil && b.DueAt.After(now):
		left, err = l.ahead(ctx, p, ready, now)
		return b.DueAt.Sub(now), err
	case b != nil && b.Alert != nil:
		var mine []*task
		mine, left = l.members(b.ID, ready)
		if b.SentAt != nil || b.Size == 1 {
			return 0, l.carry(ctx, p, mine)
		}
		for _, it := range mine {
			over, err := l.e.Ledger.IsOver(call, it.rec.Key.Ref)
			if err == nil && !over || it.rec.Key.Step.Ends() {
				return 0, l.carry(ctx, p, mine)
			}
			if err != nil {
				left = append(left, mine...)
				return 0, err
			}
		}
		left, p.Batch = append(left, mine...), nil // nothing in it waits any more
		_, err = l.keep(ctx, p)
		return 0, err
	}
	if ready = l.settle(ctx, p, ready); len(ready) == 0 {
		left = nil
		if b == nil {
			return 0, nil
		}
		p.Batch = nil // begun by a replica that is dead
		_, err = l.keep(ctx, p)
		return 0, err
	}
	left = ready
	pick, at := l.pick(ready, p.Sent, now)
	if len(pick) == 0 {
		l.urgent = l.room(p.Sent, now)
		return max(at.Sub(now), time.Millisecond), nil
	}
	p.Batch = &ledger.Batch{ID: p.BatchID(), By: l.e.Replica, Until: now.Add(l.e.Lease).UTC(), DueAt: now.UTC(), Size: len(pick)}
	won, err := l.keep(ctx, p)
	if err != nil || !won {
		return 0, err
	}
	var picked []*task
	left = nil
	for i, it := range ready {
		if slices.Contains(pick, i) {
			picked = append(picked, it)
		} else {
			left = append(left, it)
		}
	}
	mine := l.claimAll(ctx, p.Batch, picked)
	if len(mine) == 0 {
		p.Batch = nil
	} else {
		p.Batch.Size = len(mine)
		p.Batch.Alert = l.compose(p.Batch.ID, mine)
	}
	if won, err = l.keep(ctx, p); err != nil || !won || len(mine) == 0 {
		l.back(mine, err)
		return 0, err
	}
	return 0, l.carry(ctx, p, mine)
}

// grave reports whether a delivery, of no message yet, waits for no pause.
func grave(r *ledger.Record) bool {
	return r.Into == "" && r.Alert != nil && r.Alert.Data.Risk == "critical"
}

// room is from when on the pace lets something go that waits for no pause.
func (l *lane) room(sent []time.Time, now time.Time) time.Time {
	_, at := l.Recipient.Pace().Turn([]plan.Ready{{Due: now, Urgent: true}}, sent, now)
	return at
}

// keep writes the pace down.
func (l *lane) keep(ctx context.Context, p *ledger.Pace) (won bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, recordLimit)
	defer cancel()
	return l.e.Ledger.UpdatePace(ctx, l.Name, p)
}

// ahead sends what is critical while a message rests, each on its own and within the
// pace, and returns what is left. The pace is taken before, so that no replica exceeds it,
// and given back where nothing arrived.
func (l *lane) ahead(ctx context.Context, p *ledger.Pace, ready []*task, now time.Time) (left []*task, err error) {
	l.urgent = l.room(p.Sent, now)
	for i, it := range ready {
		if !grave(it.rec) || l.urgent.After(now) {
			left = append(left, it)
			continue
		}
		sent := p.Sent
		p.Sent = l.Recipient.Pace().Keep(append(slices.Clone(sent), now.UTC()))
		if won, err := l.keep(ctx, p); err != nil || !won {
			return append(left, ready[i:]...), err
		}
		last, owed, err := l.attempt(ctx, it.rec, it.owed)
		l.done(it.it, last, owed, err)
		if err == nil && (last == nil || last.State != ledger.Sent && !last.Uncertain) {
			p.Sent = sent
			if won, err := l.keep(ctx, p); err != nil || !won {
				return append(left, ready[i+1:]...), err
			}
		}
		l.urgent = l.room(p.Sent, now)
	}
	return left, nil
}

// pick asks the plan. What was tried alone goes alone again, under its own id.
func (l *lane) pick(items []*task, sent []time.Time, now time.Time) ([]int, time.Time) {
	ready := make([]plan.Ready, len(items))
	for i, it := range items {
		d := it.rec.Alert.Data
		ready[i] = plan.Ready{Session: d.Session, Due: it.rec.DueAt, Urgent: d.Risk == "critical"}
	}
	pick, at := l.Recipient.Pace().Turn(ready, sent, now)
	for _, i := range pick {
		if r := items[i].rec; r.Uncertain || r.Tries > 0 && !r.Many {
			return []int{i}, at
		}
	}
	return pick, at
}

// members are the items of a message; rest is what of ready is none.
func (l *lane) members(id string, ready []*task) (mine, rest []*task) {
	for _, it := range ready {
		if it.rec.Into == id {
			mine = append(mine, it)
		} else {
			rest = append(rest, it)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, it := range l.items {
		if it.rec.Into == id && !it.busy && !it.rec.State.Final() {
			if it.index >= 0 {
				heap.Remove(&l.due, it.index)
			}
			mine = append(mine, take(it))
		}
	}
	return mine, rest
}

// settle records what a message stood for that was sent and whose sender stopped
// before it had written that down everywhere, and returns the rest.
func (l *lane) settle(ctx context.Context, p *ledger.Pace, items []*task) (rest []*task) {
	for _, it := range items {
		if it.rec.Into == "" || !slices.Contains(p.Done, it.rec.Into) {
			rest = append(rest, it)
			continue
		}
		next := it.rec.Entry
		l.sent(&next, channel.Receipt{}, l.e.Clock.Now())
		last, owed, err := l.record(ctx, it.rec, next)
		l.done(it.it, last, owed, err)
	}
	return rest
}

// claimAll claims deliveries for a message and returns those that are ours and
// not over. The others are put back.
func (l *lane) claimAll(ctx context.Context, b *ledger.Batch, items []*task) []*task {
	ours := make([]bool, len(items))
	var wg sync.WaitGroup
	slots := make(chan struct{}, parallel)
	for i, it := range items {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			ours[i] = l.claim(ctx, b, it, len(items) > 1)
		})
	}
	wg.Wait()
	var out []*task
	for i, it := range items {
		if ours[i] {
			out = append(out, it)
		}
	}
	if len(out) != 1 || len(items) == 1 {
		return out
	}
	// The others were over: this one stands alone, and is corrected at its end.
	next := out[0].rec.Entry
	next.Many = false
	mine, won, err := l.write(ctx, out[0].rec, next)
	if err != nil || !won {
		l.done(out[0].it, mine, nil, err)
		return nil
	}
	out[0].rec = mine
	return out
}

func (l *lane) claim(ctx context.Context, b *ledger.Batch, it *task, many bool) bool {
	next := it.rec.Entry
	// Without a message that names it, whoever held it may have sent it alone.
	next.Uncertain = next.Uncertain || next.State == ledger.Claimed && next.Into == ""
	next.State, next.By, next.Until = ledger.Claimed, b.By, &b.Until
	next.Into, next.Many, next.Tries, next.Prompt = b.ID, many, next.Tries+1, true
	mine, won, err := l.write(ctx, it.rec, next)
	if err != nil || !won {
		l.done(it.it, mine, nil, err)
		return false
	}
	if stop := l.over(ctx, mine); stop != nil {
		last, owed, err := l.record(ctx, mine, *stop)
		l.done(it.it, last, owed, err)
		return false
	}
	it.rec = mine
	return true
}

// compose makes the text of a message: the alert of its delivery, or a digest.
func (l *lane) compose(id string, items []*task) *channel.Alert {
	if len(items) == 1 {
		return items[0].rec.Alert
	}
	alerts := make([]*channel.Alert, len(items))
	for i, it := range items {
		alerts[i] = it.rec.Alert
	}
	return message.Digest(id, l.Recipient.Name, alerts, l.e.Clock.Now(), l.e.Link(""))
}

// carry sends the message of p, unless it was sent, and writes down what came of
// it. items are what it stands for; they are put back.
func (l *lane) carry(ctx context.Context, p *ledger.Pace, items []*task) error {
	b, e := p.Batch, l.e
	var failure error
	if b.SentAt == nil {
		b.By, b.Until, b.Tries = e.Replica, e.Clock.Now().Add(e.Lease).UTC(), b.Tries+1
		if won, err := l.keep(ctx, p); err != nil || !won {
			l.back(items, err)
			return err
		}
		var earlier []channel.Receipt
		if len(items) == 1 {
			earlier = items[0].rec.Earlier
		}
		send, cancel := context.WithTimeout(ctx, sendLimit)
		send, span := l.span(send, items)
		receipt, err := l.send(send, *b.Alert, earlier)
		span.Sent(l.Type, err)
		cancel()
		if failure = err; failure == nil {
			at := e.Clock.Now().UTC()
			b.SentAt, b.Receipt = &at, &receipt
			l.well(ctx)
			if won, err := l.keep(ctx, p); err != nil {
				l.owes = p // so that nobody sends it again
				e.Logger.Error("the state of a message could not be recorded; it will be", "channel", l.Name, "state", ledger.Sent, "error", err)
				l.back(items, err)
				return err
			} else if !won {
				e.Logger.Warn("another replica went on with a message that was sent here", "channel", l.Name)
				l.back(items, nil)
				return nil
			}
		}
	}
	if failure != nil {
		return l.failed(ctx, p, items, failure)
	}
	var left error
	for _, it := range items {
		next := it.rec.Entry
		l.sent(&next, *b.Receipt, *b.SentAt)
		if b.Size == 1 {
			next.Many = false
		}
		last, owed, err := l.record(ctx, it.rec, next)
		l.done(it.it, last, owed, err)
		left = errors.Join(left, err)
	}
	if left != nil {
		return left // what is left is found again, by the message's id
	}
	p.Sent = l.Recipient.Pace().Keep(append(p.Sent, *b.SentAt))
	p.Done = append(p.Done, b.ID)
	p.Done = p.Done[max(len(p.Done)-keepDone, 0):]
	p.Batch = nil
	_, err := l.keep(ctx, p)
	return err
}

// span is that of one message for all of items: in the trace of the first that has one,
// linked with those of the others.
func (l *lane) span(ctx context.Context, items []*task) (_ context.Context, span *trace.Span) {
	for _, it := range items {
		at := trace.Parse(it.rec.Trace, "")
		if !trace.Of(ctx).IsZero() {
			span.Link(at)
			continue
		}
		ref := it.rec.Key.Ref
		if len(items) > 1 {
			ref = subject.Ref{}
		}
		ctx, span = l.e.Tracer.Join(at.In(ctx), trace.Notify, ref)
	}
	return ctx, span
}

// failed deals with an attempt that did not succeed. A single delivery is free
// again; a digest is tried again as it is.
func (l *lane) failed(ctx context.Context, p *ledger.Pace, items []*task, failure error) error {
	b, digest := p.Batch, p.Batch.Size > 1
	problem := l.ill(ctx, failure)
	l.e.Logger.Warn("a message to a recipient was not sent", "channel", l.Name, "tries", b.Tries, "deliveries", b.Size, "error", failure)
	if digest && problem.Class == channel.Retry && b.Tries <= len(Schedule) {
		b.By, b.DueAt = "", l.e.Clock.Now().Add(pauseAfter(b.Tries, problem)).UTC()
		_, err := l.keep(ctx, p)
		l.back(items, err)
		if err == nil {
			l.look, l.urgent = b.DueAt, l.room(p.Sent, l.e.Clock.Now())
		}
		return err
	}
	for _, it := range items {
		next := it.rec.Entry
		next.Uncertain = next.Uncertain || digest && problem.Unknown
		switch {
		case !digest:
			next.Into, next.Many = "", false
			l.outcome(trace.Parse(it.rec.Trace, "").In(ctx), &next, it.rec.Key, problem, failure)
		case problem.Class == channel.Refused:
			next.State, next.Problem = ledger.Failed, failure.Error()
		default:
			next.State, next.Problem = ledger.Dead, failure.Error()
		}
		last, owed, err := l.record(ctx, it.rec, next)
		l.done(it.it, last, owed, err)
	}
	p.Batch = nil
	if problem.Unknown {
		p.Sent = l.Recipient.Pace().Keep(append(p.Sent, l.e.Clock.Now().UTC()))
	}
	_, err := l.keep(ctx, p)
	return err
}
