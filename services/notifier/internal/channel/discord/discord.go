// Package discord sends alerts through a webhook of a Discord channel and changes
// them. Texts of agents are escaped, and mention nobody.
//
//	https://docs.discord.com/developers/resources/webhook#execute-webhook
//	https://docs.discord.com/developers/resources/webhook#edit-webhook-message
//	https://docs.discord.com/developers/topics/rate-limits
//	https://docs.discord.com/developers/topics/opcodes-and-status-codes
package discord

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/banksman/banksman/services/notifier/internal/channel"
	"github.com/banksman/banksman/services/notifier/internal/channel/web"
	"github.com/banksman/banksman/services/notifier/internal/channel/words"
)

// Discord's bounds, in characters.
const (
	maxTitle   = 256
	maxContent = 2000
)

// Codes of Discord.
const (
	unknownWebhook = 10015
	invalidForm    = 50035
	invalidToken   = 50027
)

// Channel is one webhook.
type Channel struct {
	url    *url.URL
	client *web.Client
}

var _ channel.Updater = (*Channel)(nil)

// New checks the address. The error, if any, is a *channel.FieldError.
func New(address string, private bool) (*Channel, error) {
	u, err := web.Check("url", address, private)
	if err != nil {
		return nil, err
	}
	return &Channel{u, web.New(private)}, nil
}

// Close ends the connections that are kept for later.
func (c *Channel) Close() { c.client.Close() }

type message struct {
	Content  string   `json:"content"`
	Embeds   []embed  `json:"embeds"` // empty: an edit takes the old ones away
	Mentions mentions `json:"allowed_mentions"`
}

// mentions with an empty list admits none.
type mentions struct {
	Parse []string `json:"parse"`
}

type embed struct {
	Title       string `json:"title"`
	URL         string `json:"url,omitempty"`
	Description string `json:"description,omitempty"`
	Color       int    `json:"color"`
}

// colors by level: what is over is grey.
var colors = [...]int{0x80848e, 0x5865f2, 0x5865f2, 0xf0b232, 0xda373c}

// marks are the characters that Discord's markup is made of, and the colon of
// addresses, which would be links.
var marks = regexp.MustCompile("[\\\\*_~`|>#<\\[\\]()@:-]")

// escape makes a text of an agent text.
func escape(s string) string { return marks.ReplaceAllString(s, `\$0`) }

// compose makes the message; marked is false for one of text alone.
func compose(a *channel.Alert, marked bool) message {
	w := words.Of(a)
	m := message{Embeds: []embed{}, Mentions: mentions{Parse: []string{}}}
	if !marked {
		link := w.Link
		w.Link = ""
		m.Content = words.Cut(escape(w.Plain()), maxContent-len(link)-10)
		if link != "" {
			m.Content += "\n" + w.Label + ": <" + link + ">"
		}
		return m
	}
	var lines []string
	if w.Quote != "" {
		lines = append(lines, "In the agent's words: "+escape(w.Quote))
	}
	for _, f := range w.Facts {
		lines = append(lines, "**"+f.Name+"** "+escape(f.Value))
	}
	if w.Link != "" {
		lines = append(lines, "["+w.Label+"]("+strings.NewReplacer("(", "%28", ")", "%29", " ", "%20").Replace(w.Link)+")")
	}
	m.Embeds = append(m.Embeds, embed{
		Title: words.Cut(escape(w.Head), maxTitle), URL: w.Link, Description: strings.Join(lines, "\n"), Color: colors[words.Level(a)],
	})
	return m
}

// Send posts a message and waits until Discord has it.
func (c *Channel) Send(ctx context.Context, a channel.Alert) (channel.Receipt, error) {
	u := *c.url
	q := u.Query()
	q.Set("wait", "true")
	u.RawQuery = q.Encode()
	return c.try(ctx, http.MethodPost, u.String(), &a)
}

// Update changes a message.
func (c *Channel) Update(ctx context.Context, r channel.Receipt, a channel.Alert) (channel.Receipt, error) {
	return c.try(ctx, http.MethodPatch, c.url.JoinPath("messages", r.Ref).String(), &a)
}

// try calls once, and once more with text alone if the embed is refused.
func (c *Channel) try(ctx context.Context, method, address string, a *channel.Alert) (channel.Receipt, error) {
	r, code, err := c.call(ctx, method, address, compose(a, true))
	if err != nil && code == invalidForm {
		if r, _, err = c.call(ctx, method, address, compose(a, false)); err == nil {
			r.Said = "taken as plain text, because Discord refused the embed"
		}
	}
	return r, err
}

func (c *Channel) call(ctx context.Context, method, address string, m message) (r channel.Receipt, code int, err error) {
	resp, err := c.client.JSON(ctx, method, address, nil, m)
	if err != nil {
		return r, 0, err
	}
	var answer struct {
		ID         string
		Code       int     // of an error
		RetryAfter float64 `json:"retry_after"` // seconds
	}
	known := resp.Read(&answer)
	p := resp.Problem()
	switch {
	case p == nil && known && answer.ID != "":
		return channel.Receipt{Ref: answer.ID, Said: "ok"}, 0, nil
	case p == nil:
		return r, 0, resp.Because(&channel.Problem{Unknown: true}, "no_answer_of_discord")
	case answer.Code != 0:
		p = resp.Because(p, strconv.Itoa(answer.Code))
	}
	if answer.Code == unknownWebhook || answer.Code == invalidToken {
		p.Class = channel.Gone // the webhook was taken away
	}
	if s := answer.RetryAfter; p.Class == channel.Retry && s > 0 && s < 1e6 {
		p.RetryAfter = max(p.RetryAfter, time.Duration(s*float64(time.Second)))
	}
	return r, answer.Code, p
}
