package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/banksman/banksman/pkg/journal/internal/pace"
	"github.com/banksman/banksman/pkg/journal/internal/pull"
	"github.com/banksman/banksman/pkg/trace"
)

// APIError is the server's refusal of a JetStream call or of a publish.
type APIError struct {
	Code        int    `json:"code"`
	ErrCode     int    `json:"err_code"`
	Description string `json:"description"`
}

func (e *APIError) Error() string {
	return fmt.Sprintf("journal: server error %d: %s", e.ErrCode, e.Description)
}

// Error codes of the server that mean something here.
const (
	codeTooLarge         = 10054 // the message exceeds the stream's limit
	codeDeleteFailed     = 10057
	codeConsumerNotFound = 10014
	codeNoMessage        = 10037
	codeSeqNotFound      = 10043
	codeStreamNotFound   = 10059
	codeWrongLast        = 10071 // a verdict: the subject has a message
	codeStoreFailed      = 10077 // the same by the per-subject limit; also a full stream
	codeNoResources      = 10023 // of the server or the account
	codeNoStorage        = 10047
	codeInFlight         = 10164 // not a verdict: another write is under way
	codeTooMany          = 10167 // nor is this: nothing was stored, too much waits to be
)

func apiCode(err error) int {
	var e *APIError
	if errors.As(err, &e) {
		return e.ErrCode
	}
	return 0
}

// transient reports whether a call that failed with err may succeed when it is
// made again: nothing is known of what it did.
func transient(err error) bool {
	var e *APIError
	if errors.As(err, &e) {
		return e.Code == 503 || soon(err)
	}
	for _, t := range []error{
		nats.ErrTimeout, nats.ErrNoResponders, nats.ErrReconnectBufExceeded, nats.ErrDisconnected,
		nats.ErrConnectionReconnecting, nats.ErrStaleConnection, nats.ErrNoServers,
		context.DeadlineExceeded,
	} {
		if errors.Is(err, t) {
			return true
		}
	}
	return false
}

// soon reports a refusal after which another attempt is made at once: there is room,
// or nobody else, in a moment.
func soon(err error) bool {
	code := apiCode(err)
	return code == codeInFlight || code == codeTooMany
}

// api calls the JetStream API of one connection.
type api struct {
	nc      *nats.Conn
	timeout time.Duration // of one attempt
}

// once makes one attempt. resp may be nil.
func (a api) once(ctx context.Context, subj string, req, resp any) error {
	var body []byte
	if req != nil {
		var err error
		if body, err = json.Marshal(req); err != nil {
			return fmt.Errorf("journal: encode %s: %w", subj, err)
		}
	}
	attempt, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	m, err := a.nc.RequestWithContext(attempt, "$JS.API."+subj, body)
	if err != nil {
		return fmt.Errorf("journal: %s: %w", subj, err)
	}
	var failed struct {
		Error *APIError `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &failed); err != nil {
		return fmt.Errorf("journal: decode the reply to %s: %w", subj, err)
	}
	if failed.Error != nil {
		return failed.Error
	}
	if resp == nil {
		return nil
	}
	if err := json.Unmarshal(m.Data, resp); err != nil {
		return fmt.Errorf("journal: decode the reply to %s: %w", subj, err)
	}
	return nil
}

// call repeats an idempotent call until the server has answered or ctx ends.
func (a api) call(ctx context.Context, subj string, req, resp any) error {
	var b pace.Backoff
	for {
		err := a.once(ctx, subj, req, resp)
		if err == nil || ctx.Err() == nil && !transient(err) {
			return err
		}
		if ctx.Err() != nil || !b.Sleep(ctx) {
			return fmt.Errorf("%w (last: %w)", ctx.Err(), err)
		}
	}
}

// publish stores a message and returns its sequence; one attempt.
func (a api) publish(ctx context.Context, stream, subj string, header nats.Header, data []byte) (uint64, error) {
	attempt, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	if header != nil {
		trace.Of(ctx).Write(header)
	}
	m, err := a.nc.RequestMsgWithContext(attempt, &nats.Msg{Subject: subj, Header: header, Data: data})
	if err != nil {
		return 0, fmt.Errorf("journal: publish: %w", err)
	}
	return readAck(m.Data, stream)
}

// readAck reads the server's answer to a publish into stream.
func readAck(answer []byte, stream string) (uint64, error) {
	var ack struct {
		Error  *APIError `json:"error"`
		Stream string    `json:"stream"`
		Seq    uint64    `json:"seq"`
	}
	if err := json.Unmarshal(answer, &ack); err != nil {
		return 0, fmt.Errorf("journal: decode the acknowledgement: %w", err)
	}
	if ack.Error != nil {
		return 0, ack.Error
	}
	if ack.Stream != stream || ack.Seq == 0 {
		return 0, fmt.Errorf("journal: stored in %q at %d, not in %s", ack.Stream, ack.Seq, stream)
	}
	return ack.Seq, nil
}

// stored is a message as STREAM.MSG.GET returns it: the metadata are the
// server's, whatever the headers say.
type stored struct {
	Subject string    `json:"subject"`
	Seq     uint64    `json:"seq"`
	Hdrs    []byte    `json:"hdrs"`
	Data    []byte    `json:"data"`
	Time    time.Time `json:"time"`
}

func (s *stored) message() *Message {
	header := pull.DecodeHeader(s.Hdrs)
	return &Message{Subject: s.Subject, Seq: s.Seq, Time: pull.Since(s.Subject, header, s.Time), Header: header, Data: s.Data}
}

type getRequest struct {
	Seq  uint64 `json:"seq,omitempty"`
	Last string `json:"last_by_subj,omitempty"`
	Next string `json:"next_by_subj,omitempty"`
}

// getOnce reads through the stream's leader; ErrNotFound if there is nothing.
func (a api) getOnce(ctx context.Context, stream string, req getRequest) (*stored, error) {
	return get(req, stream, func(r, resp any) error { return a.once(ctx, "STREAM.MSG.GET."+stream, r, resp) })
}

// get is getOnce until the server has answered.
func (a api) get(ctx context.Context, stream string, req getRequest) (*stored, error) {
	return get(req, stream, func(r, resp any) error { return a.call(ctx, "STREAM.MSG.GET."+stream, r, resp) })
}

func get(req getRequest, stream string, call func(req, resp any) error) (*stored, error) {
	var resp struct {
		Message *stored `json:"message"`
	}
	err := call(req, &resp)
	switch {
	case apiCode(err) == codeNoMessage:
		return nil, ErrNotFound
	case err != nil:
		return nil, err
	case resp.Message == nil:
		return nil, fmt.Errorf("journal: %s answered without a message", stream)
	}
	return resp.Message, nil
}

type streamInfo struct {
	Config  json.RawMessage `json:"config"`
	Created time.Time       `json:"created"`
	Now     time.Time       `json:"ts"`
	State   struct {
		First uint64 `json:"first_seq"`
		Last  uint64 `json:"last_seq"`
	} `json:"state"`
}

type consumerInfo struct {
	Name       string          `json:"name"`
	Config     json.RawMessage `json:"config"`
	NumPending uint64          `json:"num_pending"`
	NumWaiting int             `json:"num_waiting"` // readers that wait for the next message
	AckFloor   struct {
		Stream uint64 `json:"stream_seq"`
	} `json:"ack_floor"`
}
