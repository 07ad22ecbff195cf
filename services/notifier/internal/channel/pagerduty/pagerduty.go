// Package pagerduty sends alerts as events of PagerDuty. A request is one alert
// there, known by the request's key; its end resolves it.
//
//	https://developer.pagerduty.com/docs/send-alert-event
//	https://github.com/PagerDuty/developer-docs/blob/main/docs/events-API-v2/01-Overview.md
package pagerduty

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/banksman/banksman/services/notifier/internal/channel"
	"github.com/banksman/banksman/services/notifier/internal/channel/web"
	"github.com/banksman/banksman/services/notifier/internal/channel/words"
)

// DefaultURL is where events go; accounts in Europe have another place.
const DefaultURL = "https://events.pagerduty.com/v2/enqueue"

// Options describe an integration.
type Options struct {
	RoutingKey   string // of an integration "Events API v2"
	URL          string // empty: DefaultURL
	AllowPrivate bool
	Source       string // where events come from
}

// Channel is one integration.
type Channel struct {
	o      Options
	client *web.Client
}

var _ channel.Resolver = (*Channel)(nil)

// New checks the options. The error, if any, is a *channel.FieldError.
func New(o Options) (*Channel, error) {
	o.URL = cmp.Or(o.URL, DefaultURL)
	if _, err := web.Check("url", o.URL, o.AllowPrivate); err != nil {
		return nil, err
	}
	if o.RoutingKey == "" {
		return nil, &channel.FieldError{Field: "token", Problem: "missing: the integration key of an Events API v2 integration"}
	}
	return &Channel{o, web.New(o.AllowPrivate)}, nil
}

// Close ends the connections that are kept for later.
func (c *Channel) Close() { c.client.Close() }

type event struct {
	RoutingKey string   `json:"routing_key"`
	Action     string   `json:"event_action"`
	DedupKey   string   `json:"dedup_key"`
	Client     string   `json:"client,omitempty"`
	ClientURL  string   `json:"client_url,omitempty"`
	Links      []link   `json:"links,omitempty"`
	Payload    *payload `json:"payload,omitempty"`
}

type link struct {
	Href string `json:"href"`
	Text string `json:"text"`
}

type payload struct {
	Summary   string            `json:"summary"`
	Source    string            `json:"source"`
	Severity  string            `json:"severity"`
	Timestamp time.Time         `json:"timestamp"`
	Group     string            `json:"group,omitempty"`
	Class     string            `json:"class,omitempty"`
	Details   map[string]string `json:"custom_details,omitempty"`
}

// severities by level.
var severities = [...]string{"info", "info", "warning", "error", "critical"}

// key names the alert. All digests to one recipient are one alert.
func key(a *channel.Alert) string {
	if a.Type == channel.Digest {
		return digestKey(a.Data.Recipient)
	}
	return "banksman " + a.Key
}

func digestKey(recipient string) string { return "banksman digest " + recipient }

// compose makes the event.
func (c *Channel) compose(a *channel.Alert) event {
	w := words.Of(a)
	e := event{RoutingKey: c.o.RoutingKey, Action: "trigger", DedupKey: key(a), Client: "Banksman", ClientURL: w.Link}
	if a.Type == channel.Closed {
		e.Action = "resolve"
	}
	if w.Link != "" {
		e.Links = []link{{w.Link, w.Label}}
	}
	e.Payload = &payload{
		Summary: w.Head, Source: c.o.Source, Severity: severities[words.Level(a)], Timestamp: a.Time.UTC(),
		Group: a.Data.Project, Class: a.Data.Kind, Details: map[string]string{},
	}
	if w.Quote != "" {
		e.Payload.Details["In the agent's words"] = w.Quote
	}
	for _, f := range w.Facts {
		e.Payload.Details[f.Name] = f.Value
	}
	return e
}

// Send sends the event.
func (c *Channel) Send(ctx context.Context, a channel.Alert) (channel.Receipt, error) {
	return c.post(ctx, c.compose(&a))
}

// Update resolves the alert.
func (c *Channel) Update(ctx context.Context, r channel.Receipt, a channel.Alert) (channel.Receipt, error) {
	e := c.compose(&a)
	e.Action, e.DedupKey = "resolve", r.Ref
	return c.post(ctx, e)
}

// Digest implements channel.Resolver.
func (c *Channel) Digest(recipient string) channel.Receipt {
	return channel.Receipt{Ref: digestKey(recipient)}
}

func (c *Channel) post(ctx context.Context, e event) (channel.Receipt, error) {
	resp, err := c.client.JSON(ctx, http.MethodPost, c.o.URL, nil, e)
	if err != nil {
		return channel.Receipt{}, err
	}
	if p := resp.Problem(); p != nil {
		return channel.Receipt{}, p
	}
	return channel.Receipt{Ref: e.DedupKey, Said: resp.Said() + ": the event is accepted"}, nil
}
