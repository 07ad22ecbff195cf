package bus

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/trace"
	"github.com/banksman/banksman/pkg/wire"
)

// callTimeout bounds a service call whose context has no deadline.
const callTimeout = 30 * time.Second

// Headers of an error that the gateway's service framework reports itself.
const (
	headerServiceError     = "Nats-Service-Error"
	headerServiceErrorCode = "Nats-Service-Error-Code"
)

// Call calls a verb of the service API: in is sent as JSON, the reply decoded
// into out (nil drops it). A refusal is a *ServiceError; ErrUnavailable means
// that nothing is known about what became of the call, ErrForbidden that this
// identity is no caller. It sends once.
func (c *Client) Call(ctx context.Context, verb string, in, out any) error {
	data, err := hitl.Marshal(in)
	if err != nil {
		return fmt.Errorf("bus: %s: %w", verb, err)
	}
	if !c.link.Begin() {
		return ErrClosed
	}
	defer c.link.End()
	ctx, cancel := c.link.Bound(ctx)
	defer cancel(nil)
	if _, ok := ctx.Deadline(); !ok {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, callTimeout)
		defer stop()
	}
	m := nats.NewMsg(subject.Service(c.cred.Tenant, c.cred.Name, verb))
	m.Data = data
	trace.Of(ctx).Write(m.Header)
	run, done := c.link.WatchDenial(ctx, m.Subject)
	defer done()
	reply, err := c.link.Conn().RequestMsgWithContext(run, m)
	switch {
	case errors.Is(err, nats.ErrMaxPayload):
		return &TooLargeError{Size: len(data), Limit: int(c.link.Conn().MaxPayload())}
	case errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf("%s: %w: no gateway is there", verb, ErrUnavailable)
	case err != nil && run.Err() != nil:
		if cause := context.Cause(run); !errors.Is(cause, context.DeadlineExceeded) {
			return fmt.Errorf("%s: %w", verb, cause)
		}
		return fmt.Errorf("%s: %w: %w", verb, ErrUnavailable, context.DeadlineExceeded)
	case err != nil:
		return fmt.Errorf("%s: %w: %w", verb, ErrUnavailable, err)
	}
	return decodeReply(verb, reply, out)
}

func decodeReply(verb string, m *nats.Msg, out any) error {
	// A receipt has an error too, but as text.
	var probe struct {
		Error json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &probe); err == nil && bytes.HasPrefix(probe.Error, []byte("{")) {
		var body wire.ErrorReply
		if err := json.Unmarshal(m.Data, &body); err == nil {
			return &ServiceError{Verb: verb, Body: body.Error}
		}
	}
	if code := m.Header.Get(headerServiceErrorCode); code != "" {
		return &ServiceError{Verb: verb, Body: wire.Error{Code: code, Error: m.Header.Get(headerServiceError)}}
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(m.Data, out); err != nil {
		return fmt.Errorf("bus: reply to %s: %w", verb, err)
	}
	return nil
}

// Decide decides an interaction for the caller, or for the person whose token
// the call carries. The receipt says what became of it, refusals included; the
// error is for a call that got none.
func (c *Client) Decide(ctx context.Context, in wire.DecideCall) (*wire.Receipt, error) {
	return c.receipt(ctx, wire.VerbDecide, in)
}

// Cancel withdraws an interaction of the caller's own, by id or key.
func (c *Client) Cancel(ctx context.Context, id string) (*wire.Receipt, error) {
	return c.receipt(ctx, wire.VerbCancel, wire.GetCall{ID: id})
}

func (c *Client) receipt(ctx context.Context, verb string, in any) (*wire.Receipt, error) {
	var out wire.Receipt
	err := c.Call(ctx, verb, in, &out)
	var refused *ServiceError
	if errors.As(err, &refused) {
		// A refusal whose code is the word of a receipt is one.
		switch status := hitl.Status(refused.Body.Code); status {
		case hitl.AlreadyDecided, hitl.TooLate, hitl.NotFound, hitl.BadInput, hitl.Forbidden, hitl.DigestMismatch, hitl.Unavailable:
			out.Receipt = hitl.Receipt{
				Status: status, Error: refused.Body.Error,
				Fields: refused.Body.Fields, Decision: refused.Body.Decision,
			}
			return &out, nil
		}
	}
	if err != nil {
		return nil, err
	}
	if out.Status == "" {
		return nil, fmt.Errorf("bus: reply to %s: status is missing", verb)
	}
	return &out, nil
}

// List lists what the caller may see, at most 1,000.
func (c *Client) List(ctx context.Context, in wire.ListCall) ([]wire.Interaction, error) {
	var out wire.ListReply
	if err := c.Call(ctx, wire.VerbList, in, &out); err != nil {
		return nil, err
	}
	return out.Interactions, nil
}

// Get reads one interaction, by id or key.
func (c *Client) Get(ctx context.Context, id string) (*wire.Interaction, error) {
	var out wire.Interaction
	if err := c.Call(ctx, wire.VerbGet, wire.GetCall{ID: id}, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// Export reads a decision as it stands in the record, for the person whose token
// the call carries.
func (c *Client) Export(ctx context.Context, in wire.ExportCall) (*wire.Evidence, error) {
	var out wire.Evidence
	if err := c.Call(ctx, wire.VerbExport, in, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// Login asks for a login link, or goes through a CLI login.
func (c *Client) Login(ctx context.Context, in wire.LoginCall) (*wire.LoginReply, error) {
	var out wire.LoginReply
	if err := c.Call(ctx, wire.VerbLogin, in, &out); err != nil {
		return nil, err
	}
	return &out, nil
}
