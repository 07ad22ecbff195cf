package bus

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
)

// Streams that an owner reads from.
const (
	streamRequests    = "HITL_REQUESTS"
	streamDecisions   = "HITL_DECISIONS"
	streamTranscripts = "HITL_TRANSCRIPTS"
	streamWork        = "HITL_WORK"
)

// Error codes of the server's storage API.
const (
	codeWrongLastSeq = 10071 // a message is there already: a verdict
	codeStoreFailed  = 10077 // the same without an expectation, or the store is full
	codeTooLarge     = 10054 // larger than the stream takes
	codeSeqMismatch  = 10164 // no verdict: also hits a sole, correct writer of a replicated stream
)

// conflictError: the subject holds a message already.
type conflictError struct {
	code int
	text string
}

func (e *conflictError) Error() string { return e.text }

// last is the sequence of the message that is there, as the server's text for
// codeWrongLastSeq ends with it.
func (e *conflictError) last() (seq uint64, ok bool) {
	_, digits, ok := strings.Cut(e.text, "sequence: ")
	if !ok {
		return 0, false
	}
	seq, err := strconv.ParseUint(digits, 10, 64)
	return seq, err == nil
}

// storeError is another answer of the store than an acknowledgement.
type storeError struct {
	code int
	text string
}

func (e *storeError) Error() string { return fmt.Sprintf("%s (%d)", e.text, e.code) }

// fatal reports errors that another try cannot change.
func fatal(err error) bool {
	var tooLarge *TooLargeError
	return errors.Is(err, ErrForbidden) || errors.Is(err, ErrClosed) || errors.As(err, &tooLarge)
}

// try sends m once and returns the server's answer. Its error is ErrForbidden,
// ctx's cause, a *TooLargeError, or one that leaves open what happened.
func (c *Client) try(ctx context.Context, m *nats.Msg) (*nats.Msg, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	run, done := c.watchDenial(ctx, m.Subject)
	defer done()
	once, cancel := context.WithTimeout(run, tryTimeout)
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

// put publishes m into a stream once.
func (c *Client) put(ctx context.Context, m *nats.Msg) (seq uint64, err error) {
	reply, err := c.try(ctx, m)
	if err != nil {
		return 0, err
	}
	var ack struct {
		Stream string `json:"stream"`
		Seq    uint64 `json:"seq"`
		Error  *struct {
			Code int    `json:"err_code"`
			Text string `json:"description"`
		} `json:"error"`
	}
	if err := json.Unmarshal(reply.Data, &ack); err != nil {
		return 0, fmt.Errorf("%w: not an acknowledgement: %w", ErrUnavailable, err)
	}
	switch {
	case ack.Error == nil && ack.Stream != "" && ack.Seq > 0:
		return ack.Seq, nil
	case ack.Error == nil:
		return 0, fmt.Errorf("%w: not an acknowledgement", ErrUnavailable)
	case ack.Error.Code == codeWrongLastSeq || ack.Error.Code == codeStoreFailed:
		return 0, &conflictError{ack.Error.Code, ack.Error.Text}
	case ack.Error.Code == codeTooLarge:
		return 0, &TooLargeError{Size: len(m.Data), Limit: int(c.nc.MaxPayload())}
	}
	return 0, &storeError{ack.Error.Code, ack.Error.Text}
}

// backoff paces the tries of one call.
type backoff struct{ wait time.Duration }

// next returns how long to wait after err.
func (b *backoff) next(err error) time.Duration {
	var se *storeError
	if errors.As(err, &se) && se.code == codeSeqMismatch {
		return 2*time.Millisecond + rand.N(3*time.Millisecond)
	}
	b.wait = min(max(2*b.wait, 50*time.Millisecond), 2*time.Second)
	return b.wait/2 + rand.N(b.wait/2)
}

// store publishes m until it is acknowledged, ctx ends, or the error is final.
// A conflict is returned as *conflictError: with an expectation in m it may be
// an earlier try of this very call.
func (c *Client) store(ctx context.Context, m *nats.Msg) (seq uint64, err error) {
	var b backoff
	for {
		seq, err := c.put(ctx, m)
		var conflict *conflictError
		if err == nil || fatal(err) || errors.As(err, &conflict) {
			return seq, err
		}
		if wait := c.pause(ctx, b.next(err)); wait != nil {
			return 0, errors.Join(wait, err)
		}
	}
}

// direct reads the newest message under subj once; ErrNotFound if there is
// none. What tells the two apart is the body: the records are never empty, and
// headers may have been stored by whoever wrote the message.
func (c *Client) direct(ctx context.Context, stream, subj string) (*nats.Msg, error) {
	m, err := c.try(ctx, nats.NewMsg(subject.Direct(stream, subj)))
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

// read is direct, repeated until the server has answered.
func (c *Client) read(ctx context.Context, stream, subj string) (*nats.Msg, error) {
	var b backoff
	for {
		m, err := c.direct(ctx, stream, subj)
		if err == nil || errors.Is(err, ErrNotFound) || fatal(err) {
			return m, err
		}
		if wait := c.pause(ctx, b.next(err)); wait != nil {
			return nil, errors.Join(wait, err)
		}
	}
}

// sequence is the stream sequence of a message that direct returned. Only for
// messages that this owner wrote itself.
func sequence(m *nats.Msg) uint64 {
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

// expecting makes a message that is stored only if the newest one under its
// subject has the sequence last (0: there is none).
func expecting(subj string, data []byte, last uint64) *nats.Msg {
	m := nats.NewMsg(subj)
	m.Data = data
	m.Header.Set("Nats-Expected-Last-Subject-Sequence", strconv.FormatUint(last, 10))
	return m
}
