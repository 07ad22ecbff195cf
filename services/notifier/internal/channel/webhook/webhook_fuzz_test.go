package webhook

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/services/notifier/internal/channel"
)

// roundTrip is a receiver in memory.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

const fuzzSecret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="

// FuzzReceiver: whatever a receiver answers, the error names neither its path
// nor anything it said, and what is sent is the alert, whatever is in it.
func FuzzReceiver(f *testing.F) {
	for _, s := range []string{"", "5", "-1", "99999999999", "Fri, 27 Nov 2026 10:00:00 GMT", "\u202e", "0x5"} {
		for _, code := range []uint16{200, 204, 301, 400, 410, 429, 500, 502, 504, 999, 0} {
			f.Add(code, s, "title\u202e<&>", "default.agents.i")
		}
	}
	f.Fuzz(func(t *testing.T, code uint16, header, title, key string) {
		c, err := New(Options{URL: "https://example.org/s3cret?x=y", Secrets: []string{fuzzSecret}, Source: "/banksman"})
		require.NoError(t, err)
		var sent []byte
		c.client.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			sent, err = io.ReadAll(r.Body)
			require.NoError(t, err)
			require.NotEmpty(t, r.Header.Get("Webhook-Signature"))
			return &http.Response{
				StatusCode: int(code), Header: http.Header{"Retry-After": {header}, "Location": {"http://127.0.0.1/" + header}},
				Body: io.NopCloser(strings.NewReader(header)), Request: r,
			}, nil
		})
		_, err = c.Send(context.Background(), channel.Alert{ID: "msg_1", Type: channel.Opened, Key: key, Data: channel.Data{Title: title}})
		require.True(t, utf8.Valid(sent))
		var ev struct {
			Subject string
			Data    channel.Data
		}
		require.NoError(t, json.Unmarshal(sent, &ev))
		require.Equal(t, string([]rune(title)), ev.Data.Title)
		if code >= 200 && code <= 299 {
			require.NoError(t, err)
			return
		}
		require.NotContains(t, err.Error(), "s3cret")
		var p *channel.Problem
		require.ErrorAs(t, err, &p)
		require.GreaterOrEqual(t, p.RetryAfter, time.Duration(0))
		require.Equal(t, code == 410, p.Class == channel.Gone)
	})
}

// FuzzEndpoint: an address that is taken leads where it says, over TLS.
func FuzzEndpoint(f *testing.F) {
	for _, s := range []string{"https://example.org/", "http://example.org/", "https://u:p@h/", "https://h/#f", "//h/", "https:///x", "https://[::1]/", "https://h:99999/", "ftp://h/", "https://h\x00/", "HTTPS://H/", "https://example.org\u202e/"} {
		f.Add(s, fuzzSecret)
		f.Add("https://example.org/", s)
	}
	f.Fuzz(func(t *testing.T, address, secret string) {
		c, err := New(Options{URL: address, Secrets: []string{secret}})
		if err != nil {
			var fe *FieldError
			require.ErrorAs(t, err, &fe)
			require.NotEmpty(t, fe.Field)
			if len(secret) > 12 && !strings.Contains(address, secret) {
				require.NotContains(t, err.Error(), secret)
			}
			return
		}
		u, err := url.Parse(address)
		require.NoError(t, err)
		require.Equal(t, "https", u.Scheme)
		require.NotEmpty(t, u.Hostname())
		require.True(t, len(c.keys[0]) >= minSecret && len(c.keys[0]) <= maxSecret)
		require.Nil(t, u.User)
	})
}
