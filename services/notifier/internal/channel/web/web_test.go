package web

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/services/notifier/internal/channel"
)

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	require.Equal(t, 90*time.Second, retryAfter("90"))
	date := retryAfter(time.Now().Add(time.Minute).UTC().Format(http.TimeFormat))
	require.InDelta(t, time.Minute, date, float64(5*time.Second))
	for _, v := range []string{"", "-5", "soon", "99999999999999", "Mon, 01 Jan 2001 00:00:00 GMT"} {
		require.Zero(t, retryAfter(v), v)
	}
}

// A provider's text is a stranger's: only what looks like a code is shown.
func TestCodesAreShownAndOtherTextsAreNot(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"channel_not_found", "40301", "a.b-c"} {
		require.Equal(t, s, Code(s))
	}
	for _, s := range []string{"", "bad token xoxb-1", "<b>", "\u202e", "a\nb", strings.Repeat("a", 65)} {
		require.Empty(t, Code(s))
		r := &Response{Status: http.StatusBadRequest, call: "POST https://h.test"}
		require.Equal(t, "POST https://h.test: status 400", r.Because(r.Problem(), s).Text)
	}
	r := &Response{Status: http.StatusBadRequest, call: "POST https://h.test"}
	p := r.Because(r.Problem(), "no_text")
	require.Equal(t, "POST https://h.test: no_text", p.Text)
	require.Equal(t, channel.Refused, p.Class)
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		addr          string
		public, local bool
	}{
		{"93.184.216.34", true, true},
		{"2606:2800:220:1::1", true, true},
		{"64:ff9b::5db8:d822", true, true}, // a public address behind NAT64
		{"127.0.0.1", false, true},
		{"127.255.255.254", false, true},
		{"10.1.2.3", false, true},
		{"172.16.0.1", false, true},
		{"172.31.255.255", false, true},
		{"172.32.0.1", true, true},
		{"192.168.1.1", false, true},
		{"169.254.1.1", false, true},
		{"169.254.169.254", false, false}, // what a cloud tells a machine of itself
		{"169.254.170.2", false, false},
		{"168.63.129.16", false, false},
		{"100.100.100.200", false, false},
		{"fd00:ec2::254", false, false},
		{"100.64.0.1", false, true},
		{"::1", false, true},
		{"fe80::1", false, true},
		{"fe80::1%eth0", false, true},
		{"fd00::1", false, true},
		{"fec0::1", false, true},
		{"::ffff:127.0.0.1", false, true},
		{"::ffff:10.0.0.1", false, true},
		{"::ffff:169.254.169.254", false, false},
		{"::127.0.0.1", false, true},
		{"64:ff9b::7f00:1", false, true},
		{"64:ff9b::a9fe:a9fe", false, false},
		{"2002:7f00:1::", false, true},
		{"2002:c0a8:101::1", false, true},
		{"::ffff:0:127.0.0.1", false, true},
		{"0.0.0.0", false, false},
		{"0.1.2.3", false, false},
		{"::", false, false},
		{"::ffff:0.0.0.0", false, false},
		{"224.0.0.1", false, false},
		{"239.255.255.250", false, false},
		{"255.255.255.255", false, false},
		{"240.0.0.1", false, false},
		{"198.18.0.1", false, false},
		{"192.0.2.1", false, false},
		{"ff02::1", false, false},
		{"2001:db8::1", false, false},
		{"2001::1", false, false},
		{"64:ff9b:1::1", false, false},
	} {
		a := netip.MustParseAddr(c.addr)
		require.Equal(t, c.public, allowed(a, false), c.addr)
		require.Equal(t, c.local, allowed(a, true), c.addr)
	}
	require.False(t, allowed(netip.Addr{}, true))
}

// names is a DNS server on loopback that answers each question for an IPv4 address
// with the next of its answers, which then stays the last.
func names(t *testing.T, answers ...string) (resolver *net.Resolver, asked func() int) {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	var n atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 512)
		for {
			k, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			q := append([]byte(nil), buf[:k]...)
			end := 12
			for end < k && q[end] != 0 {
				end += 1 + int(q[end])
			}
			question := q[12 : end+5] // the name, its type and class
			out := append([]byte{q[0], q[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, question...)
			if question[len(question)-3] == 1 { // A
				i := min(int(n.Add(1)), len(answers)) - 1
				out[7] = 1
				out = append(out, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
				out = append(out, netip.MustParseAddr(answers[i]).AsSlice()...)
			}
			_, _ = pc.WriteTo(out, from) // whoever asked is gone
		}
	}()
	t.Cleanup(func() {
		require.NoError(t, pc.Close())
		<-done
	})
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", pc.LocalAddr().String())
	}}, func() int { return int(n.Load()) }
}

// A name that leads elsewhere at each look is held against the address that is
// dialled, each time.
func TestANameThatChangesItsMindReachesNothingPrivate(t *testing.T) {
	t.Parallel()
	var hits atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	t.Cleanup(s.Close)
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	require.NoError(t, err)
	call := func(private bool, answers ...string) []error {
		c := New(private)
		t.Cleanup(c.Close)
		d := Dialer(private)
		resolver, asked := names(t, answers...)
		d.Resolver = resolver
		c.Transport.(*http.Transport).DialContext = d.DialContext
		var errs []error
		for range answers {
			_, err := c.Call(t.Context(), http.MethodPost, "http://hook.rebind.test:"+port+"/", nil, nil)
			errs = append(errs, err)
			c.CloseIdleConnections()
		}
		require.Equal(t, len(answers), asked())
		return errs
	}
	for _, err := range call(false, "192.0.2.1", "127.0.0.1", "169.254.169.254", "0.0.0.0", "100.64.0.1") {
		require.ErrorContains(t, err, errAddress.Error())
	}
	require.Zero(t, hits.Load())
	errs := call(true, "127.0.0.1", "169.254.169.254", "0.0.0.0")
	require.NoError(t, errs[0])
	require.ErrorContains(t, errs[1], errAddress.Error())
	require.ErrorContains(t, errs[2], errAddress.Error())
	require.EqualValues(t, 1, hits.Load())
}
