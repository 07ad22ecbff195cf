// Package opsgenie sends alerts to Opsgenie, or to the same API of Jira Service
// Management, which takes its place in April 2027. A request is one alert there,
// known by its alias; its end closes it.
//
//	https://docs.opsgenie.com/docs/alert-api
//	https://docs.opsgenie.com/docs/api-rate-limiting
package opsgenie

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"

	"github.com/banksman/banksman/services/notifier/internal/channel"
	"github.com/banksman/banksman/services/notifier/internal/channel/web"
	"github.com/banksman/banksman/services/notifier/internal/channel/words"
)

// DefaultURL is where the API is. Accounts in Europe have
// https://api.eu.opsgenie.com, Jira Service Management
// https://api.atlassian.com/jsm/ops/integration.
const DefaultURL = "https://api.opsgenie.com"

// maxMessage is Opsgenie's bound, in characters.
const maxMessage = 130

// Options describe an integration.
type Options struct {
	Key          string // of an integration "API"
	URL          string // empty: DefaultURL
	AllowPrivate bool
	Source       string // where alerts come from
}

// Channel is one integration.
type Channel struct {
	url, source string
	head        http.Header
	client      *web.Client
}

var _ channel.Resolver = (*Channel)(nil)

// New checks the options. The error, if any, is a *channel.FieldError.
func New(o Options) (*Channel, error) {
	o.URL = cmp.Or(o.URL, DefaultURL)
	if _, err := web.Check("url", o.URL, o.AllowPrivate); err != nil {
		return nil, err
	}
	if o.Key == "" {
		return nil, &channel.FieldError{Field: "token", Problem: "missing: the key of an API integration"}
	}
	return &Channel{
		url: strings.TrimRight(o.URL, "/") + "/v2/alerts", source: o.Source,
		head: http.Header{"Authorization": {"GenieKey " + o.Key}}, client: web.New(o.AllowPrivate),
	}, nil
}

// Close ends the connections that are kept for later.
func (c *Channel) Close() { c.client.Close() }

type alert struct {
	Message     string            `json:"message"`
	Alias       string            `json:"alias"`
	Description string            `json:"description"`
	Priority    string            `json:"priority"`
	Source      string            `json:"source"`
	Entity      string            `json:"entity,omitempty"`
	Details     map[string]string `json:"details,omitempty"`
}

type closing struct {
	Source string `json:"source"`
	Note   string `json:"note"`
}

// priorities by level.
var priorities = [...]string{"P5", "P4", "P3", "P2", "P1"}

// alias names the alert, in characters that a path can have. All digests to one
// recipient are one alert.
func alias(a *channel.Alert) string {
	if a.Type == channel.Digest {
		return digestAlias(a.Data.Recipient)
	}
	return aliasOf(a.Key)
}

func digestAlias(recipient string) string { return aliasOf("digest " + recipient) }

func aliasOf(key string) string {
	sum := sha256.Sum256([]byte("banksman\x00" + key))
	return "banksman-" + hex.EncodeToString(sum[:16])
}

// Send creates the alert, or closes it.
func (c *Channel) Send(ctx context.Context, a channel.Alert) (channel.Receipt, error) {
	if a.Type == channel.Closed {
		return c.Update(ctx, channel.Receipt{Ref: alias(&a)}, a)
	}
	w := words.Of(&a)
	return c.post(ctx, c.url, alias(&a), alert{
		Message: words.Cut(w.Head, maxMessage), Alias: alias(&a), Description: w.Plain(), Priority: priorities[words.Level(&a)],
		Source: c.source, Entity: a.Data.Project, Details: map[string]string{"link": w.Link},
	})
}

// Update closes the alert.
func (c *Channel) Update(ctx context.Context, r channel.Receipt, a channel.Alert) (channel.Receipt, error) {
	return c.post(ctx, c.url+"/"+r.Ref+"/close?identifierType=alias", r.Ref, closing{c.source, words.Of(&a).Plain()})
}

// Digest implements channel.Resolver.
func (c *Channel) Digest(recipient string) channel.Receipt {
	return channel.Receipt{Ref: digestAlias(recipient)}
}

func (c *Channel) post(ctx context.Context, address, ref string, body any) (channel.Receipt, error) {
	resp, err := c.client.JSON(ctx, http.MethodPost, address, c.head, body)
	if err != nil {
		return channel.Receipt{}, err
	}
	if p := resp.Problem(); p != nil {
		return channel.Receipt{}, p
	}
	return channel.Receipt{Ref: ref, Said: resp.Said() + ": the request is accepted"}, nil
}
