package pull

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
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
