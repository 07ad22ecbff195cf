package pull

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/wire"
)

func FuzzHeader(f *testing.F) {
	for _, s := range []string{
		"", "NATS/1.0\r\n\r\n", "NATS/1.0\r\nHitl-Attempt: 2\r\n\r\n", "NATS/1.0 409 Consumer Deleted\r\n\r\n", "NATS/1.0\r\nno colon\r\n: x\r\na:\r\n",
		"NATS/1.0\r\nNats-Sequence: 7\r\nNats-Sequence: 8\r\n\r\n", "Hitl-Attempt: 5", "NATS/1.0\nHitl-Attempt: 5\n", "NATS/1.0\r\n\x00\xff:\xfe\r\n\r\n", "NATS/1.0\r\na: b: c\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		h := DecodeHeader(raw)
		_, rest, _ := strings.Cut(string(raw), "\r\n")
		values := 0
		for name, list := range h {
			require.NotEmpty(t, name)
			require.NotContains(t, name, ":")
			for _, v := range list {
				require.Equal(t, strings.TrimSpace(v), v)
				require.NotContains(t, v, "\r\n")
				require.Contains(t, rest, v, "nothing is made up")
			}
			values += len(list)
		}
		require.LessOrEqual(t, values, strings.Count(rest, ":"))
	})
}

func FuzzMeta(f *testing.F) {
	for _, s := range []string{
		"", "$JS.ACK.S.C.1.2.3.4.5", "$JS.ACK.domain.hash.S.C.1.2.3.1795826644558716053.5", "$JS.ACK.domain.hash.S.C.1.2.3.4.5.token", "$JS.ACK.S.C.1.2.3.4", "$JS.ACK.........",
		"$JS.ACK.S.C.1.-2.3.4.5", "$JS.ACK.S.C.1.18446744073709551615.3.18446744073709551615.5", "$JS.ACK.S.C.+1.2.3.4.5", "_INBOX.x", "hitl.dec.t.o.i",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, reply string) {
		m, err := ParseMeta(reply)
		if err != nil {
			require.Equal(t, Meta{}, m)
			return
		}
		require.True(t, strings.HasPrefix(reply, ackPrefix))
		again, err := ParseMeta(fmt.Sprintf("$JS.ACK.S.C.%d.%d.%d.%d.%d", m.Deliveries, m.Seq, m.Consumer, uint64(m.Time.UnixNano()), m.Pending))
		require.NoError(t, err)
		require.Equal(t, m, again)
	})
}

// Whatever an owner writes into the header, nothing is younger than when it was stored,
// and what is no request and no withdrawal has the server's time.
func FuzzSince(f *testing.F) {
	for _, s := range []string{
		"", "2026-11-27T10:00:00Z", "2026-11-27T10:00:00.123456789Z", "2099-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "-1", "2026-11-27", "2026-11-27T10:00:00+23:59", "2026-02-30T10:00:00Z",
	} {
		for _, subj := range []string{"hitl.req.t.o.i", "hitl.cxl.t.o.i", "hitl.dec.t.o.i", "hitl.reqs.t.o.i", ""} {
			f.Add(subj, s, false)
		}
		f.Add("hitl.req.t.o.i", s, true)
	}
	stored := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, subj, left string, twice bool) {
		h := map[string][]string{wire.HeaderLeftAt: {left}}
		if twice {
			h[wire.HeaderLeftAt] = []string{left, left}
		}
		got := Since(subj, h, stored)
		require.False(t, got.After(stored))
		if twice || !strings.HasPrefix(subj, "hitl.req.") && !strings.HasPrefix(subj, "hitl.cxl.") {
			require.Equal(t, stored, got)
		}
		if !got.Equal(stored) {
			same, err := time.Parse(time.RFC3339Nano, left)
			require.NoError(t, err)
			require.True(t, same.Equal(got), "the time that the header says and no other")
		}
	})
}
