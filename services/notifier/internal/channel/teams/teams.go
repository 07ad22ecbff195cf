// Package teams sends alerts to Microsoft Teams through a workflow's webhook, as
// an Adaptive Card with a link. A workflow answers before it has posted, so no
// more is known than that it has begun, and nothing can be changed afterwards.
//
// Texts stand in text runs, which know no markup, unlike text blocks and facts.
//
//	https://learn.microsoft.com/microsoftteams/platform/webhooks-and-connectors/how-to/add-incoming-webhook
//	https://adaptivecards.io/explorer/RichTextBlock.html
package teams

import (
	"context"
	"net/http"

	"github.com/banksman/banksman/services/notifier/internal/channel"
	"github.com/banksman/banksman/services/notifier/internal/channel/web"
	"github.com/banksman/banksman/services/notifier/internal/channel/words"
)

// Channel is one workflow.
type Channel struct {
	url    string
	client *web.Client
}

var _ channel.Channel = (*Channel)(nil)

// New checks the address. The error, if any, is a *channel.FieldError.
func New(url string, private bool) (*Channel, error) {
	if _, err := web.Check("url", url, private); err != nil {
		return nil, err
	}
	return &Channel{url, web.New(private)}, nil
}

// Close ends the connections that are kept for later.
func (c *Channel) Close() { c.client.Close() }

type message struct {
	Type        string       `json:"type"`
	Attachments []attachment `json:"attachments"`
}

type attachment struct {
	ContentType string `json:"contentType"`
	Content     card   `json:"content"`
}

type card struct {
	Schema  string   `json:"$schema"`
	Type    string   `json:"type"`
	Version string   `json:"version"`
	Body    []text   `json:"body"`
	Actions []action `json:"actions,omitempty"`
}

type text struct {
	Type    string `json:"type"`
	Inlines []run  `json:"inlines"`
}

type run struct {
	Type   string `json:"type"`
	Text   string `json:"text"`
	Weight string `json:"weight,omitempty"`
	Size   string `json:"size,omitempty"`
	Subtle bool   `json:"isSubtle,omitempty"`
}

type action struct {
	Type  string `json:"type"`
	Title string `json:"title"`
	URL   string `json:"url"`
}

func line(runs ...run) text {
	for i := range runs {
		runs[i].Type = "TextRun"
	}
	return text{"RichTextBlock", runs}
}

// compose makes the message.
func compose(a *channel.Alert) message {
	w := words.Of(a)
	c := card{Schema: "http://adaptivecards.io/schemas/adaptive-card.json", Type: "AdaptiveCard", Version: "1.4"}
	c.Body = append(c.Body, line(run{Text: w.Head, Weight: "Bolder", Size: "Medium"}))
	if w.Quote != "" {
		c.Body = append(c.Body, line(run{Text: "In the agent's words: ", Subtle: true}, run{Text: w.Quote}))
	}
	for _, f := range w.Facts {
		c.Body = append(c.Body, line(run{Text: f.Name + ": ", Subtle: true}, run{Text: f.Value}))
	}
	if w.Link != "" {
		c.Actions = append(c.Actions, action{"Action.OpenUrl", w.Label, w.Link})
	}
	return message{"message", []attachment{{"application/vnd.microsoft.card.adaptive", c}}}
}

// Send begins the workflow.
func (c *Channel) Send(ctx context.Context, a channel.Alert) (channel.Receipt, error) {
	resp, err := c.client.JSON(ctx, http.MethodPost, c.url, nil, compose(&a))
	if err != nil {
		return channel.Receipt{}, err
	}
	p := resp.Problem()
	if p == nil {
		return channel.Receipt{Said: resp.Said() + ": the workflow has begun"}, nil
	}
	var answer struct{ Error struct{ Code string } }
	if resp.Read(&answer) {
		p = resp.Because(p, answer.Error.Code)
	}
	return channel.Receipt{}, p
}
