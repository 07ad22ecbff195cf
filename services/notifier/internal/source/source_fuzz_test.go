package source

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

func FuzzMetadata(f *testing.F) {
	for _, s := range []string{
		"", "$JS.ACK.HITL_EVENTS.notifier.1.42.9.1700000000000000007.0", "$JS.ACK.hub.Xx1y2z.HITL_EVENTS.notifier.1.42.9.1700000000000000007.5.Rand0m", "$JS.ACK.a.b.1.2.3.4.x",
		"$JS.ACK.a.b.1.-2.3.4.5", "$JS.ACK.a.b.1.9223372036854775807.3.-1.5", "$JS.ACK.a.b.1.+2.3.4.5", "x.y.z",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, reply string) {
		j, more, err := parse(&nats.Msg{Reply: reply, Subject: "s", Data: []byte("d")})
		if err != nil {
			require.Equal(t, job{}, j)
			return
		}
		require.Equal(t, reply, j.reply, "the acknowledgement goes where the server said")
		pending := 0
		if more {
			pending = 1
		}
		again, m, err := parse(&nats.Msg{Reply: fmt.Sprintf("$JS.ACK.S.C.1.%d.1.%d.%d", int64(j.ev.Seq), j.ev.Stored.UnixNano(), pending), Subject: "s", Data: []byte("d")})
		require.NoError(t, err)
		require.Equal(t, j.ev, again.ev)
		require.Equal(t, more, m)
	})
}
