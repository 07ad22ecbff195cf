package door_test

import (
	"bufio"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/door"
)

func host(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }

func header(k, v string) func(*http.Request) { return func(r *http.Request) { r.Header.Set(k, v) } }

func TestOtherSitesGetNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(o *door.Options) { o.BaseURL = mustURL(t, "https://hitl.example.org") })
	own := strings.TrimPrefix(h.url, "http://")
	a := h.fake.ask(bash("s1", "c1"))
	approve := func(change ...func(*http.Request)) int {
		status, raw, _ := h.call(http.MethodPost, "/api/sessions/s1/approve", `{"tool_call_id":"c1"}`, change...)
		if status >= 400 {
			httpError(t, raw)
		}
		return status
	}
	t.Run("a name that was rebound to this address", func(t *testing.T) {
		for _, name := range []string{"evil.example", "evil.example:80", "127.0.0.1.evil.example", "127.0.0.1:1", "", "localhost"} {
			require.Equal(t, 421, approve(func(r *http.Request) {
				r.Host = name
				if name == "" {
					r.Host = "."
				}
			}), name)
			status, _, _ := h.call(http.MethodGet, "/", "", func(r *http.Request) { r.Host = "evil.example" })
			require.Equal(t, 421, status)
		}
	})
	t.Run("a form of another site", func(t *testing.T) {
		require.Equal(t, 403, approve(header("Sec-Fetch-Site", "cross-site")))
		require.Equal(t, 403, approve(header("Sec-Fetch-Site", "same-site")), "another port of 127.0.0.1 is another site")
		require.Equal(t, 403, approve(header("Origin", "http://evil.example")))
		require.Equal(t, 403, approve(header("Origin", "null")))
		link, _, err := h.auth.Link(t.Context())
		require.NoError(t, err)
		status, _, _ := h.call(http.MethodPost, "/api/login", `{"token":"`+link+`"}`, header("Origin", "http://evil.example"))
		require.Equal(t, 403, status)
	})
	t.Run("a socket of another site", func(t *testing.T) {
		for _, origin := range []string{"http://evil.example", "http://127.0.0.1:1", "null", "http://hitl.example.org"} {
			_, res, err := h.dial(func(o *websocket.DialOptions) { o.HTTPHeader = http.Header{"Origin": {origin}} })
			require.Error(t, err, origin)
			require.Equal(t, 403, res.StatusCode, origin)
		}
		_, res, err := h.dial(func(o *websocket.DialOptions) { o.Host = "evil.example" })
		require.Error(t, err)
		require.Equal(t, 421, res.StatusCode)
	})
	require.True(t, h.fake.pending(a))
	t.Run("the own page is served", func(t *testing.T) {
		_, _, err := h.dial(func(o *websocket.DialOptions) { o.HTTPHeader = http.Header{"Origin": {"http://" + own}} })
		require.NoError(t, err)
		_, _, err = h.dial(func(o *websocket.DialOptions) {
			o.Host, o.HTTPHeader = "hitl.example.org", http.Header{"Origin": {"https://hitl.example.org"}}
		})
		require.NoError(t, err)
		require.Equal(t, 200, approve(host("hitl.example.org"), header("Origin", "https://hitl.example.org")))
	})
	t.Run("probes come by any name", func(t *testing.T) {
		for _, p := range []string{"/healthz", "/readyz"} {
			status, raw, _ := h.call(http.MethodGet, p, "", host("10.1.2.3:80"))
			require.Equal(t, 200, status)
			require.JSONEq(t, `{"ok":true}`, string(raw))
		}
	})
}

func TestAllowedOriginsMayEmbed(t *testing.T) {
	t.Parallel()
	const site = "https://wiki.example.org"
	h := newHouse(t, func(o *door.Options) { o.Origins = []string{site} })
	a := h.fake.ask(bash("s1", "c1"))
	preflight := func(path, origin string) (int, http.Header) {
		status, _, hdr := h.call(http.MethodOptions, path, "", header("Origin", origin),
			header("Access-Control-Request-Method", "POST"), header("Access-Control-Request-Headers", "authorization,content-type"))
		return status, hdr
	}
	status, hdr := preflight("/api/interactions/x/decision", site)
	require.Equal(t, 204, status)
	require.Equal(t, site, hdr.Get("Access-Control-Allow-Origin"))
	require.Empty(t, hdr.Get("Access-Control-Allow-Credentials"))
	require.Equal(t, "Authorization, Content-Type, Last-Event-ID", hdr.Get("Access-Control-Allow-Headers"))
	for _, other := range []string{"https://wiki.example.org.evil.example", "http://wiki.example.org", "https://wiki.example.org:8443", "null", "*"} {
		status, hdr = preflight("/api/interactions/x/decision", other)
		require.NotEqual(t, 204, status, other)
		require.Empty(t, hdr.Get("Access-Control-Allow-Origin"), other)
		require.Equal(t, "Origin", hdr.Get("Vary"))
		status, _, _ = h.call(http.MethodPost, "/api/sessions/s1/approve", `{"tool_call_id":"c1"}`, header("Origin", other))
		require.Equal(t, 403, status, other)
		_, _, err := h.dial(func(o *websocket.DialOptions) { o.HTTPHeader = http.Header{"Origin": {other}} })
		require.Error(t, err, other)
	}
	require.True(t, h.fake.pending(a))
	// Nothing but the API and the elements is for others.
	for path, want := range map[string]string{"/elements.js": site, "/api/sessions": site, "/": "", "/assets/app-abc123.js": "", "/readyz": ""} {
		_, _, hdr := h.call(http.MethodGet, path, "", header("Origin", site))
		require.Equal(t, want, hdr.Get("Access-Control-Allow-Origin"), path)
	}
	_, _, err := h.dial(func(o *websocket.DialOptions) { o.HTTPHeader = http.Header{"Origin": {site}} })
	require.NoError(t, err)
	status, _, hdr = h.call(http.MethodPost, "/api/sessions/s1/approve", `{"tool_call_id":"c1"}`, header("Origin", site), header("Sec-Fetch-Site", "cross-site"))
	require.Equal(t, 200, status)
	require.Equal(t, site, hdr.Get("Access-Control-Allow-Origin"))
	status, raw, hdr := h.call(http.MethodGet, "/api/me", "", header("Origin", site), header("Authorization", "Bearer wrong"))
	require.Equal(t, 401, status, string(raw))
	require.Equal(t, site, hdr.Get("Access-Control-Allow-Origin"), "a refusal can be read too")
}

func TestEveryAnswerIsLockedDown(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for _, path := range []string{"/", "/assets/app-abc123.js", "/api/me", "/api/none", "/healthz"} {
		_, _, hdr := h.call(http.MethodGet, path, "")
		csp := hdr.Get("Content-Security-Policy")
		require.Contains(t, csp, "default-src 'none'", path)
		require.Contains(t, csp, "frame-ancestors 'none'", path)
		require.NotContains(t, csp, "unsafe", path)
		require.NotContains(t, csp, "http", path)
		require.Equal(t, "nosniff", hdr.Get("X-Content-Type-Options"), path)
		require.Equal(t, "no-referrer", hdr.Get("Referrer-Policy"), path)
		require.Equal(t, "DENY", hdr.Get("X-Frame-Options"), path)
		require.Empty(t, hdr.Get("Access-Control-Allow-Origin"), path)
		require.Empty(t, hdr.Get("Set-Cookie"), path)
		require.Empty(t, hdr.Get("Strict-Transport-Security"), path)
	}
	team := newTeamHouse(t)
	for _, path := range []string{"/", "/api/me", "/api/none"} {
		_, _, hdr := team.call(http.MethodGet, path, "")
		require.Equal(t, "max-age=31536000", hdr.Get("Strict-Transport-Security"), path)
		require.Equal(t, "nosniff", hdr.Get("X-Content-Type-Options"), path)
	}
}

func TestStaticFiles(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for _, path := range []string{"/", "/index.html", "/session/s1", "/../../etc/passwd", "/apiary"} {
		status, raw, hdr := h.call(http.MethodGet, path, "")
		require.Equal(t, 200, status, path)
		require.Contains(t, string(raw), "<title>page</title>", path)
		require.Equal(t, "no-cache", hdr.Get("Cache-Control"), path)
		require.Equal(t, "text/html; charset=utf-8", hdr.Get("Content-Type"), path)
	}
	_, _, hdr := h.call(http.MethodGet, "/assets/app-abc123.js", "")
	require.Contains(t, hdr.Get("Cache-Control"), "immutable")
	require.Equal(t, "text/javascript; charset=utf-8", hdr.Get("Content-Type"))
	status, _, _ := h.call(http.MethodGet, "/assets/app-abc123.js", "", header("If-None-Match", hdr.Get("ETag")))
	require.Equal(t, 304, status)
	status, _, _ = h.call(http.MethodGet, "/assets/gone.js", "")
	require.Equal(t, 404, status)
	status, _, _ = h.call(http.MethodPost, "/", "{}")
	require.Equal(t, 405, status)
	status, raw, _ := h.call(http.MethodGet, "/api/none", "")
	require.Equal(t, 404, status)
	require.Equal(t, "not_found", httpError(t, raw).Code)
	status, raw, _ = h.call(http.MethodDelete, "/api/interactions", "")
	require.Equal(t, 405, status)
	require.Equal(t, "method_not_allowed", httpError(t, raw).Code)
	status, _, _ = h.call(http.MethodGet, "/api/ws", "")
	require.Equal(t, 426, status)
}

// What a client sends together with its handshake must not be lost when the
// buffers change.
func TestEarlyFrameIsRead(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	conn, err := net.Dial("tcp", strings.TrimPrefix(h.url, "http://"))
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	frame := []byte{0x81, 0x80 | 2, 0, 0, 0, 0, '{', '}'}
	_, err = conn.Write(append([]byte("GET /api/ws HTTP/1.1\r\nHost: "+strings.TrimPrefix(h.url, "http://")+
		"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"), frame...))
	require.NoError(t, err)
	r := bufio.NewReader(conn)
	res, err := http.ReadResponse(r, nil)
	require.NoError(t, err)
	require.Equal(t, 101, res.StatusCode)
	_ = res.Body.Close()
	got := make([]byte, 4)
	_, err = r.Read(got)
	require.NoError(t, err)
	require.Equal(t, byte(0x88), got[0], "a close frame")
	require.EqualValues(t, wire.CloseNoAuth, int(got[2])<<8|int(got[3]))
}
