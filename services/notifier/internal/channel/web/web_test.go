package web

import (
	"net/http"
	"net/netip"
	"strings"
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
		{"169.254.169.254", false, true},
		{"100.64.0.1", false, true},
		{"::1", false, true},
		{"fe80::1", false, true},
		{"fe80::1%eth0", false, true},
		{"fd00::1", false, true},
		{"fec0::1", false, true},
		{"::ffff:127.0.0.1", false, true},
		{"::ffff:10.0.0.1", false, true},
		{"::ffff:169.254.169.254", false, true},
		{"::127.0.0.1", false, true},
		{"64:ff9b::7f00:1", false, true},
		{"64:ff9b::a9fe:a9fe", false, true},
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
