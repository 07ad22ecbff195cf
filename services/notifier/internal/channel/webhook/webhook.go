// Package webhook posts alerts to an endpoint: a CloudEvents 1.0 body in the
// structured JSON form, signed as Standard Webhooks describes.
//
// The connection goes only where the operator allowed it to, whatever the DNS
// says; redirects are not followed; no proxy is used.
package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/services/notifier/internal/channel"
)

const (
	// timeout bounds one attempt, from the name's resolution to the response.
	timeout = 10 * time.Second
	// maxResponse is what is read of a response, in bytes; nobody looks at it.
	maxResponse = 64 << 10
	// contentType is the structured form of CloudEvents.
	contentType = "application/cloudevents+json; charset=utf-8"
)

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
	url, shown string // shown is fit for logs
	source     string
	keys       [][]byte
	client     *http.Client
}

var _ channel.Channel = (*Channel)(nil)

// FieldError names what is wrong with an endpoint, without its value.
type FieldError struct{ Field, Problem string }

func (e *FieldError) Error() string { return e.Field + ": " + e.Problem }

// New checks the options. The error, if any, is a *FieldError.
func New(o Options) (*Channel, error) {
	u, err := url.Parse(o.URL)
	switch {
	case o.URL == "":
		return nil, &FieldError{"url", "missing"}
	case err != nil || u.Host == "" || u.Hostname() == "":
		return nil, &FieldError{"url", "not an address such as https://example.com/hook"}
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, &FieldError{"url", "must begin with https://"}
	case u.Scheme == "http" && !o.AllowPrivate:
		return nil, &FieldError{"url", "must begin with https:// unless allow_private is set"}
	case u.User != nil:
		return nil, &FieldError{"url", "must not contain a user or password"}
	case u.Fragment != "":
		return nil, &FieldError{"url", "must not contain a fragment"}
	case len(o.Secrets) == 0:
		return nil, &FieldError{"secrets", "missing: receivers could not tell our messages from others"}
	}
	c := &Channel{url: o.URL, shown: u.Scheme + "://" + u.Host, source: o.Source}
	for i, s := range o.Secrets {
		key, err := decodeSecret(s)
		if err != nil {
			return nil, &FieldError{fmt.Sprintf("secrets[%d]", i), err.Error()}
		}
		c.keys = append(c.keys, key)
	}
	dialer := &net.Dialer{Timeout: timeout, Control: guard(o.AllowPrivate)}
	c.client = &http.Client{
		Timeout: timeout,
		Transport: &http.Transport{
			DialContext: dialer.DialContext, ForceAttemptHTTP2: true,
			TLSHandshakeTimeout: timeout, MaxResponseHeaderBytes: maxResponse,
			MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c, nil
}

// Close ends the connections that are kept for later.
func (c *Channel) Close() { c.client.CloseIdleConnections() }

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
	SpecVersion     string       `json:"specversion"`
	ID              string       `json:"id"`
	Source          string       `json:"source"`
	Type            string       `json:"type"`
	Subject         string       `json:"subject"`
	Time            time.Time    `json:"time"`
	DataContentType string       `json:"datacontenttype"`
	Data            channel.Data `json:"data"`
}

// Send posts the alert once. The body and the id are the same at every
// attempt; the timestamp, and with it the signature, is the attempt's own.
func (c *Channel) Send(ctx context.Context, a channel.Alert) (channel.Receipt, error) {
	body, err := hitl.Marshal(event{
		SpecVersion: "1.0", ID: a.ID, Source: c.source, Type: a.Type, Subject: a.Key,
		Time: a.Time.UTC(), DataContentType: "application/json", Data: a.Data,
	})
	if err != nil {
		return channel.Receipt{}, &channel.Problem{Text: "the event cannot be encoded", Class: channel.Refused}
	}
	var written atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteHeaders: func() { written.Store(true) },
	})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return channel.Receipt{}, &channel.Problem{Text: "POST " + c.shown + ": the address cannot be used", Class: channel.Refused}
	}
	stamp := strconv.FormatInt(time.Now().Unix(), 10)
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("User-Agent", "Banksman")
	req.Header.Set("Webhook-Id", a.ID)
	req.Header.Set("Webhook-Timestamp", stamp)
	req.Header.Set("Webhook-Signature", c.sign(a.ID, stamp, body))
	resp, err := c.client.Do(req)
	if err != nil {
		// An address that is not allowed today may be corrected in the DNS
		// tomorrow; the deadline ends it.
		return channel.Receipt{}, &channel.Problem{Text: "POST " + c.shown + ": " + reason(err), Unknown: written.Load()}
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxResponse)) // the status has said it all
	return c.judge(resp)
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

func (c *Channel) judge(resp *http.Response) (channel.Receipt, error) {
	said := fmt.Sprintf("status %d", resp.StatusCode)
	p := &channel.Problem{Text: "POST " + c.shown + ": " + said, Class: channel.Refused}
	switch code := resp.StatusCode; {
	case code >= 200 && code <= 299:
		return channel.Receipt{Said: said}, nil
	case code == http.StatusGone:
		p.Class = channel.Gone
	case code == http.StatusTooManyRequests, code >= 500:
		p.Class = channel.Retry
		// A gateway that gave up waiting does not know what its backend did.
		p.Unknown = code == http.StatusBadGateway || code == http.StatusGatewayTimeout
		p.RetryAfter = retryAfter(resp.Header.Get("Retry-After"))
	case code >= 300 && code <= 399:
		p.Text += ": redirects are not followed"
	}
	return channel.Receipt{}, p
}

// retryAfter reads both forms of the header; what is neither counts as none.
func retryAfter(v string) time.Duration {
	if n, err := strconv.ParseUint(v, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(v); err == nil {
		return max(time.Until(at), 0)
	}
	return 0
}

// reason is what may be told of a transport error. The outer error names the
// whole URL, and the texts of inner ones may quote what the receiver sent.
func reason(err error) string {
	var dns *net.DNSError
	var op *net.OpError
	var ue *url.Error
	switch {
	case errors.Is(err, errAddress):
		if errors.As(err, &op) && op.Addr != nil {
			return op.Addr.String() + ": " + errAddress.Error() + " (allow_private admits private networks)"
		}
		return errAddress.Error()
	case errors.As(err, &ue) && ue.Timeout():
		return "no answer in time"
	case errors.As(err, &dns):
		return "the name cannot be resolved"
	case errors.As(err, &op) && op.Op == "dial":
		return op.Error()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection ended without a response"
	case strings.Contains(err.Error(), "tls: "), strings.Contains(err.Error(), "x509: "):
		return "TLS: the peer's certificate or handshake was not accepted"
	}
	return "the request failed"
}
