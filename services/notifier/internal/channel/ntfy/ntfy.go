// Package ntfy sends alerts to a topic of ntfy. A message has a sequence id, by
// which a later one takes its place; servers before 2.16 know none and show both.
//
//	https://docs.ntfy.sh/publish/#publish-as-json
//	https://docs.ntfy.sh/publish/#updating-deleting-notifications
package ntfy

import (
	"cmp"
	"context"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/banksman/banksman/services/notifier/internal/channel"
	"github.com/banksman/banksman/services/notifier/internal/channel/web"
	"github.com/banksman/banksman/services/notifier/internal/channel/words"
)

// DefaultURL is the public server.
const DefaultURL = "https://ntfy.sh"

// Channel publishes on one server.
type Channel struct {
	url    string
	head   http.Header
	client *web.Client
}

var _ channel.Updater = (*Channel)(nil)

// New checks the options. url is empty for DefaultURL, token where the topic may
// be written by anybody. The error, if any, is a *channel.FieldError.
func New(url, token string, private bool) (*Channel, error) {
	url = cmp.Or(url, DefaultURL)
	if _, err := web.Check("url", url, private); err != nil {
		return nil, err
	}
	c := &Channel{strings.TrimRight(url, "/") + "/", nil, web.New(private)}
	if token != "" {
		c.head = http.Header{"Authorization": {"Bearer " + token}}
	}
	return c, nil
}

var topics = regexp.MustCompile(`^[-_A-Za-z0-9]{1,64}$`)

// CheckTo says what is wrong with a topic; empty: nothing.
func CheckTo(to string) string {
	if !topics.MatchString(to) {
		return "not a topic of 1 to 64 letters, digits, - or _"
	}
	return ""
}

// Close ends the connections that are kept for later.
func (c *Channel) Close() { c.client.Close() }

type message struct {
	Topic    string   `json:"topic"`
	Sequence string   `json:"sequence_id"`
	Title    string   `json:"title"`
	Message  string   `json:"message"`
	Priority int      `json:"priority"` // 1 to 5
	Tags     []string `json:"tags,omitempty"`
	Click    string   `json:"click,omitempty"`
}

// Send publishes a message.
func (c *Channel) Send(ctx context.Context, a channel.Alert) (channel.Receipt, error) {
	return c.publish(ctx, &a, a.To, strings.ReplaceAll(a.ID, ".", "-"))
}

// Update publishes in the place of a message.
func (c *Channel) Update(ctx context.Context, r channel.Receipt, a channel.Alert) (channel.Receipt, error) {
	topic, sequence, _ := strings.Cut(r.Ref, " ")
	return c.publish(ctx, &a, topic, sequence)
}

func (c *Channel) publish(ctx context.Context, a *channel.Alert, topic, sequence string) (channel.Receipt, error) {
	w := words.Of(a)
	m := message{Topic: topic, Sequence: sequence, Title: w.Head, Message: cmp.Or(w.Body(), w.Head), Priority: words.Level(a) + 1, Click: w.Link}
	switch a.Type {
	case channel.Closed:
		m.Priority, m.Tags = 2, []string{"checkered_flag"}
	case channel.Opened, channel.Reminder, channel.Digest:
		m.Tags = []string{"raised_hand"}
	}
	resp, err := c.client.JSON(ctx, http.MethodPost, c.url, c.head, m)
	if err != nil {
		return channel.Receipt{}, err
	}
	var answer struct {
		ID       string
		Sequence string `json:"sequence_id"`
		Code     int    // of an error
	}
	known := resp.Read(&answer)
	if p := resp.Problem(); p != nil {
		if answer.Code != 0 {
			p = resp.Because(p, strconv.Itoa(answer.Code)) // a list of them is in ntfy's documentation
		}
		return channel.Receipt{}, p
	}
	if !known || answer.ID == "" {
		return channel.Receipt{}, resp.Because(&channel.Problem{Unknown: true}, "no_answer_of_ntfy")
	}
	r := channel.Receipt{Said: "ok"}
	if answer.Sequence == sequence { // an older server does not know it
		r.Ref = topic + " " + sequence
	}
	return r, nil
}
