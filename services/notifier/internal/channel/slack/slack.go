// Package slack sends alerts to Slack: as a bot, whose messages can be changed,
// or through an incoming webhook, whose messages cannot.
//
// Everything an agent wrote goes into plain_text objects, which know no markup,
// and in the text for notifications the three characters are escaped that Slack
// makes links and mentions of. What is our own is the link alone.
//
//	https://docs.slack.dev/reference/methods/chat.postMessage
//	https://docs.slack.dev/reference/methods/chat.update
//	https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks
package slack

import (
	"cmp"
	"context"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"

	"github.com/banksman/banksman/services/notifier/internal/channel"
	"github.com/banksman/banksman/services/notifier/internal/channel/web"
	"github.com/banksman/banksman/services/notifier/internal/channel/words"
)

// DefaultURL is where the methods are; GovSlack has another place.
const DefaultURL = "https://slack.com/api"

// Slack's bounds, in characters.
const (
	maxHeader = 150
	maxField  = 2000
)

// message is what both ways send.
type message struct {
	Channel     string `json:"channel,omitempty"`
	TS          string `json:"ts,omitempty"`   // of the message to change
	User        string `json:"user,omitempty"` // who alone sees it
	Text        string `json:"text"`
	Blocks      []any  `json:"blocks,omitempty"`
	Mrkdwn      bool   `json:"mrkdwn"`
	UnfurlLinks bool   `json:"unfurl_links"`
	UnfurlMedia bool   `json:"unfurl_media"`
}

type object struct {
	Type  string `json:"type"`
	Text  string `json:"text"`
	Emoji *bool  `json:"emoji,omitempty"` // of plain_text only
}

type block struct {
	Type   string   `json:"type"`
	Text   *object  `json:"text,omitempty"`
	Fields []object `json:"fields,omitempty"`
}

func plain(s string) object { return object{Type: "plain_text", Text: s, Emoji: new(bool)} }

// escape keeps a text from being a link or a mention.
var escape = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace

// compose makes the message; marked is false for one of text alone.
func compose(a *channel.Alert, marked bool) message {
	w := words.Of(a)
	m := message{Text: escape(w.Head)}
	if !marked {
		m.Text = escape(w.Plain())
		return m
	}
	head := plain(w.Head)
	kind := "header"
	if len([]rune(w.Head)) > maxHeader {
		kind = "section"
	}
	m.Blocks = append(m.Blocks, block{Type: kind, Text: &head})
	if w.Quote != "" {
		quote := plain("In the agent's words: " + w.Quote)
		m.Blocks = append(m.Blocks, block{Type: "section", Text: &quote})
	}
	var fields []object
	for _, f := range w.Facts {
		fields = append(fields, plain(words.Cut(f.Name+": "+f.Value, maxField)))
	}
	if fields != nil {
		m.Blocks = append(m.Blocks, block{Type: "section", Fields: fields})
	}
	if w.Link != "" {
		link := object{Type: "mrkdwn", Text: "<" + strings.ReplaceAll(escape(w.Link), "|", "%7C") + "|" + w.Label + ">"}
		m.Blocks = append(m.Blocks, block{Type: "section", Text: &link})
	}
	m.Blocks = append(m.Blocks, buttons(a)...)
	return m
}

// markup are the refusals of blocks; the same as text may be taken.
func markup(code string) bool {
	switch code {
	case "invalid_blocks", "invalid_blocks_format", "msg_blocks_too_long", "block_mismatch":
		return true
	}
	return false
}

const asText = "taken as plain text, because Slack refused the blocks"

// Bot posts with a bot's token.
type Bot struct {
	url     string
	head    http.Header
	client  *web.Client
	private bool
	buttons Buttons
	state   atomic.Pointer[string] // of the socket
}

var _ channel.Updater = (*Bot)(nil)

// NewBot checks the options. url is empty for DefaultURL. The error, if any, is
// a *channel.FieldError.
func NewBot(token, url string, private bool, b Buttons) (*Bot, error) {
	url = cmp.Or(url, DefaultURL)
	if _, err := web.Check("url", url, private); err != nil {
		return nil, err
	}
	if token == "" {
		return nil, &channel.FieldError{Field: "token", Problem: "missing: a bot's token (xoxb-...)"}
	}
	if err := b.check(); err != nil {
		return nil, err
	}
	return &Bot{url: strings.TrimRight(url, "/"), head: http.Header{"Authorization": {"Bearer " + token}}, client: web.New(private), private: private, buttons: b}, nil
}

var conversation = regexp.MustCompile(`^(#?[a-z0-9][a-z0-9_.-]{0,79}|[A-Z][A-Z0-9]{4,30})$`)

// CheckTo says what is wrong with the place of a message; empty: nothing.
func CheckTo(to string) string {
	if !conversation.MatchString(to) {
		return "not the id of a conversation or of a person (C..., U...) or a channel's name"
	}
	return ""
}

// Close ends the connections that are kept for later.
func (b *Bot) Close() { b.client.Close() }

// Send posts a message.
func (b *Bot) Send(ctx context.Context, a channel.Alert) (channel.Receipt, error) {
	m := func(marked bool) message {
		m := compose(&a, marked)
		m.Channel = a.To
		return m
	}
	return b.try(ctx, "chat.postMessage", m)
}

// Update changes a message.
func (b *Bot) Update(ctx context.Context, r channel.Receipt, a channel.Alert) (channel.Receipt, error) {
	to, ts, _ := strings.Cut(r.Ref, " ")
	m := func(marked bool) message {
		m := compose(&a, marked)
		m.Channel, m.TS = to, ts
		if !marked {
			m.Blocks = []any{} // without them the old ones would stay
		}
		return m
	}
	return b.try(ctx, "chat.update", m)
}

// try calls a method, once more with text alone if the blocks are refused.
func (b *Bot) try(ctx context.Context, method string, compose func(marked bool) message) (channel.Receipt, error) {
	r, code, err := b.call(ctx, method, compose(true))
	if err != nil && markup(code) {
		if r, _, err = b.call(ctx, method, compose(false)); err == nil {
			r.Said = asText
		}
	}
	return r, err
}

// call calls a method. code is Slack's word for what went wrong.
func (b *Bot) call(ctx context.Context, method string, m message) (r channel.Receipt, code string, err error) {
	resp, err := b.client.JSON(ctx, http.MethodPost, b.url+"/"+method, b.head, m)
	if err != nil {
		return r, "", err
	}
	if p := resp.Problem(); p != nil {
		return r, "", p
	}
	var answer struct {
		OK                 bool
		Error, Channel, TS string
	}
	if !resp.Read(&answer) {
		return r, "", resp.Because(&channel.Problem{Unknown: true}, "no_answer_of_slack")
	}
	if answer.OK {
		return channel.Receipt{Ref: answer.Channel + " " + answer.TS, Said: "ok"}, "", nil
	}
	p := &channel.Problem{Class: channel.Refused, Text: "Slack refused it"}
	switch answer.Error {
	case "ratelimited", "rate_limited", "service_unavailable":
		p.Class = channel.Retry
	case "fatal_error", "internal_error", "request_timeout":
		p.Class, p.Unknown = channel.Retry, true
	case "is_archived", "account_inactive", "token_revoked":
		// Not channel_not_found or not_in_channel: inviting the bot mends them.
		p.Class = channel.Gone
	}
	return r, answer.Error, resp.Because(p, answer.Error)
}

// Hook posts through an incoming webhook.
type Hook struct {
	url    string
	client *web.Client
}

var _ channel.Channel = (*Hook)(nil)

// NewHook checks the address. The error, if any, is a *channel.FieldError.
func NewHook(url string, private bool) (*Hook, error) {
	if _, err := web.Check("url", url, private); err != nil {
		return nil, err
	}
	return &Hook{url, web.New(private)}, nil
}

// Close ends the connections that are kept for later.
func (h *Hook) Close() { h.client.Close() }

// Send posts a message, once more with text alone if the blocks are refused.
func (h *Hook) Send(ctx context.Context, a channel.Alert) (channel.Receipt, error) {
	code, err := h.post(ctx, compose(&a, true))
	if err != nil && markup(code) {
		if _, err = h.post(ctx, compose(&a, false)); err == nil {
			return channel.Receipt{Said: asText}, nil
		}
	}
	if err != nil {
		return channel.Receipt{}, err
	}
	return channel.Receipt{Said: "ok"}, nil
}

func (h *Hook) post(ctx context.Context, m message) (code string, err error) {
	resp, err := h.client.JSON(ctx, http.MethodPost, h.url, nil, m)
	if err != nil {
		return "", err
	}
	p := resp.Problem()
	if p == nil {
		return "", nil
	}
	code = web.Code(strings.TrimSpace(string(resp.Body)))
	if resp.Status == http.StatusNotFound && (code == "no_service" || code == "no_team") {
		p.Class = channel.Gone // the hook was taken away
	}
	return code, resp.Because(p, code)
}
