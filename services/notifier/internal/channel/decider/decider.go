// Package decider asks a service before people are: it posts a request with all
// that it is about, and takes a decision from the reply to the gateway. Who decides
// then is the service, by a token of its own; the notifier has no right that it could
// lend.
//
// It fails towards people: an error, silence, a reply that cannot be read or that
// names another request decides nothing, and people are told as if nobody had been
// asked.
//
// A service is asked by signed HTTP, or over NATS in a caller's account of its own.
// What it gets and may answer is the same.
package decider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/trace"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/notifier/internal/channel"
	"github.com/banksman/banksman/services/notifier/internal/channel/webhook"
)

// Asked is the type of the event; its data are a Question.
const Asked = "banksman.interaction.ask"

// The answers of a service.
const (
	Allow = "allow"
	Deny  = "deny"
	Pass  = "pass" // not mine to decide: people are asked
)

// Question is what a service is asked.
type Question struct {
	// Interaction is the whole of it. Body.Input is the tool's input as JSON text, with
	// numbers as the agent wrote them.
	Interaction *wire.Interaction `json:"interaction"`
}

// Answer is the body of its reply, over HTTP with status 200. Status 202, over NATS an
// empty body, says that it decides later, by itself.
type Answer struct {
	Decision string `json:"decision"`
	// Digest is the interaction's, so that the answer is to what was asked.
	Digest string `json:"digest"`
	// Message is read by the agent, with a denial. Comment goes on the record only.
	Message string `json:"message,omitempty"`
	Comment string `json:"comment,omitempty"`
}

// Gateway is what a decider needs of one.
type Gateway interface {
	Get(ctx context.Context, id string) (*wire.Interaction, error)
	Decide(ctx context.Context, in wire.DecideCall) (*wire.Receipt, error)
}

// Bus makes one request of the bus.
type Bus func(ctx context.Context, m *nats.Msg) (*nats.Msg, error)

// Options describe a service.
type Options struct {
	// Options are of a service that is asked over HTTP; Source counts for all.
	webhook.Options
	// Subject is where a service is asked over NATS, by Bus.
	Subject string
	Bus     Bus
	// Token is the service's own at the gateway.
	Token string
	// Gateway is called for at each use.
	Gateway func() Gateway
	// Clock is the engine's.
	Clock func() time.Time
}

// Channel is one service.
type Channel struct {
	o    Options
	hook *webhook.Channel
}

var _ channel.Channel = (*Channel)(nil)

// New checks the options. The error, if any, is a *channel.FieldError.
func New(o Options) (*Channel, error) {
	if o.Token == "" {
		return nil, &channel.FieldError{Field: "token", Problem: "missing: the service decides by its own (banksman tokens create)"}
	}
	if o.Subject != "" {
		return &Channel{o, nil}, nil
	}
	hook, err := webhook.New(o.Options)
	if err != nil {
		return nil, err
	}
	return &Channel{o, hook}, nil
}

// Close ends the connections that are kept for later.
func (c *Channel) Close() {
	if c.hook != nil {
		c.hook.Close()
	}
}

// reply is what a service said, in whichever way.
type reply struct {
	said string // in words, where there is no answer
	none bool   // it decides later
	text bool   // the body is not said to be JSON
	body []byte
}

// post hands an event over and waits for the reply.
func (c *Channel) post(ctx context.Context, a channel.Alert, typ string, data any) (*reply, error) {
	if c.hook == nil {
		return c.request(ctx, a, typ, data)
	}
	resp, err := c.hook.Post(ctx, a, typ, data)
	if err != nil {
		return nil, err
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return &reply{
		said: resp.Said(), none: resp.Status == http.StatusAccepted || resp.Status == http.StatusNoContent,
		text: kind != "application/json", body: resp.Body,
	}, nil
}

func (c *Channel) request(ctx context.Context, a channel.Alert, typ string, data any) (*reply, error) {
	body, err := webhook.Event(c.o.Source, a, typ, data)
	if err != nil {
		return nil, err
	}
	head := nats.Header{}
	trace.Of(ctx).Write(head)
	head.Set("Content-Type", webhook.ContentType)
	m, err := c.o.Bus(ctx, &nats.Msg{Subject: c.o.Subject, Header: head, Data: body})
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return nil, &channel.Problem{Text: "nobody listens on " + c.o.Subject, Class: channel.Retry}
	case errors.Is(err, nats.ErrMaxPayload):
		return nil, people("the request is too large for the bus")
	case err != nil:
		return nil, &channel.Problem{Text: "no answer in time on " + c.o.Subject, Class: channel.Retry, Unknown: true}
	case m.Header.Get(micro.ErrorCodeHeader) != "" || m.Header.Get(micro.ErrorHeader) != "":
		return nil, people("the service says that it failed")
	}
	if len(m.Data) == 0 {
		return &reply{said: "an empty answer", none: true}, nil
	}
	return &reply{said: "an answer", body: m.Data}, nil
}

// read is the answer in a reply; false: there is none that can be read.
func (r *reply) read() (in Answer, ok bool) {
	ok = !r.text && hitl.CheckJSON(r.body) == nil && json.Unmarshal(r.body, &in) == nil
	return in, ok
}

// Send asks about a request that has opened; anything else is only told, and what is
// answered decides nothing.
func (c *Channel) Send(ctx context.Context, a channel.Alert) (channel.Receipt, error) {
	if a.Type != channel.Opened {
		r, err := c.post(ctx, a, a.Type, a.Data)
		if err != nil {
			return channel.Receipt{}, err
		}
		if in, ok := r.read(); ok && a.Type == channel.Test && slices.Contains([]string{Allow, Deny, Pass}, in.Decision) {
			r.said += "; it said " + in.Decision + ", which decides nothing here"
		}
		return channel.Receipt{Said: r.said}, nil
	}
	left := a.Until.Sub(c.o.Clock())
	if left <= 0 {
		return channel.Receipt{}, people("it gave no answer in time")
	}
	ctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	said, pass, err := c.ask(ctx, a)
	return channel.Receipt{Said: said, Pass: pass}, err
}

// people is a problem that leaves the request to people.
func people(format string, args ...any) error {
	return &channel.Problem{Text: fmt.Sprintf(format, args...) + "; people decide", Class: channel.Refused}
}

func (c *Channel) ask(ctx context.Context, a channel.Alert) (said string, pass bool, err error) {
	gw := c.o.Gateway()
	ix, err := gw.Get(ctx, a.Key)
	if err != nil {
		return "", false, &channel.Problem{Text: "the request could not be read at the gateway", Class: channel.Retry}
	}
	if ix.State != wire.StatePending {
		return "it was over first", false, nil
	}
	r, err := c.post(ctx, a, Asked, Question{Interaction: ix})
	if err != nil {
		return "", false, err
	}
	if r.none {
		return r.said + ": it decides later, or not", false, nil
	}
	in, ok := r.read()
	if !ok {
		return "", false, people("the answer is no JSON object")
	}
	switch in.Decision {
	case Pass:
		return "it leaves this to people", true, nil
	case Allow, Deny:
	default:
		return "", false, people("the answer is neither %s, %s nor %s", Allow, Deny, Pass)
	}
	if in.Digest != ix.Digest {
		return "", false, people("the answer names another request")
	}
	if !c.o.Clock().Before(a.Until) {
		return "", false, people("the answer came too late")
	}
	d := hitl.Response{Digest: in.Digest, Decision: in.Decision, Message: in.Message, Comment: in.Comment}
	if ix.Body != nil {
		d.Shown = ix.Body.Shown
	}
	rec, err := gw.Decide(ctx, wire.DecideCall{ID: a.Key, Token: c.o.Token, Response: d})
	if err != nil {
		// It may have been stored; deciding the same again is safe.
		return "", false, &channel.Problem{Text: "the decision could not be handed to the gateway", Class: channel.Retry}
	}
	switch rec.Status {
	case hitl.Accepted, hitl.Duplicate:
		return "it decided: " + in.Decision, false, nil
	case hitl.AlreadyDecided, hitl.TooLate:
		return "it was over first", false, nil
	case hitl.Unavailable:
		return "", false, &channel.Problem{Text: "the gateway could not store the decision", Class: channel.Retry}
	}
	return "", false, people("the gateway refused the answer (%s)", rec.Status)
}
