package link

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/trace"
	"github.com/banksman/banksman/pkg/wire"
)

// Error codes of the server's storage API.
const (
	CodeWrongLastSeq = 10071 // a message is there already: a verdict
	codeStoreFailed  = 10077 // the same without an expectation, or the store is full
	codeTooLarge     = 10054 // larger than the stream takes
	codeTooMany      = 10167 // nothing was stored: too much waits to be, or a gateway has too much of this owner
	codeSeqMismatch  = 10164 // no verdict: also hits a sole, correct writer of a replicated stream
)

// ConflictError: the subject holds a message already.
type ConflictError struct {
	Code int
	Text string
}

func (e *ConflictError) Error() string { return e.Text }

// Full reports that the stream has reached its size, which the server tells
// with the same code.
func (e *ConflictError) Full() bool {
	return e.Code == codeStoreFailed && strings.Contains(e.Text, "maximum bytes")
}

// Last is the sequence of the message that is there, as the server's text for
// CodeWrongLastSeq ends with it.
func (e *ConflictError) Last() (seq uint64, ok bool) {
	_, digits, ok := strings.Cut(e.Text, "sequence: ")
	if !ok {
		return 0, false
	}
	seq, err := strconv.ParseUint(digits, 10, 64)
	return seq, err == nil
}

// RefusedError is a gateway's word that it does not let a message into the stream.
type RefusedError struct {
	Code int // of package wire
	Text string
}

func (e *RefusedError) Error() string { return e.Text }

// Is makes it ErrOverQuota where it is that.
func (e *RefusedError) Is(target error) bool {
	return target == ErrOverQuota && e.Code == wire.CodeQuota
}

// storeError is another answer of the store than an acknowledgement.
type storeError struct {
	code int
	text string
}

func (e *storeError) Error() string { return fmt.Sprintf("%s (%d)", e.text, e.code) }

// Fatal reports errors that another try cannot change.
func Fatal(err error) bool {
	var tooLarge *TooLargeError
	var refused *RefusedError
	return errors.Is(err, ErrForbidden) || errors.Is(err, ErrClosed) || errors.As(err, &tooLarge) || errors.As(err, &refused)
}

// Try sends m once and returns the server's answer. Its error is ErrForbidden,
// ctx's cause, a *TooLargeError, or one that leaves open what happened.
func (c *Link) Try(ctx context.Context, m *nats.Msg) (*nats.Msg, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	run, done := c.WatchDenial(ctx, m.Subject)
	defer done()
	once, cancel := context.WithTimeout(run, TryTimeout)
	defer cancel()
	// A new connection means that the answer is lost with the old one. The news
	// of a connection comes late: it may be about the one that m goes out on.
	was := c.nc.Stats().Reconnects
	defer context.AfterFunc(c.current(), func() {
		if c.nc.Stats().Reconnects != was {
			cancel()
		}
	})()
	reply, err := c.nc.RequestMsgWithContext(once, m)
	switch {
	case err == nil:
		return reply, nil
	case run.Err() != nil:
		return nil, context.Cause(run)
	case errors.Is(err, nats.ErrMaxPayload):
		return nil, &TooLargeError{Size: len(m.Data), Limit: int(c.nc.MaxPayload())}
	case errors.Is(err, nats.ErrConnectionClosed):
		return nil, fmt.Errorf("%w: %w", ErrClosed, err)
	}
	return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// Put publishes m into a stream once.
func (c *Link) Put(ctx context.Context, m *nats.Msg) (seq uint64, err error) {
	reply, err := c.Try(ctx, m)
	if err != nil {
		return 0, err
	}
	return readAck(reply.Data, &TooLargeError{Size: len(m.Data), Limit: int(c.nc.MaxPayload())})
}

// readAck reads the server's answer to a publish; tooLarge is the error to
// return if the message was.
func readAck(answer []byte, tooLarge error) (seq uint64, err error) {
	var ack struct {
		Stream string `json:"stream"`
		Seq    uint64 `json:"seq"`
		Error  *struct {
			Code int    `json:"err_code"`
			Text string `json:"description"`
		} `json:"error"`
	}
	if err := json.Unmarshal(answer, &ack); err != nil {
		return 0, fmt.Errorf("%w: not an acknowledgement: %w", ErrUnavailable, err)
	}
	switch {
	case ack.Error == nil && ack.Stream != "" && ack.Seq > 0:
		return ack.Seq, nil
	case ack.Error == nil:
		return 0, fmt.Errorf("%w: not an acknowledgement", ErrUnavailable)
	case ack.Error.Code == CodeWrongLastSeq || ack.Error.Code == codeStoreFailed:
		return 0, &ConflictError{Code: ack.Error.Code, Text: ack.Error.Text}
	case ack.Error.Code == codeTooLarge:
		return 0, tooLarge
	case ack.Error.Code == wire.CodeQuota || ack.Error.Code == wire.CodeRefused:
		return 0, &RefusedError{Code: ack.Error.Code, Text: ack.Error.Text}
	}
	return 0, &storeError{ack.Error.Code, ack.Error.Text}
}

// Backoff paces the tries of one call.
type Backoff struct{ wait, soon time.Duration }

// mostSoon is the longest pause of who is refused because too much waits. The
// server says so when it has just stored a part of that: who comes back at once
// finds room, beside a sender that never stops.
const mostSoon = 100 * time.Millisecond

// Next returns how long to wait after err.
func (b *Backoff) Next(err error) time.Duration {
	var se *storeError
	if errors.As(err, &se) && se.code == codeSeqMismatch {
		return 2*time.Millisecond + rand.N(3*time.Millisecond)
	}
	if se != nil && se.code == codeTooMany {
		b.soon = min(max(2*b.soon, time.Millisecond), mostSoon)
		return rand.N(b.soon)
	}
	b.wait = min(max(2*b.wait, 50*time.Millisecond), 2*time.Second)
	return b.wait/2 + rand.N(b.wait/2)
}

// Store publishes m until it is acknowledged, ctx ends, or the error is final.
// A conflict is returned as *ConflictError: with an expectation in m it may be
// an earlier try of this very call.
func (c *Link) Store(ctx context.Context, m *nats.Msg) (seq uint64, err error) {
	var b Backoff
	told := false
	for {
		seq, err := c.Put(ctx, m)
		var conflict *ConflictError
		if err == nil || Fatal(err) || errors.As(err, &conflict) {
			return seq, err
		}
		if ctx.Err() == nil && errors.Is(err, ErrUnavailable) && c.nc.IsConnected() && !told {
			told = true
			c.log.WarnContext(ctx, "the server acknowledges nothing; trying again", "subject", m.Subject, "error", err)
		}
		if wait := c.Pause(ctx, b.Next(err)); wait != nil {
			return 0, errors.Join(wait, err)
		}
	}
}

// Send is Store for what gateways pass on. Where none is there, or none answers, m is
// left for the next one: then there is no sequence, and a conflict is with what was
// left before.
func (c *Link) Send(ctx context.Context, m *nats.Msg) (seq uint64, left bool, err error) {
	var b Backoff
	box := nats.NewMsg(subject.Left(m.Subject))
	box.Header, box.Data = m.Header, m.Data
	for {
		left = false
		seq, err := c.brief(ctx, m)
		if ctx.Err() == nil && (errors.Is(err, nats.ErrNoResponders) || errors.Is(err, context.DeadlineExceeded)) {
			// A server whose accounts are older takes nothing for later.
			if _, leftErr := c.Put(ctx, box); !errors.Is(leftErr, ErrForbidden) {
				seq, left, err = 0, true, leftErr
			}
		}
		var conflict *ConflictError
		if err == nil || Fatal(err) || errors.As(err, &conflict) {
			return seq, left, err
		}
		if wait := c.Pause(ctx, b.Next(err)); wait != nil {
			return 0, left, errors.Join(wait, err)
		}
	}
}

// brief is Put that leaves time for another way.
func (c *Link) brief(ctx context.Context, m *nats.Msg) (seq uint64, err error) {
	if until, ok := ctx.Deadline(); ok {
		once, cancel := context.WithTimeout(ctx, time.Until(until)/3)
		defer cancel()
		if seq, err = c.Put(once, m); ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		return seq, err
	}
	return c.Put(ctx, m)
}

// Leave is Send for a message that no gateway shall pass on now: it is there for the
// next one.
func (c *Link) Leave(ctx context.Context, m *nats.Msg) error {
	box := nats.NewMsg(subject.Left(m.Subject))
	box.Header, box.Data = m.Header, m.Data
	_, err := c.Put(ctx, box)
	return err
}

// SendOnce is Send unless something is under subj already.
func (c *Link) SendOnce(ctx context.Context, subj string, data []byte) error {
	m := first(ctx, subj, data)
	return c.once(ctx, func() error {
		_, _, err := c.Send(ctx, m)
		return err
	})
}

// Direct reads the newest message under subj once; ErrNotFound if there is
// none. What tells the two apart is the body: the records are never empty, and
// headers may have been stored by whoever wrote the message.
func (c *Link) Direct(ctx context.Context, stream, subj string) (*nats.Msg, error) {
	m, err := c.Try(ctx, nats.NewMsg(subject.Direct(stream, subj)))
	if err != nil {
		return nil, err
	}
	if len(m.Data) > 0 {
		return m, nil
	}
	if status := m.Header.Get("Status"); status != "404" {
		return nil, fmt.Errorf("%w: direct get: status %q", ErrUnavailable, status)
	}
	return nil, ErrNotFound
}

// Read is direct, repeated until the server has answered.
func (c *Link) Read(ctx context.Context, stream, subj string) (*nats.Msg, error) {
	var b Backoff
	for {
		m, err := c.Direct(ctx, stream, subj)
		if err == nil || errors.Is(err, ErrNotFound) || Fatal(err) {
			return m, err
		}
		if wait := c.Pause(ctx, b.Next(err)); wait != nil {
			return nil, errors.Join(wait, err)
		}
	}
}

// StoredAt is when the server stored a message that Direct returned.
func StoredAt(m *nats.Msg) (time.Time, error) {
	// A stored header of the same name comes first, the server's own last.
	all := m.Header.Values("Nats-Time-Stamp")
	if len(all) == 0 {
		return time.Time{}, fmt.Errorf("%w: direct get: the time is missing", ErrUnavailable)
	}
	at, err := time.Parse(time.RFC3339Nano, all[len(all)-1])
	if err != nil {
		return time.Time{}, fmt.Errorf("%w: direct get: %w", ErrUnavailable, err)
	}
	return at, nil
}

// Sequence is the stream sequence of a message that direct returned. Only for
// messages that this owner wrote itself.
func Sequence(m *nats.Msg) uint64 {
	// A stored header of the same name comes first, the server's own last.
	all := m.Header.Values("Nats-Sequence")
	if len(all) == 0 {
		return 0
	}
	seq, err := strconv.ParseUint(all[len(all)-1], 10, 64)
	if err != nil {
		return 0
	}
	return seq
}

// Expecting makes a message that is stored only if the newest one under its
// subject has the sequence last (0: there is none).
func Expecting(subj string, data []byte, last uint64) *nats.Msg {
	m := nats.NewMsg(subj)
	m.Data = data
	m.Header.Set("Nats-Expected-Last-Subject-Sequence", strconv.FormatUint(last, 10))
	return m
}

// first makes a message that is the first under its subject or none, in ctx's trace.
func first(ctx context.Context, subj string, data []byte) *nats.Msg {
	m := Expecting(subj, data, 0)
	trace.Of(ctx).Write(m.Header)
	return m
}

// Behind makes a message that is stored only if the newest one under all subjects
// that fit among has the sequence last.
func Behind(subj string, data []byte, last uint64, among string) *nats.Msg {
	m := Expecting(subj, data, last)
	m.Header.Set("Nats-Expected-Last-Subject-Sequence-Subject", among)
	return m
}

// Flush makes sure that the server knows our subscriptions.
func (c *Link) Flush(ctx context.Context) error {
	var b Backoff
	for {
		once, cancel := context.WithTimeout(ctx, TryTimeout)
		err := c.nc.FlushWithContext(once)
		cancel()
		if err == nil {
			return nil
		}
		if wait := c.Pause(ctx, b.Next(err)); wait != nil {
			return wait
		}
	}
}

// StoreOnce stores data under subj unless something is there already.
func (c *Link) StoreOnce(ctx context.Context, subj string, data []byte) error {
	m := first(ctx, subj, data)
	return c.once(ctx, func() error {
		_, err := c.Store(ctx, m)
		return err
	})
}

func (c *Link) once(ctx context.Context, store func() error) error {
	var b Backoff
	for {
		err := store()
		var conflict *ConflictError
		switch {
		case !errors.As(err, &conflict):
			return err
		case conflict.Code == CodeWrongLastSeq:
			return nil
		}
		// The store is full: that can pass.
		if wait := c.Pause(ctx, b.Next(err)); wait != nil {
			return errors.Join(wait, err)
		}
	}
}
