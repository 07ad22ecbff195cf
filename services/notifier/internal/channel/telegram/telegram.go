// Package telegram sends alerts through a Telegram bot.
//
// Messages are text with entities, which say by position what is bold. So there
// is no markup language that a text could break out of, and what an agent wrote
// stands in code entities, in which Telegram makes no links and no mentions.
//
//	https://core.telegram.org/bots/api#sendmessage
//	https://core.telegram.org/bots/api#editmessagetext
//	https://core.telegram.org/bots/api#responseparameters
package telegram

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/banksman/banksman/services/notifier/internal/channel"
	"github.com/banksman/banksman/services/notifier/internal/channel/web"
	"github.com/banksman/banksman/services/notifier/internal/channel/words"
)

// DefaultURL is Telegram's own; people run servers of the Bot API, too.
const DefaultURL = "https://api.telegram.org"

// Channel sends as one bot.
type Channel struct {
	url    string // with the token
	client *web.Client
}

var _ channel.Updater = (*Channel)(nil)

var tokens = regexp.MustCompile(`^[0-9]{1,20}:[A-Za-z0-9_-]{10,100}$`)

// New checks the options. url is empty for DefaultURL. The error, if any, is a
// *channel.FieldError.
func New(token, url string, private bool) (*Channel, error) {
	url = cmp.Or(url, DefaultURL)
	if _, err := web.Check("url", url, private); err != nil {
		return nil, err
	}
	if !tokens.MatchString(token) {
		return nil, &channel.FieldError{Field: "token", Problem: "missing or not a bot's token: digits, a colon and more"}
	}
	return &Channel{strings.TrimRight(url, "/") + "/bot" + token, web.New(private)}, nil
}

var chats = regexp.MustCompile(`^(-?[0-9]{1,20}|@[A-Za-z0-9_]{4,32})$`)

// CheckTo says what is wrong with a chat; empty: nothing.
func CheckTo(to string) string {
	if !chats.MatchString(to) {
		return "not the id of a chat (digits, a group's begin with -) or a public channel's @name"
	}
	return ""
}

// Close ends the connections that are kept for later.
func (c *Channel) Close() { c.client.Close() }

type entity struct {
	Type   string `json:"type"`
	Offset int    `json:"offset"` // in UTF-16 units, as Length
	Length int    `json:"length"`
}

type message struct {
	Chat     string   `json:"chat_id"`
	ID       int64    `json:"message_id,omitempty"` // of the message to change
	Text     string   `json:"text"`
	Entities []entity `json:"entities,omitempty"`
	Preview  struct {
		Off bool `json:"is_disabled"`
	} `json:"link_preview_options"`
	Buttons *keyboard `json:"reply_markup,omitempty"`
}

// builder puts a text together and keeps where what stands.
type builder struct {
	text     strings.Builder
	at       int
	entities []entity
}

func (b *builder) add(kind, s string) {
	n := len(utf16.Encode([]rune(s)))
	if kind != "" && n > 0 {
		b.entities = append(b.entities, entity{kind, b.at, n})
	}
	b.text.WriteString(s)
	b.at += n
}

// compose makes the message; marked is false for one of text alone.
func compose(a *channel.Alert, marked bool) (m message) {
	w := words.Of(a)
	m.Preview.Off = true
	m.Buttons = buttons(a)
	asked := ""
	if a.Act != nil && a.Act.Allow {
		asked = a.Act.Text
	}
	if !marked {
		m.Text = w.Plain()
		if asked != "" {
			m.Text += "\nWhat is asked:\n" + asked
		}
		return m
	}
	var b builder
	head := "bold"
	if strings.ContainsAny(w.Head, "@#/.$") {
		head = "code" // or Telegram would make a link or a mention of it
	}
	b.add(head, w.Head)
	if w.Quote != "" {
		b.add("", "\nIn the agent's words: ")
		b.add("code", w.Quote)
	}
	for _, f := range w.Facts {
		b.add("", "\n"+f.Name+": ")
		b.add("code", f.Value)
	}
	if asked != "" {
		b.add("", "\nWhat is asked:\n")
		b.add("pre", asked)
	}
	if w.Link != "" {
		b.add("", "\n"+w.Label+": "+w.Link)
	}
	m.Text, m.Entities = b.text.String(), b.entities
	return m
}

// Send sends a message.
func (c *Channel) Send(ctx context.Context, a channel.Alert) (channel.Receipt, error) {
	return c.try(ctx, "sendMessage", &a, a.To, 0)
}

// Update changes a message.
func (c *Channel) Update(ctx context.Context, r channel.Receipt, a channel.Alert) (channel.Receipt, error) {
	chat, number, _ := strings.Cut(r.Ref, " ")
	id, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return channel.Receipt{}, &channel.Problem{Text: "the receipt names no message", Class: channel.Refused}
	}
	return c.try(ctx, "editMessageText", &a, chat, id)
}

// try calls a method, once more with text alone if the entities are refused.
func (c *Channel) try(ctx context.Context, method string, a *channel.Alert, chat string, id int64) (channel.Receipt, error) {
	var r channel.Receipt
	var err error
	for _, marked := range []bool{true, false} {
		m := compose(a, marked)
		m.Chat, m.ID = chat, id
		var refused bool
		if r, refused, err = c.call(ctx, method, m); err == nil && !marked {
			r.Said = "taken as plain text, because Telegram refused the entities"
		}
		if !refused {
			break
		}
	}
	return r, err
}

// call calls a method. markup says that the entities were refused.
func (c *Channel) call(ctx context.Context, method string, m message) (r channel.Receipt, markup bool, err error) {
	resp, err := c.client.JSON(ctx, http.MethodPost, c.url+"/"+method, nil, m)
	if err != nil {
		return r, false, err
	}
	var answer struct {
		OK          bool
		Description string
		Result      struct {
			ID   int64 `json:"message_id"`
			Chat struct{ ID int64 }
		}
		Parameters struct {
			RetryAfter int64 `json:"retry_after"` // seconds
			MigrateTo  int64 `json:"migrate_to_chat_id"`
		}
	}
	known := resp.Read(&answer)
	if known && answer.OK {
		return channel.Receipt{Ref: fmt.Sprintf("%d %d", answer.Result.Chat.ID, answer.Result.ID), Said: "ok"}, false, nil
	}
	p := resp.Problem()
	if p == nil {
		return r, false, resp.Because(&channel.Problem{Unknown: true}, "no_answer_of_telegram")
	}
	if s := answer.Parameters.RetryAfter; s > 0 {
		p.RetryAfter = time.Duration(s) * time.Second
	}
	said := strings.ToLower(answer.Description)
	for _, k := range descriptions {
		if !strings.Contains(said, k.part) {
			continue
		}
		if k.part == unchanged {
			return channel.Receipt{Ref: fmt.Sprintf("%s %d", m.Chat, m.ID), Said: "ok, it said so already"}, false, nil
		}
		p.Text += ": " + k.words
		if k.gone {
			p.Class = channel.Gone
		}
		if id := answer.Parameters.MigrateTo; id != 0 {
			p.Text += fmt.Sprintf(" %d", id)
		}
		return r, k.markup, p
	}
	return r, false, p
}

// unchanged: whoever was killed after an edit makes it again.
const unchanged = "message is not modified"

// descriptions are what Telegram says, as part of a sentence, and what follows.
// There are no codes for it. Other sentences are not repeated.
var descriptions = []struct {
	part, words  string
	gone, markup bool
}{
	{part: unchanged},
	{part: "chat not found", words: "chat not found; a person has to write to the bot first", gone: true},
	{part: "bot was blocked", words: "the person has blocked the bot", gone: true},
	{part: "user is deactivated", words: "the account is gone", gone: true},
	{part: "bot was kicked", words: "the bot was put out of the group", gone: true},
	{part: "group chat was upgraded", words: "the group has another id now:"},
	{part: "message to edit not found", words: "the message was deleted"},
	{part: "can't be edited", words: "the message cannot be changed any more"},
	{part: "entit", words: "the entities were refused", markup: true},
}
