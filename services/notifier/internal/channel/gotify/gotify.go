// Package gotify sends alerts to a Gotify server. What is sent cannot be changed:
// that takes a client's token, which could read everything.
//
//	https://gotify.net/docs/pushmsg
//	https://gotify.net/docs/msgextras
package gotify

import (
	"cmp"
	"context"
	"net/http"
	"strings"

	"github.com/banksman/banksman/services/notifier/internal/channel"
	"github.com/banksman/banksman/services/notifier/internal/channel/web"
	"github.com/banksman/banksman/services/notifier/internal/channel/words"
)

// Channel sends as one application of a server.
type Channel struct {
	url    string
	head   http.Header
	client *web.Client
}

var _ channel.Channel = (*Channel)(nil)

// New checks the options. The error, if any, is a *channel.FieldError.
func New(url, token string, private bool) (*Channel, error) {
	if _, err := web.Check("url", url, private); err != nil {
		return nil, err
	}
	if token == "" {
		return nil, &channel.FieldError{Field: "token", Problem: "missing: an application's token"}
	}
	return &Channel{strings.TrimRight(url, "/") + "/message", http.Header{"X-Gotify-Key": {token}}, web.New(private)}, nil
}

// Close ends the connections that are kept for later.
func (c *Channel) Close() { c.client.Close() }

type message struct {
	Title    string         `json:"title"`
	Message  string         `json:"message"`
	Priority int            `json:"priority"` // 0 to 10; from 4 with a sound, from 8 insisting
	Extras   map[string]any `json:"extras"`
}

// priorities by level.
var priorities = [...]int{2, 4, 5, 8, 10}

// Send sends a message.
func (c *Channel) Send(ctx context.Context, a channel.Alert) (channel.Receipt, error) {
	w := words.Of(&a)
	m := message{Title: w.Head, Message: cmp.Or(w.Body(), w.Head), Priority: priorities[words.Level(&a)], Extras: map[string]any{
		"client::display": map[string]any{"contentType": "text/plain"},
	}}
	if w.Link != "" {
		m.Extras["client::notification"] = map[string]any{"click": map[string]any{"url": w.Link}}
	}
	resp, err := c.client.JSON(ctx, http.MethodPost, c.url, c.head, m)
	if err != nil {
		return channel.Receipt{}, err
	}
	if p := resp.Problem(); p != nil {
		return channel.Receipt{}, p
	}
	return channel.Receipt{Said: "ok"}, nil
}
