package forwarded

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// from is the address that a handler behind p sees.
func from(p *Proxies, peer string, hops ...string) (at string) {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = peer
	for _, h := range hops {
		r.Header.Add("X-Forwarded-For", h)
	}
	p.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { at = r.RemoteAddr })).ServeHTTP(httptest.NewRecorder(), r)
	return at
}

func parse(t *testing.T, list ...string) *Proxies {
	t.Helper()
	p, err := Parse(list)
	require.NoError(t, err)
	return p
}

func TestOnlyATrustedProxyIsBelieved(t *testing.T) {
	t.Parallel()
	p := parse(t, "10.0.0.0/8", "192.0.2.7", "2001:db8::/32")
	for _, tc := range []struct {
		name, peer string
		hops       []string
		want       string
	}{
		{"a stranger says something", "203.0.113.9:4000", []string{"198.51.100.1"}, "203.0.113.9:4000"},
		{"nothing is said", "10.1.2.3:4000", nil, "10.1.2.3:4000"},
		{"one proxy", "10.1.2.3:4000", []string{"203.0.113.9"}, "203.0.113.9:0"},
		{"somebody wrote an address before", "10.1.2.3:4000", []string{"198.51.100.1, 203.0.113.9"}, "203.0.113.9:0"},
		{"in a header of its own", "10.1.2.3:4000", []string{"198.51.100.1", "203.0.113.9"}, "203.0.113.9:0"},
		{"two proxies", "10.1.2.3:4000", []string{"203.0.113.9, 192.0.2.7"}, "203.0.113.9:0"},
		{"all are proxies", "10.1.2.3:4000", []string{"10.0.0.1, 192.0.2.7"}, "10.0.0.1:0"},
		{"no address", "10.1.2.3:4000", []string{"203.0.113.9, unknown"}, "10.1.2.3:4000"},
		{"no address behind a proxy", "10.1.2.3:4000", []string{"<script>, 10.0.0.1"}, "10.0.0.1:0"},
		{"with a port", "10.1.2.3:4000", []string{"203.0.113.9:55"}, "203.0.113.9:0"},
		{"version 6", "[2001:db8::1]:4000", []string{"2001:db9::2"}, "[2001:db9::2]:0"},
		{"version 4 in 6", "[::ffff:10.1.2.3]:4000", []string{"::ffff:203.0.113.9"}, "203.0.113.9:0"},
		{"a zone", "10.1.2.3:4000", []string{"fe80::1%eth0"}, "[fe80::1]:0"},
	} {
		require.Equal(t, tc.want, from(p, tc.peer, tc.hops...), tc.name)
	}
	require.Equal(t, "10.1.2.3:4000", from(parse(t), "10.1.2.3:4000", "203.0.113.9"), "nobody is trusted by default")
}

// A name is looked up while requests come, and what it meant counts where it cannot be.
func TestANamedProxyIsFoundAnew(t *testing.T) {
	t.Parallel()
	p := parse(t, "proxy")
	now := time.Unix(1, 0)
	looks, is := 0, "172.20.0.4"
	p.now, p.later = func() time.Time { return now }, func(fn func()) { fn() }
	p.lookup = func(_ context.Context, name string) ([]netip.Addr, error) {
		looks++
		if is == "" {
			return nil, errors.New("no answer")
		}
		return []netip.Addr{netip.MustParseAddr(is)}, nil
	}
	believed := func(peer string) bool { return from(p, peer+":9", "203.0.113.9") == "203.0.113.9:0" }
	require.True(t, believed("172.20.0.4"))
	require.False(t, believed("172.20.0.5"), "an agent in the same network")
	require.Equal(t, 1, looks)
	is, now = "", now.Add(lookEvery)
	require.True(t, believed("172.20.0.4"))
	is, now = "172.20.0.5", now.Add(lookEvery)
	require.True(t, believed("172.20.0.5"))
	require.False(t, believed("172.20.0.4"))
	require.Equal(t, 3, looks)
}

func TestWhatIsNoProxyIsRefused(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "10.0.0.0/33", "10.0.0", "a b", "http://proxy", "300.1.2.3", "*"} {
		_, err := Parse([]string{s})
		require.ErrorContains(t, err, "is no address", s)
	}
}
