// Package decider asks a service before people are: it posts a request with all
// that it is about, and takes a decision from the reply to the gateway. Who decides
// then is the service, by a token of its own; the notifier has no right that it could
// lend.
//
// It fails towards people: an error, silence, a reply that cannot be read or that
// names another request decides nothing, and people are told as if nobody had been
// asked.
package decider

import (
	"context"
	"encoding/json"
	"fmt"
	"mime"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
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

// Answer is the body of its reply, status 200. 202 says that it decides later, by
// itself.
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

// Options describe a service.
type Options struct {
	webhook.Options
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
	hook, err := webhook.New(o.Options)
	if err != nil {
		return nil, err
	}
	return &Channel{o, hook}, nil
}

// Close ends the connections that are kept for later.
func (c *Channel) Close() { c.hook.Close() }

// Send asks about a request that has opened; anything else is only told.
func (c *Channel) Send(ctx context.Context, a channel.Alert) (channel.Receipt, error) {
	if a.Type != channel.Opened {
		return c.hook.Send(ctx, a)
	}
	left := a.Until.Sub(c.o.Clock())
	if left <= 0 {
		return channel.Receipt{}, people("it gave no answer in time")
	}
	ctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	said, err := c.ask(ctx, a)
	return channel.Receipt{Said: said}, err
}

// people is a problem that leaves the request to people.
func people(format string, args ...any) error {
	return &channel.Problem{Text: fmt.Sprintf(format, args...) + "; people decide", Class: channel.Refused}
}

func (c *Channel) ask(ctx context.Context, a channel.Alert) (said string, err error) {
	gw := c.o.Gateway()
	ix, err := gw.Get(ctx, a.Key)
	if err != nil {
		return "", &channel.Problem{Text: "the request could not be read at the gateway", Class: channel.Retry}
	}
	if ix.State != wire.StatePending {
		return "it was over first", nil
	}
	resp, err := c.hook.Post(ctx, a, Asked, Question{Interaction: ix})
	if err != nil {
		return "", err
	}
	if resp.Status == 202 || resp.Status == 204 {
		return resp.Said() + ": it decides later, or not", nil
	}
	var in Answer
	typ, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if typ != "application/json" || hitl.CheckJSON(resp.Body) != nil || json.Unmarshal(resp.Body, &in) != nil {
		return "", people("the answer is no JSON object")
	}
	switch in.Decision {
	case Pass:
		return "it leaves this to people", nil
	case Allow, Deny:
	default:
		return "", people("the answer is neither %s, %s nor %s", Allow, Deny, Pass)
	}
	if in.Digest != ix.Digest {
		return "", people("the answer names another request")
	}
	if !c.o.Clock().Before(a.Until) {
		return "", people("the answer came too late")
	}
	d := hitl.Response{Digest: in.Digest, Decision: in.Decision, Message: in.Message, Comment: in.Comment}
	if ix.Body != nil {
		d.Shown = ix.Body.Shown
	}
	rec, err := gw.Decide(ctx, wire.DecideCall{ID: a.Key, Token: c.o.Token, Response: d})
	if err != nil {
		// It may have been stored; deciding the same again is safe.
		return "", &channel.Problem{Text: "the decision could not be handed to the gateway", Class: channel.Retry}
	}
	switch rec.Status {
	case hitl.Accepted, hitl.Duplicate:
		return "it decided: " + in.Decision, nil
	case hitl.AlreadyDecided, hitl.TooLate:
		return "it was over first", nil
	case hitl.Unavailable:
		return "", &channel.Problem{Text: "the gateway could not store the decision", Class: channel.Retry}
	}
	return "", people("the gateway refused the answer (%s)", rec.Status)
}
