// Package webhook posts alerts to an endpoint: a CloudEvents 1.0 body in the
// structured JSON form, signed as Standard Webhooks describes. Package web says
// where connections may go.
package webhook

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/trace"
	"github.com/banksman/banksman/services/notifier/internal/channel"
	"github.com/banksman/banksman/services/notifier/internal/channel/web"
)

// ContentType is the structured form of CloudEvents.
const ContentType = "application/cloudevents+json; charset=utf-8"

// Secret prefixes and sizes, as Standard Webhooks wants them.
const (
	secretPrefix = "whsec_"
	minSecret    = 24 // bytes
	maxSecret    = 64
)

// Options describe one endpoint.
type Options struct {
	URL string
	// Secrets sign; more than one while the receiver changes over.
	Secrets []string
	// AllowPrivate admits plain HTTP, loopback, private and link-local addresses.
	AllowPrivate bool
	// Source is the source attribute of every event.
	Source string
}

// Channel is one endpoint.
type Channel struct {
	url, source string
	keys        [][]byte
	client      *web.Client
}

var _ channel.Channel = (*Channel)(nil)

// FieldError names what is wrong with an endpoint, without its value.
type FieldError = channel.FieldError

// New checks the options. The error, if any, is a *FieldError.
func New(o Options) (*Channel, error) {
	if _, err := web.Check("url", o.URL, o.AllowPrivate); err != nil {
		return nil, err
	}
	if len(o.Secrets) == 0 {
		return nil, &FieldError{Field: "secrets", Problem: "missing: receivers could not tell our messages from others"}
	}
	c := &Channel{url: o.URL, source: o.Source, client: web.New(o.AllowPrivate)}
	for i, s := range o.Secrets {
		key, err := decodeSecret(s)
		if err != nil {
			return nil, &FieldError{Field: fmt.Sprintf("secrets[%d]", i), Problem: err.Error()}
		}
		c.keys = append(c.keys, key)
	}
	return c, nil
}

// Close ends the connections that are kept for later.
func (c *Channel) Close() { c.client.Close() }

func decodeSecret(s string) ([]byte, error) {
	text, ok := strings.CutPrefix(s, secretPrefix)
	if !ok {
		return nil, errors.New("must begin with " + secretPrefix)
	}
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		// The decoder's error names a position only, but no more is needed.
		return nil, errors.New("is not standard base64 after " + secretPrefix)
	}
	if len(key) < minSecret || len(key) > maxSecret {
		return nil, fmt.Errorf("is %d bytes long, want %d to %d", len(key), minSecret, maxSecret)
	}
	return key, nil
}

// event is the CloudEvents envelope.
type event struct {
	SpecVersion     string    `json:"specversion"`
	ID              string    `json:"id"`
	Source          string    `json:"source"`
	Type            string    `json:"type"`
	Subject         string    `json:"subject"`
	Time            time.Time `json:"time"`
	DataContentType string    `json:"datacontenttype"`
	Data            any       `json:"data"`
}

// Event is the body of an alert, of a type and with data. The error is a
// *channel.Problem.
func Event(source string, a channel.Alert, typ string, data any) ([]byte, error) {
	body, err := hitl.Marshal(event{
		SpecVersion: "1.0", ID: a.ID, Source: source, Type: typ, Subject: a.Key,
		Time: a.Time.UTC(), DataContentType: "application/json", Data: data,
	})
	if err != nil {
		return nil, &channel.Problem{Text: "the event cannot be encoded", Class: channel.Refused}
	}
	return body, nil
}

// Send posts the alert once. The body and the id are the same at every
// attempt; the timestamp, and with it the signature, is the attempt's own.
func (c *Channel) Send(ctx context.Context, a channel.Alert) (channel.Receipt, error) {
	resp, err := c.Post(ctx, a, a.Type, a.Data)
	if err != nil {
		return channel.Receipt{}, err
	}
	return channel.Receipt{Said: resp.Said()}, nil
}

// Post is Send with another type and other data. The response is a success.
func (c *Channel) Post(ctx context.Context, a channel.Alert, typ string, data any) (*web.Response, error) {
	body, err := Event(c.source, a, typ, data)
	if err != nil {
		return nil, err
	}
	stamp := strconv.FormatInt(time.Now().Unix(), 10)
	head := http.Header{}
	head.Set("Content-Type", ContentType)
	trace.Of(ctx).Write(head)
	head.Set("Webhook-Id", a.ID)
	head.Set("Webhook-Timestamp", stamp)
	head.Set("Webhook-Signature", c.sign(a.ID, stamp, body))
	resp, err := c.client.Call(ctx, http.MethodPost, c.url, head, body)
	if err != nil {
		return nil, err
	}
	if p := resp.Problem(); p != nil {
		return nil, p
	}
	return resp, nil
}

func (c *Channel) sign(id, stamp string, body []byte) string {
	signed := make([]string, len(c.keys))
	for i, key := range c.keys {
		mac := hmac.New(sha256.New, key)
		_, _ = mac.Write([]byte(id + "." + stamp + ".")) // never fails
		_, _ = mac.Write(body)
		signed[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	return strings.Join(signed, " ")
}
