package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/card"
	"github.com/banksman/banksman/services/gateway/internal/projection"
	"github.com/banksman/banksman/services/gateway/internal/quota"
	"github.com/banksman/banksman/services/gateway/internal/record"
)

// retryIn is how long a message waits that could not be handled now.
const retryIn = 2 * time.Second

// intake takes in one request or withdrawal. It acknowledges only what is
// settled or on the event stream.
func (e *Engine) intake(ctx context.Context, d journal.Delivery) {
	if !d.Redelivered { // it says how much has come, and not how much is left
		e.backlog.Saw(d.Behind)
	}
	p, err := subject.Parse(d.Subject)
	if err != nil || p.Kind != "req" && p.Kind != "cxl" {
		// Whoever wrote it gets no decision: its subject fits no inbox.
		if e.ledger.Note(quota.Owner{}) {
			e.log.WarnContext(ctx, "deleted a message outside the grammar; more of them in the next minute are not told", "seq", d.Seq, "bytes", len(d.Subject))
		}
		e.finish(ctx, d, e.opts.Journal.DeleteRequest(ctx, d.Seq))
		return
	}
	if e.ledger.Took(quota.Owner{Tenant: p.Tenant, Name: p.Owner}) {
		e.log.WarnContext(ctx, "one owner sends very many requests, and others wait behind them; banksman creds revoke cuts an owner off", "tenant", p.Tenant, "owner", p.Owner)
	}
	if p.Kind == "cxl" {
		e.finish(ctx, d, e.withdraw(ctx, p.Ref(), d.Message))
		return
	}
	err = e.admitStored(ctx, p.Ref(), d)
	if err == nil && len(d.Header[wire.HeaderLeftAt]) > 0 {
		// Its withdrawal may not have been able to end it in the mailbox. It waits in the
		// stream, and not here: no owner fills what intake has in hand.
		var back *journal.Message
		if back, err = record.Withdrawal(ctx, e.opts.Journal, p.Ref()); back != nil && err == nil {
			err = e.withdraw(ctx, p.Ref(), *back)
		}
	}
	e.finish(ctx, d, err)
}

func (e *Engine) finish(ctx context.Context, d journal.Delivery, err error) {
	if err == nil {
		err = d.Ack()
	} else {
		e.log.WarnContext(ctx, "will try again", "subject", d.Subject, "seq", d.Seq, "error", err)
		err = d.Nak(retryIn)
	}
	if err != nil {
		e.log.DebugContext(ctx, "not acknowledged, will come again", "seq", d.Seq, "error", err)
	}
}

// admitStored puts a stored request before people, once.
func (e *Engine) admitStored(ctx context.Context, ref subject.Ref, d journal.Delivery) error {
	m := d.Message
	asked, looked := false, false
	mark := e.view.Mark()
	decision := e.readDecision(ctx, ref)
	// The request is examined while the record is asked.
	r, a, bad := record.Examine(&e.policy, ref, m)
	if limit := hitl.RequestLimit(e.opts.Conn.MaxPayload()); bad == nil && len(m.Data) > limit {
		// The server took it and could not take its decision.
		bad = hitl.Invalid("request", "is %d bytes, the limit of this server is %d", len(m.Data), limit)
	}
	var en *projection.Entry
	if bad == nil {
		en = projection.NewEntry(r, m.Data, hitl.Digest(m.Data), a)
	}
	for {
		w, err := decision()
		if err == nil {
			// Asked again after its decision: the asker reads that one.
			if err := e.announceOnce(ctx, ref, w); err != nil {
				return err
			}
			return e.opts.Journal.DeleteRequest(ctx, m.Seq)
		}
		if !errors.Is(err, journal.ErrNotFound) {
			return err
		}
		if bad != nil {
			var inv *hitl.InvalidError
			if !errors.As(bad, &inv) {
				return bad
			}
			return e.refuse(ctx, ref, m, inv.Fields)
		}
		if !asked {
			asked = true
			switch tried, decided := e.ruled(ctx, &api.Asked{
				Ref: ref, Request: r, Digest: en.Summary().Digest, Policy: a.Policy, RequestedAt: m.Time, Size: len(m.Data),
			}); {
			case decided:
				return nil // the sweeper does the rest
			case tried: // that took its time
				mark = e.view.Mark()
				decision = e.readDecision(ctx, ref)
				continue
			}
		}
		// Shown while the write is under way: it is stored already, and nobody
		// has decided.
		ok, over := e.view.Admit(en, mark)
		switch {
		case ok:
			e.opts.Metrics.Asked(r.Kind)
			return e.writeOpen(ctx, en.Summary(), m.Data, en.Admission, false)
		case over == nil:
		case !looked && (over.Field != quota.Rate || d.Redelivered):
			// Its asker may know of an end that is not counted here yet, and who had it
			// before may have put it before people.
			if err := e.latest.Look(ctx, e.opts.Journal, e.view, e.wait); err != nil {
				return err
			}
			asked, looked = false, true
		case d.Redelivered:
			return e.refuseAfterAnother(ctx, ref, []hitl.Field{*over})
		default:
			return e.refuse(ctx, ref, m, []hitl.Field{*over})
		}
		mark = e.view.Mark()
		decision = e.readDecision(ctx, ref)
	}
}

// readDecision begins to read the decision on ref; the caller waits for it by
// calling the result.
func (e *Engine) readDecision(ctx context.Context, ref subject.Ref) func() (*journal.StoredDecision, error) {
	var w *journal.StoredDecision
	var err error
	var reading sync.WaitGroup
	reading.Go(func() { w, err = e.opts.Journal.Decision(ctx, ref) })
	return func() (*journal.StoredDecision, error) {
		reading.Wait()
		return w, err
	}
}

// refuse ends a request that nobody will see, with the outcome invalid. Beyond
// a number of them nothing is recorded, so that an owner cannot fill the record
// with its own refusals: the request is removed and its asker told. Who misses
// that asks again, see package bus.
func (e *Engine) refuse(ctx context.Context, ref subject.Ref, m journal.Message, fields []hitl.Field) error {
	owner := quota.Owner{Tenant: ref.Tenant, Name: ref.Owner}
	why := hitl.InvalidError{Fields: fields}
	e.opts.Metrics.Refused(fields[0].Field)
	if e.ledger.Refuse(owner) {
		e.log.WarnContext(ctx, "refused a request", "interaction", ref.String(), "problem", why.Error())
		d := record.Refused(ref, m).Decision(hitl.Content{Outcome: hitl.InvalidIX, Fields: fields}, system, "intake", "", e.now())
		_, _, err := e.store(ctx, ref, d)
		return err
	}
	if e.ledger.Note(owner) {
		e.log.WarnContext(ctx, "too many refused requests of one owner: they are turned away without a record", "tenant", owner.Tenant, "owner", owner.Name, "problem", why.Error())
	}
	if err := e.opts.Journal.DeleteRequest(ctx, m.Seq); err != nil {
		return err
	}
	word := nats.Header{wire.HeaderTurnedAway: {card.Line(why.Error())}}
	return e.opts.Conn.PublishMsg(&nats.Msg{Subject: subject.Inbox(ref), Header: word})
}

// refuseAfterAnother is refuse for a request that somebody had before, for whom it
// may have been within the quota: whose open event, written at any time, must not
// come after the closed one, and have a decision. So the request is kept with the
// decision, and whoever tells the streams of that begins with the open event.
func (e *Engine) refuseAfterAnother(ctx context.Context, ref subject.Ref, fields []hitl.Field) error {
	w, err := e.settle(ctx, ref, e.clock.Server(), hitl.Content{Outcome: hitl.InvalidIX, Fields: fields}, system, "intake")
	if err == nil && w.Outcome == hitl.InvalidIX {
		e.log.WarnContext(ctx, "refused a request that another gateway had before", "interaction", ref.String(), "problem", fields[0].Problem)
	}
	return err
}

func (e *Engine) writeOpen(ctx context.Context, sum wire.Summary, raw []byte, a card.Admission, decided bool) error {
	data, err := record.Opened(sum, raw, a, e.now(), decided)
	if err != nil {
		return err
	}
	_, err = e.opts.Journal.WriteEvent(a.Trace.In(ctx), subject.Event(a.Ref, subject.Token(sum.SessionID), subject.Open), data)
	return err
}

func asker(ref subject.Ref) hitl.Principal { return hitl.Principal{Kind: "asker", ID: ref.Owner} }

// withdraw turns an asker's withdrawal into the outcome cancelled.
func (e *Engine) withdraw(ctx context.Context, ref subject.Ref, m journal.Message) error {
	c := record.Withdrawn(m)
	_, err := e.settle(ctx, ref, m.Time, c, asker(ref), "withdrawal")
	if errors.Is(err, journal.ErrLeft) {
		// It is not waited for: it may lie behind much that others have left.
		var left *journal.Message
		if left, err = e.opts.Journal.Left(ctx, subject.Request(ref)); err == nil {
			done := false
			if done, err = e.endLeft(ctx, ref, *left, m.Time, c, "withdrawal"); err == nil && !done {
				return nil // it stays where it is until the request comes, see intake
			}
		} else if errors.Is(err, journal.ErrNotFound) {
			err = journal.ErrLeft // passed on in this moment
		}
	}
	if err != nil && (errors.Is(err, errUnread) || !errors.Is(err, api.ErrNotFound)) {
		return err // comes again
	}
	return e.opts.Journal.DeleteRequest(ctx, m.Seq)
}

// sweep finishes one decision: its closed event is written and its request is
// no longer among the open ones. Mostly whoever decided is about to write that
// event, or has; then only the request is left to do.
func (e *Engine) sweep(ctx context.Context, d journal.Delivery) {
	e.finish(ctx, d, func() error {
		p, err := subject.Parse(d.Subject)
		if err != nil {
			e.log.Error("a decision outside the grammar is stored", "seq", d.Seq)
			return nil
		}
		if err := e.ended(ctx, p.Ref()); err != nil {
			return err
		}
		if told := e.view.Settled(p.Ref()); told != nil {
			return e.remove(ctx, p.Ref(), told.RequestSeq)
		}
		w, err := e.opts.Journal.Decision(ctx, p.Ref())
		if errors.Is(err, journal.ErrUnsigned) {
			// Not a decision. It stays for the record; nothing follows from it.
			e.log.Error("ALARM: an unsigned decision is stored", "interaction", p.Ref().String(), "seq", d.Seq)
			return nil
		}
		if err != nil {
			return err
		}
		if err := e.announce(ctx, p.Ref(), w); err != nil {
			return err
		}
		return e.remove(ctx, p.Ref(), w.RequestSeq)
	}())
}

// remove deletes a decided request. What was decided where it had been left has no
// number: a copy that got through before the decision is deleted here, a later one by
// intake, which meets the decision.
func (e *Engine) remove(ctx context.Context, ref subject.Ref, seq uint64) error {
	if seq == 0 {
		m, err := e.opts.Journal.Request(ctx, ref)
		if errors.Is(err, journal.ErrNotFound) || errors.Is(err, journal.ErrLeft) {
			return nil
		}
		if err != nil {
			return err
		}
		seq = m.Seq
	}
	return e.opts.Journal.DeleteRequest(ctx, seq)
}

// announceOnce leaves what the sweeper is done with: its events may be older than what
// is kept of them, and nobody is told of it as if it were new.
func (e *Engine) announceOnce(ctx context.Context, ref subject.Ref, w *journal.StoredDecision) error {
	_, swept, err := e.opts.Journal.Floors(ctx)
	if _, held := e.view.Pending(ref); err != nil || !held && swept >= w.Seq {
		return err
	}
	return e.announce(ctx, ref, w)
}

// announce writes the open event, where it is missing, and the closed one.
func (e *Engine) announce(ctx context.Context, ref subject.Ref, w *journal.StoredDecision) error {
	raw, err := w.Request()
	if err != nil {
		return err
	}
	e.view.Decided(ref)
	p, held := e.view.Pending(ref)
	a, sum := p.Admission, p.Summary
	switch {
	case raw == nil:
		a = card.Admission{Ref: ref, Seq: w.RequestSeq, RequestedAt: w.RequestedAt, Policy: w.Policy, Trace: w.Trace}
		sum = record.Unreadable(a, w)
	case !held || sum.Digest != w.Digest:
		var r *hitl.Request
		if r, a, err = record.Decided(&e.policy, ref, w); err != nil {
			return err
		}
		sum = card.Summarize(r, w.Digest, a)
	}
	if raw != nil && !p.Opened {
		if err := e.writeOpen(ctx, sum, raw, a, true); err != nil {
			return err
		}
	}
	data, err := record.Ended(sum, w, e.now())
	if err != nil {
		return err
	}
	seq, err := e.opts.Journal.WriteEvent(w.Trace.In(ctx), subject.Event(ref, subject.Token(sum.SessionID), subject.Closed), data)
	if err != nil {
		return err
	}
	e.view.Closed(ref, w.WithoutRequest(), seq)
	return nil
}
