// Package web calls providers over HTTP. A connection goes only where the
// operator allowed it to, whatever the DNS says; redirects are not followed; no
// proxy is used; a response is read up to a bound. No error names more of an
// address than its host.
package web

import (
	"bytes"
	"context"
	"encoding/json"
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
	// Timeout bounds one call, from the name's resolution to the response.
	Timeout = 10 * time.Second
	// MaxResponse is what is read of a response, in bytes.
	MaxResponse = 64 << 10
)

// Check reads an address of a configuration. The error names the field, and
// nothing of the address.
func Check(field, address string, private bool) (*url.URL, *channel.FieldError) {
	fail := func(problem string) (*url.URL, *channel.FieldError) {
		return nil, &channel.FieldError{Field: field, Problem: problem}
	}
	u, err := url.Parse(address)
	switch {
	case address == "":
		return fail("missing")
	case err != nil || u.Host == "" || u.Hostname() == "":
		return fail("not an address such as https://example.com/hook")
	case u.Scheme != "https" && u.Scheme != "http":
		return fail("must begin with https://")
	case u.Scheme == "http" && !private:
		return fail("must begin with https:// unless allow_private is set")
	case u.User != nil:
		return fail("must not contain a user or password")
	case u.Fragment != "":
		return fail("must not contain a fragment")
	}
	return u, nil
}

// Client is safe for concurrent use.
type Client struct{ *http.Client }

// New makes a client. private admits the machine itself and private networks.
func New(private bool) *Client {
	return &Client{&http.Client{
		Timeout: Timeout,
		Transport: &http.Transport{
			DialContext: Dialer(private).DialContext, ForceAttemptHTTP2: true,
			TLSHandshakeTimeout: Timeout, MaxResponseHeaderBytes: MaxResponse,
			MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Dialer connects only to where it is allowed; Reason words its errors.
func Dialer(private bool) *net.Dialer {
	return &net.Dialer{Timeout: Timeout, Control: guard(private)}
}

// Close ends the connections that are kept for later.
func (c *Client) Close() { c.CloseIdleConnections() }

// Response is what a provider answered.
type Response struct {
	Status int
	Header http.Header
	Body   []byte // at most MaxResponse

	call string // method and host, for errors
}

// Call makes one request. The error is a *channel.Problem; a response of any
// status is none.
func (c *Client) Call(ctx context.Context, method, address string, head http.Header, body []byte) (*Response, error) {
	var written atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { written.Store(true) }})
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return nil, &channel.Problem{Text: method + ": the address cannot be used", Class: channel.Refused}
	}
	call := method + " " + req.URL.Scheme + "://" + req.URL.Host
	for k, v := range head {
		req.Header[k] = v
	}
	req.Header.Set("User-Agent", "Banksman")
	resp, err := c.Do(req)
	if err != nil {
		// An address that is not allowed today may be corrected in the DNS
		// tomorrow; the deadline ends it.
		return nil, &channel.Problem{Text: call + ": " + Reason(err), Unknown: written.Load()}
	}
	defer func() { _ = resp.Body.Close() }()
	r := &Response{Status: resp.StatusCode, Header: resp.Header, call: call}
	// A body that breaks off leaves the status, which has said the most of it.
	r.Body, _ = io.ReadAll(io.LimitReader(resp.Body, MaxResponse))
	return r, nil
}

// JSON makes one request with in as its body.
func (c *Client) JSON(ctx context.Context, method, address string, head http.Header, in any) (*Response, error) {
	body, err := hitl.Marshal(in)
	if err != nil {
		return nil, &channel.Problem{Text: "the message cannot be encoded", Class: channel.Refused}
	}
	head = head.Clone()
	if head == nil {
		head = http.Header{}
	}
	head.Set("Content-Type", "application/json; charset=utf-8")
	return c.Call(ctx, method, address, head, body)
}

// Read decodes the body into out and reports whether that was possible.
func (r *Response) Read(out any) bool { return json.Unmarshal(r.Body, out) == nil }

// Said is the status in words.
func (r *Response) Said() string { return fmt.Sprintf("status %d", r.Status) }

// Problem is what follows from the status alone; nil: it is a success.
func (r *Response) Problem() *channel.Problem {
	p := &channel.Problem{Text: r.call + ": " + r.Said(), Class: channel.Refused}
	switch code := r.Status; {
	case code >= 200 && code <= 299:
		return nil
	case code == http.StatusGone:
		p.Class = channel.Gone
	case code == http.StatusTooManyRequests, code >= 500:
		p.Class = channel.Retry
		// A gateway that gave up waiting does not know what its backend did.
		p.Unknown = code == http.StatusBadGateway || code == http.StatusGatewayTimeout
		p.RetryAfter = retryAfter(r.Header.Get("Retry-After"))
	case code >= 300 && code <= 399:
		p.Text += ": redirects are not followed"
	}
	return p
}

// Because adds the provider's own code to the problem. Only what looks like a
// code is shown: it is a stranger's text.
func (r *Response) Because(p *channel.Problem, code string) *channel.Problem {
	if Code(code) != "" {
		p.Text = r.call + ": " + Code(code)
	}
	return p
}

// Code returns a provider's error code if it is one: a few plain characters.
func Code(s string) string {
	for _, c := range s {
		plain := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.'
		if !plain {
			return ""
		}
	}
	if len(s) > 64 {
		return ""
	}
	return s
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

// Reason is what may be told of a transport error. The outer error names the
// whole URL, and the texts of inner ones may quote what the receiver sent.
func Reason(err error) string {
	var dns *net.DNSError
	var op *net.OpError
	var ne net.Error
	switch {
	case errors.Is(err, errAddress):
		if errors.As(err, &op) && op.Addr != nil {
			return op.Addr.String() + ": " + errAddress.Error() + " (allow_private admits private networks)"
		}
		return errAddress.Error()
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &ne) && ne.Timeout():
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
