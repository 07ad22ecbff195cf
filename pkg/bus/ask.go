package bus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/banksman/banksman/pkg/bus/internal/link"
	"github.com/banksman/banksman/pkg/bus/internal/timeup"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/trace"
	"github.com/banksman/banksman/pkg/wire"
)

const (
	// grace is how much longer than the server's deadline an asker waits for
	// the decision that says "expired".
	grace = 5 * time.Second
	// lastWords bounds the last read and the withdrawal after a wait.
	lastWords = 5 * time.Second
	// maxAttempts bounds how far Ask goes on from orphaned attempts.
	maxAttempts = 1000
	// readEvery is how often a waiting asker looks into the record, after the
	// first looks.
	readEvery = 30 * time.Second
)

// firstReads are the first looks, counted from the publish. The one at once is
// for who waits on an earlier asking's request.
var firstReads = []time.Duration{0, 100 * time.Millisecond, time.Second, 5 * time.Second}

// Answer is a decision together with what was decided.
type Answer struct {
	Decision *hitl.Decision
	Ref      subject.Ref
	// Request is the exact request that was decided; its digest is the
	// decision's. With a repeated key these are the bytes of the first asking.
	Request []byte
	Attempt int // from 1
	// Trace is where it was decided. What follows from it belongs below.
	Trace trace.Point
}

// Opened is a request that the server has stored.
type Opened struct {
	Ref     subject.Ref
	Key     string
	Attempt int
	Request []byte // the exact bytes
	// Again says that the request was stored already, by an earlier asking.
	Again bool
	// Trace is where it is asked.
	Trace trace.Point
}

// AskOption changes one Ask.
type AskOption func(*askOptions)

type askOptions struct {
	keep   bool
	opened func(Opened)
}

// Keep leaves a request that has a key open when the context ends, for an
// asking with the same key to go on with.
func Keep() AskOption { return func(o *askOptions) { o.keep = true } }

// OnOpen calls fn once for each attempt whose request the server has stored and
// whose decision is still to come: a decision that is there already is returned
// without. Ask waits for fn.
func OnOpen(fn func(Opened)) AskOption { return func(o *askOptions) { o.opened = fn } }

// Encode returns the exact bytes that Ask would send for r and attempt (from
// 1), and where. r must have a key. The error is an *hitl.InvalidError or a
// *TooLargeError.
func (c *Client) Encode(r *hitl.Request, attempt int) (subject.Ref, []byte, error) {
	q := *r
	if q.Key == "" {
		return subject.Ref{}, nil, hitl.Invalid("key", "is missing")
	}
	q.V, q.Tenant, q.Owner = 1, c.cred.Tenant, c.cred.Name
	q.ID = hitl.ID(q.Tenant, q.Owner, q.Key, attempt)
	ref := subject.NewRef(q.Tenant, q.Owner, q.ID)
	raw, err := hitl.Marshal(&q)
	if err != nil {
		return ref, nil, hitl.Invalid("request", "cannot be encoded: %v", err)
	}
	if limit := hitl.RequestLimit(c.link.Conn().MaxPayload()); len(raw) > limit {
		return ref, nil, &TooLargeError{Size: len(raw), Limit: limit}
	}
	if _, err := hitl.ParseRequest(raw); err != nil {
		return ref, nil, err
	}
	return ref, raw, nil
}

// Ask asks and blocks until there is a decision, whatever its outcome. It fills
// in version, tenant, owner, id and, if it is empty, a random key; r itself is
// left alone. Only a decision with a gateway's signature, for exactly this
// request, is returned.
//
// The errors: *hitl.InvalidError and *TooLargeError (nothing was sent),
// ErrKeyConflict, ErrForbidden, ErrBadDecision, ErrOldDecision, ErrTurnedAway, and *WaitError, which matches
// ErrNoDecision (the time is up), ErrStopped (ctx ended; also matches ctx's
// error and cause) or ErrClosed. After an error there is no consent.
//
// When ctx ends the request is withdrawn in the background. It stays open with
// Keep, and with ErrShutdown as ctx's cause, if r has a key. A key whose last
// attempt was orphaned, or withdrawn by a shutdown, goes on with a new attempt.
func (c *Client) Ask(ctx context.Context, r *hitl.Request, opts ...AskOption) (*Answer, error) {
	a := &ask{c: c, req: *r, keyed: r.Key != ""}
	for _, o := range opts {
		o(&a.askOptions)
	}
	if !a.keyed {
		a.req.Key = hitl.NewKey()
	}
	if !c.link.Begin() {
		return nil, &WaitError{Err: ErrClosed}
	}
	defer c.link.End()
	ctx, a.span = c.tracer.Start(ctx, trace.Ask, subject.Ref{})
	a.at = trace.Of(ctx)
	for a.attempt = 1; ; a.attempt++ {
		ans, err := a.once(ctx)
		if !errors.Is(err, errAskAgain) {
			a.traced(ans, err)
			return ans, err
		}
	}
}

// errAskAgain: this attempt ended without using up its key.
var errAskAgain = errors.New("ask again")

// errDeadline is the cause of a wait whose time is up.
var errDeadline = errors.New("deadline")

// ask is one asking; attempt and what follows it change with each attempt.
type ask struct {
	c     *Client
	req   hitl.Request
	keyed bool
	askOptions
	span *trace.Span
	at   trace.Point // where in a trace it asks

	attempt int
	ref     subject.Ref
	raw     []byte
	sent    bool   // a publish was tried
	stored  bool   // the request is on the server
	seq     uint64 // the sequence our own publish got; 0: an earlier asking's, or it was left
	left    bool   // it was left for a gateway
	again   bool   // it was there already
	looked  bool   // the record was read after the publish
	alarmed bool
	decided trace.Point // where the decision was made
	full    bool        // the server had no room for it
}

func (a *ask) once(ctx context.Context) (*Answer, error) {
	var err error
	if a.ref, a.raw, err = a.c.Encode(&a.req, a.attempt); err != nil {
		return nil, err
	}
	a.sent, a.stored, a.seq, a.looked, a.alarmed = false, false, 0, false, false
	a.left, a.again, a.full = false, false, false

	run, cancel := a.c.link.Bound(ctx)
	defer cancel(nil)
	deadline := timeup.After(a.req.Expiry(), grace, func() { cancel(errDeadline) })
	defer deadline.Stop()

	ans, err := a.wait(run, deadline)
	if err == nil || run.Err() == nil {
		if a.sent && errors.Is(err, ErrForbidden) {
			// Nobody would hear of what is decided.
			a.withdrawLater(hitl.Withdrawal{V: 1, Reason: "the asker may not wait for an answer"})
		}
		return ans, err
	}
	return a.stopped(ctx, context.Cause(run))
}

// wait goes through the steps of an asking in their order: listen, publish,
// look, wait. Its error counts only while ctx has not ended.
//
// Nothing waits between listening and publishing: both go out on one connection
// and the server takes them in that order. What is missed all the same is read.
func (a *ask) wait(ctx context.Context, deadline *timeup.Deadline) (*Answer, error) {
	inbox := make(chan *nats.Msg, 4) // only wakes: what does not fit is read back
	subj := subject.Inbox(a.ref)
	listening, done := a.c.link.WatchDenial(ctx, subj)
	defer done()
	sub, err := a.c.link.Conn().ChanSubscribe(subj, inbox)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrClosed, err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	earlier, stop := a.readEarlier(listening)
	defer stop()
	if ans, err := a.publish(listening); err != nil || ans != nil {
		return ans, err
	}
	deadline.Restart()
	if ans, err := earlier(); err != nil || ans != nil {
		return ans, err
	}
	if a.opened != nil {
		a.opened(Opened{Ref: a.ref, Key: a.req.Key, Attempt: a.attempt, Request: a.raw, Again: a.again, Trace: a.at})
	}
	return a.await(listening, inbox)
}

// readEarlier looks for the decision of an earlier asking, or the end of its
// attempt, beside the publish; take waits for what was found. A request without
// a key has no earlier asking. The caller calls stop.
func (a *ask) readEarlier(ctx context.Context) (take func() (*Answer, error), stop func()) {
	if !a.keyed {
		return func() (*Answer, error) { return nil, nil }, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	subj := subject.Decision(a.ref)
	var m *nats.Msg
	var err error
	var reading sync.WaitGroup
	reading.Go(func() { m, err = a.c.link.Read(ctx, streamDecisions, subj) })
	take = func() (*Answer, error) {
		reading.Wait()
		return a.found(m, err)
	}
	return take, func() {
		cancel()
		reading.Wait()
	}
}

func (a *ask) message() *nats.Msg {
	m := link.Expecting(subject.Request(a.ref), a.raw, 0)
	m.Header.Set(hitl.HeaderAttempt, strconv.Itoa(a.attempt))
	if a.c.worker != "" {
		m.Header.Set(hitl.HeaderWorker, a.c.worker)
	}
	a.at.Write(m.Header)
	return m
}

// publish stores the request, or finds out that it is stored or decided.
func (a *ask) publish(ctx context.Context) (*Answer, error) {
	m := a.message()
	var b link.Backoff
	for {
		a.sent = true
		seq, left, err := a.c.link.Send(ctx, m)
		var conflict *link.ConflictError
		switch {
		case err == nil:
			a.seq, a.left, a.stored = seq, left, true
			return nil, nil
		case !errors.As(err, &conflict):
			return nil, err
		}
		// Something is there: our own earlier try, an earlier asking, or a
		// request that was decided meanwhile.
		there, err := a.there(ctx, left)
		if err == nil {
			a.stored, a.left, a.again = true, left, true
			return nil, a.adopt(there)
		}
		if !errors.Is(err, ErrNotFound) {
			return nil, err
		}
		if ans, err := a.look(ctx); err != nil || ans != nil {
			return ans, err
		}
		// Neither request nor decision: deleted under our eyes, a replica that
		// lags, or a full store.
		a.full = conflict.Full()
		if err := a.c.link.Pause(ctx, b.Next(conflict)); err != nil {
			return nil, errors.Join(err, conflict)
		}
	}
}

// there reads the request that is stored, which may have been left for a gateway.
// That is read first: from there it comes to where it is stored.
func (a *ask) there(ctx context.Context, left bool) (*nats.Msg, error) {
	if left {
		m, err := a.c.link.Read(ctx, streamMailbox, subject.Left(subject.Request(a.ref)))
		if !errors.Is(err, ErrNotFound) {
			return m, err
		}
	}
	return a.c.link.Read(ctx, streamRequests, subject.Request(a.ref))
}

// adopt takes over a stored request that says the same as ours.
func (a *ask) adopt(there *nats.Msg) error {
	a.span.Link(trace.Read(there.Header)) // whoever asked first; nothing, where that was this ask
	if bytes.Equal(there.Data, a.raw) {
		return nil
	}
	if !sameContent(there.Data, a.raw) {
		return fmt.Errorf("%w (key %q)", ErrKeyConflict, a.req.Key)
	}
	a.raw = there.Data
	return nil
}

func sameContent(x, y []byte) bool {
	cx, errX := hitl.Canonical(x)
	cy, errY := hitl.Canonical(y)
	return errX == nil && errY == nil && bytes.Equal(cx, cy)
}

// await waits for the decision. Messages of the inbox and reconnects only make
// it look earlier.
func (a *ask) await(ctx context.Context, inbox <-chan *nats.Msg) (*Answer, error) {
	published := time.Now()
	n := 0
	if a.seq != 0 {
		n = 1 // we have looked, and what is decided from here on is told
	}
	timer := time.NewTimer(firstReads[n])
	defer timer.Stop()
	for {
		again := a.c.link.Connected()
		lost := n >= len(firstReads)-1 // long enough to have missed something
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case m := <-inbox:
			why := m.Header.Get(wire.HeaderTurnedAway)
			if why == "" {
				if d, err := a.verify(m); err == nil && !storedLate(d, time.Now()) {
					return a.settle(d)
				}
			}
			ans, err := a.glance(ctx)
			// The word may be one for an earlier asking.
			if ans == nil && err == nil && why != "" && a.removed(ctx) {
				// Decided meanwhile, it is removed as well, but behind its decision.
				if ans, err = a.glance(ctx); ans == nil && err == nil {
					return nil, fmt.Errorf("%w: %s", ErrTurnedAway, why)
				}
			}
			if ans != nil || final(err) {
				return ans, err
			}
			continue // without an answer of the server the next look comes by the timer
		case <-again:
			lost = true
		case <-timer.C:
		}
		ans, err := a.glance(ctx)
		if ans == nil && err == nil && lost && a.removed(ctx) {
			// Turned away, and the word of it was missed; or the streams were
			// restored from an older copy.
			ans, err = a.publish(ctx)
		}
		if ans != nil || final(err) {
			return ans, err
		}
		if a.left && err == nil {
			a.sendLeft(ctx)
		}
		next := readEvery
		if n++; n < len(firstReads) {
			next = firstReads[n] - time.Since(published)
		}
		if err != nil {
			next = min(next, time.Second) // the server did not answer
		}
		timer.Reset(max(next, 0))
	}
}

// sendLeft tries once more to send what was left: it may lie behind much that others
// have left, while there is a gateway now. Of two copies the first counts.
func (a *ask) sendLeft(ctx context.Context) {
	_, err := a.c.link.Put(ctx, a.message())
	var conflict *link.ConflictError
	if err == nil || errors.As(err, &conflict) {
		a.left = false
	}
}

// final reports errors that end the wait; behind any other the record is read
// again.
func final(err error) bool {
	return link.Fatal(err) || errors.Is(err, errAskAgain) || refused(err)
}

// look reads the record until the server has answered; nil, nil if there is no
// decision.
func (a *ask) look(ctx context.Context) (*Answer, error) {
	m, err := a.c.link.Read(ctx, streamDecisions, subject.Decision(a.ref))
	return a.found(m, err)
}

// glance is look with one try.
func (a *ask) glance(ctx context.Context) (*Answer, error) {
	m, err := a.c.link.Direct(ctx, streamDecisions, subject.Decision(a.ref))
	ans, err := a.found(m, err)
	if err == nil {
		a.looked = true
	}
	return ans, err
}

// removed reports whether the request is no longer stored. False if that
// cannot be found out now.
func (a *ask) removed(ctx context.Context) bool {
	if a.left {
		_, err := a.c.link.Direct(ctx, streamMailbox, subject.Left(subject.Request(a.ref)))
		if !errors.Is(err, ErrNotFound) {
			return false
		}
	}
	_, err := a.c.link.Direct(ctx, streamRequests, subject.Request(a.ref))
	return errors.Is(err, ErrNotFound)
}

func (a *ask) found(m *nats.Msg, err error) (*Answer, error) {
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	d, err := a.verify(m)
	if err != nil {
		return nil, nil // an alarm was raised; it is no decision
	}
	stored, err := link.StoredAt(m)
	if err != nil {
		return nil, err
	}
	if storedLate(d, stored) {
		a.c.log.ErrorContext(a.at.In(context.Background()), "ALARM: an old decision was put back; it is ignored", "interaction", a.ref.ID, "decision", d.DecisionID,
			"decided_at", d.DecidedAt, "stored_at", stored)
		return nil, fmt.Errorf("%w: it is of %s and was stored on %s (interaction %s)", ErrOldDecision,
			d.DecidedAt.Format(time.DateOnly), stored.Format(time.DateOnly), a.ref.ID)
	}
	return a.settle(d)
}

// storedWithin is how long after it was made a decision is stored at the latest:
// gateways take seconds, and their clocks may be wrong by hours.
const storedWithin = 24 * time.Hour

// storedLate reports whether a decision was stored later than any gateway does it:
// somebody has kept it until the record had lost it, and its key counts again.
func storedLate(d *hitl.Decision, stored time.Time) bool {
	return stored.Sub(d.DecidedAt) > storedWithin
}

// verify reads a decision and refuses what no gateway signed for this
// interaction.
func (a *ask) verify(m *nats.Msg) (*hitl.Decision, error) {
	subj := subject.Decision(a.ref)
	err := hitl.Verify(a.c.keys.Public(), m.Header.Get(hitl.HeaderSigner), m.Header.Get(hitl.HeaderSignature), subj, m.Data)
	var d *hitl.Decision
	if err == nil {
		d, err = hitl.ParseDecision(m.Data)
	}
	if err == nil && d.InteractionID != a.ref.ID {
		err = fmt.Errorf("the decision names interaction %q", d.InteractionID)
	}
	if err != nil && !a.alarmed {
		a.alarmed = true
		a.c.log.ErrorContext(a.at.In(context.Background()), "ALARM: not a gateway's decision; it is ignored", "interaction", a.ref.ID, "subject", subj, "error", err)
	}
	a.decided = trace.Read(m.Header)
	return d, err
}

// refused reports that there is a decision which can never be this asking's.
func refused(err error) bool {
	return errors.Is(err, ErrBadDecision) || errors.Is(err, ErrOldDecision) || errors.Is(err, ErrKeyConflict)
}

// settle holds a verified decision against the bytes that this asker has.
func (a *ask) settle(d *hitl.Decision) (*Answer, error) {
	if d.Digest != hitl.Digest(a.raw) {
		own := a.seq != 0 && d.RequestSeq == a.seq
		stored, err := d.Request()
		switch {
		case own || err != nil || stored != nil && hitl.Digest(stored) != d.Digest:
			a.c.log.ErrorContext(a.at.In(context.Background()), "ALARM: a decision's digest is not its request's", "interaction", a.ref.ID, "decision", d.DecisionID)
			return nil, fmt.Errorf("%w (interaction %s)", ErrBadDecision, a.ref.ID)
		case stored == nil || !sameContent(stored, a.raw):
			return nil, fmt.Errorf("%w (key %q)", ErrKeyConflict, a.req.Key)
		}
		a.raw = stored // an earlier asking with the same content
	}
	// Such a decision ends this asking only if it was made for it: for the
	// message we stored, or while we waited on an earlier asking's.
	mine := a.looked
	if a.seq != 0 {
		mine = d.RequestSeq == a.seq
	}
	if d.AsksAgain() && !mine && a.attempt < maxAttempts {
		return nil, errAskAgain
	}
	return &Answer{Decision: d, Ref: a.ref, Request: a.raw, Attempt: a.attempt, Trace: a.decided}, nil
}

// stopped ends a wait that ran into its deadline, its context's end, or the
// client's.
func (a *ask) stopped(ctx context.Context, cause error) (*Answer, error) {
	w := &WaitError{Ref: a.ref, Attempt: a.attempt, Stored: a.stored}
	shutdown := errors.Is(cause, ErrShutdown) || errors.Is(cause, ErrClosed)
	switch {
	case errors.Is(cause, errDeadline):
		// The decision may have been made while its message was lost.
		last, cancel := context.WithTimeout(ctx, lastWords)
		defer cancel()
		ans, err := a.look(last)
		if ans != nil || refused(err) {
			return ans, err
		}
		w.Err = ErrNoDecision
		if !a.stored {
			w.Err = fmt.Errorf("%w: the request could not be stored: %w", ErrNoDecision, a.unstored(err))
		}
	case errors.Is(cause, ErrClosed):
		w.Err = cause
	default:
		w.Err = fmt.Errorf("%w: %w", ErrStopped, errors.Join(ctx.Err(), cause))
		w.Open = a.keyed && (a.keep || shutdown)
	}
	if shutdown && a.keyed {
		w.Open = true
	}
	if !w.Open && a.sent {
		a.withdrawLater(hitl.Withdrawal{V: 1, Reason: reason(cause), Shutdown: shutdown})
	}
	return nil, w
}

// unstored tells why a request was not stored in all the time it had; readErr is
// what a read of the record ended with.
func (a *ask) unstored(readErr error) error {
	switch {
	case a.full:
		return ErrFull
	case readErr == nil:
		return ErrNotWriting
	}
	return ErrUnavailable
}

func reason(cause error) string {
	switch {
	case errors.Is(cause, errDeadline):
		return "the asker's time was up"
	case errors.Is(cause, ErrShutdown), errors.Is(cause, ErrClosed):
		return "the asker shut down"
	}
	return "the asker stopped waiting"
}

// traced ends the span of an asking.
func (a *ask) traced(ans *Answer, err error) {
	a.span.Of(a.ref)
	a.span.Asks(&a.req)
	a.span.Attempt(a.attempt)
	switch {
	case ans != nil:
		a.span.Outcome(ans.Decision.Outcome)
	case errors.Is(err, ErrStopped):
		a.span.Fail("stopped")
	default:
		a.span.Fail("no_decision")
	}
	a.span.End()
}
