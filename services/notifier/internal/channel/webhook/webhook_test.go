package webhook

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/banksman/banksman/services/notifier/internal/channel"
	"github.com/banksman/banksman/services/notifier/internal/channel/web"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	// Key, message and signature of the example in the Standard Webhooks
	// specification's own libraries.
	sampleSecret    = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	sampleID        = "msg_p5jXN8AQM9LWM0D4loKWxJek"
	sampleStamp     = "1614265330"
	sampleBody      = `{"test": 2432232314}`
	sampleSignature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	otherSecret     = "whsec_c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0"
)

func newChannel(t *testing.T, url string, more ...string) *Channel {
	t.Helper()
	c, err := New(Options{URL: url, Secrets: append([]string{sampleSecret}, more...), AllowPrivate: true, Source: "urn:test"})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// send makes one attempt and tells whether another makes sense.
func send(ctx context.Context, c *Channel) (retry bool, err error) {
	_, err = c.Send(ctx, channel.Alert{ID: "msg_1"})
	var p *channel.Problem
	return errors.As(err, &p) && p.Class == channel.Retry, err
}

func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL + "/PATHSECRET?q=QUERYSECRET"
}

// discreet requires an error without secrets.
func discreet(t *testing.T, err error) {
	t.Helper()
	for _, s := range []string{"PATHSECRET", "QUERYSECRET", "whsec_", "MfKQ9r8", "BODYSECRET", "LOCATIONSECRET"} {
		require.NotContains(t, err.Error(), s)
	}
}

func TestSignatureIsTheSpecifications(t *testing.T) {
	t.Parallel()
	c := newChannel(t, "https://h.test", otherSecret)
	signed := strings.Fields(c.sign(sampleID, sampleStamp, []byte(sampleBody)))
	require.Len(t, signed, 2, "one for each secret")
	require.Equal(t, sampleSignature, signed[0])
	require.NotEqual(t, signed[0], signed[1])
}

func TestStatus(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code                     int
		ok, retry, gone, mayKnow bool
	}{
		{code: 200, ok: true},
		{code: 201, ok: true},
		{code: 204, ok: true},
		{code: 299, ok: true},
		{code: 301},
		{code: 302},
		{code: 304},
		{code: 307},
		{code: 308},
		{code: 400},
		{code: 401},
		{code: 403},
		{code: 404},
		{code: 409},
		{code: 410, gone: true},
		{code: 413},
		{code: 422},
		{code: 429, retry: true},
		{code: 500, retry: true},
		{code: 501, retry: true},
		{code: 502, retry: true, mayKnow: true},
		{code: 503, retry: true},
		{code: 504, retry: true, mayKnow: true},
		{code: 599, retry: true},
	} {
		t.Run(strconv.Itoa(c.code), func(t *testing.T) {
			t.Parallel()
			url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "/LOCATIONSECRET")
				w.WriteHeader(c.code)
				_, _ = w.Write([]byte("BODYSECRET")) // refused for 204 and 304
			})
			retry, err := send(t.Context(), newChannel(t, url))
			require.Equal(t, c.retry, retry)
			if c.ok {
				require.NoError(t, err)
				return
			}
			var p *channel.Problem
			require.ErrorAs(t, err, &p)
			require.Contains(t, p.Text, strconv.Itoa(c.code))
			require.Equal(t, c.gone, p.Class == channel.Gone)
			require.Equal(t, c.mayKnow, p.Unknown)
			discreet(t, err)
		})
	}
}

func TestRedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	var hits atomic.Int32
	target := serve(t, func(http.ResponseWriter, *http.Request) { hits.Add(1) })
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, target, http.StatusTemporaryRedirect)
	})
	retry, err := send(t.Context(), newChannel(t, url))
	require.False(t, retry)
	require.ErrorContains(t, err, "redirects are not followed")
	discreet(t, err)
	require.Zero(t, hits.Load())
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	_, err := newChannel(t, url).Send(t.Context(), channel.Alert{ID: "msg_1"})
	var p *channel.Problem
	require.ErrorAs(t, err, &p)
	require.Equal(t, 7*time.Second, p.RetryAfter)
}

// Transport failures are retried, say whether the receiver may know, and give
// no secret away.
func TestTransportFailures(t *testing.T) {
	t.Parallel()
	dead := httptest.NewServer(http.NotFoundHandler())
	dead.Close()
	hangUp := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_ = conn.Close()
	})
	garbage := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = conn.Write([]byte("BODYSECRET\r\n\r\n"))
		_ = conn.Close()
	})
	tls := httptest.NewTLSServer(http.NotFoundHandler())
	tls.Config.ErrorLog, tls.Config.ErrorLog = nil, nil
	t.Cleanup(tls.Close)
	for _, c := range []struct {
		name, url, want string
		mayKnow         bool
	}{
		{"refused", dead.URL + "/PATHSECRET?q=QUERYSECRET", "connection refused", false},
		{"no such name", "http://nothing.invalid/PATHSECRET", "cannot be resolved", false},
		{"hung up", hangUp, "without a response", true},
		{"no HTTP", garbage, "the request failed", true},
		{"unknown certificate", tls.URL + "/PATHSECRET", "TLS", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			retry, err := send(t.Context(), newChannel(t, c.url))
			require.True(t, retry)
			require.ErrorContains(t, err, c.want)
			var p *channel.Problem
			require.ErrorAs(t, err, &p)
			require.Equal(t, c.mayKnow, p.Unknown)
			discreet(t, err)
		})
	}
}

func TestSlowReceiverIsGivenUp(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	got := make(chan struct{}, 1)
	url := serve(t, func(http.ResponseWriter, *http.Request) {
		got <- struct{}{}
		<-release
	})
	defer close(release)
	c := newChannel(t, url)
	require.Equal(t, web.Timeout, c.client.Timeout)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-got
		cancel()
	}()
	retry, err := send(ctx, c)
	require.True(t, retry)
	var p *channel.Problem
	require.ErrorAs(t, err, &p)
	require.True(t, p.Unknown)
	discreet(t, err)
}

// A response of any size costs little.
func TestEndlessResponse(t *testing.T) {
	t.Parallel()
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		for chunk := make([]byte, 64<<10); ; {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})
	_, err := newChannel(t, url).Send(t.Context(), channel.Alert{ID: "msg_1"})
	require.NoError(t, err)
}

// What counts is the address that is dialled, not the name it came from.
func TestPrivateAddressIsNotDialled(t *testing.T) {
	t.Parallel()
	var hits atomic.Int32
	s := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	t.Cleanup(s.Close)
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	require.NoError(t, err)
	for _, host := range []string{"localhost", "127.0.0.1", "[::ffff:127.0.0.1]", "[::1]", "0.0.0.0"} {
		c, err := New(Options{URL: "https://" + host + ":" + port + "/PATHSECRET", Secrets: []string{sampleSecret}})
		require.NoError(t, err)
		_, err = c.Send(t.Context(), channel.Alert{ID: "msg_1"})
		c.Close()
		require.ErrorContains(t, err, "address is not allowed", host)
		discreet(t, err)
	}
	require.Zero(t, hits.Load())
}

func TestEnvelope(t *testing.T) {
	t.Parallel()
	var head http.Header
	var body map[string]any
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		head = r.Header.Clone()
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
	})
	at := time.Date(2026, 3, 1, 14, 2, 0, 0, time.UTC)
	_, err := newChannel(t, url).Send(t.Context(), channel.Alert{
		ID: "msg_1", Type: channel.Opened, Key: "t.o.i", Time: at,
		Data: channel.Data{Title: "<b>&", Headline: "h", Agent: "a", Session: "s", Kind: "approval"},
	})
	require.NoError(t, err)
	require.Equal(t, "msg_1", head.Get("webhook-id"))
	require.Equal(t, "application/cloudevents+json; charset=utf-8", head.Get("content-type"))
	require.Equal(t, map[string]any{
		"specversion": "1.0", "id": "msg_1", "source": "urn:test", "type": "banksman.interaction.opened", "subject": "t.o.i",
		"time": "2026-03-01T14:02:00Z", "datacontenttype": "application/json",
		"data": map[string]any{"title": "<b>&", "headline": "h", "agent": "a", "session": "s", "kind": "approval"},
	}, body)
}

// While a receiver changes over, whoever knows the old secret and whoever knows the
// new one finds a signature that holds, of the same message.
func TestSecretsAreRotated(t *testing.T) {
	t.Parallel()
	heads := make(chan http.Header, 1)
	bodies := make(chan []byte, 1)
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		heads <- r.Header
		bodies <- body
	})
	_, err := send(t.Context(), newChannel(t, url, otherSecret))
	require.NoError(t, err)
	head, body := <-heads, <-bodies
	for _, secret := range []string{sampleSecret, otherSecret} {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
		require.NoError(t, err)
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(head.Get("webhook-id") + "." + head.Get("webhook-timestamp") + "." + string(body)))
		require.Contains(t, strings.Fields(head.Get("webhook-signature")), "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	require.Len(t, strings.Fields(head.Get("webhook-signature")), 2)
}
