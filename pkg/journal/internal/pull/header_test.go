package pull

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseMeta(t *testing.T) {
	t.Parallel()
	want := Meta{Deliveries: 2, Seq: 41, Consumer: 7, Time: time.Unix(0, 1795780000123456789).UTC(), Pending: 3}
	for name, reply := range map[string]string{
		"nine tokens":   "$JS.ACK.HITL_REQUESTS.intake.2.41.7.1795780000123456789.3",
		"twelve tokens": "$JS.ACK._.hash.HITL_REQUESTS.intake.2.41.7.1795780000123456789.3.rnd",
		"eleven tokens": "$JS.ACK.hub.hash.HITL_REQUESTS.intake.2.41.7.1795780000123456789.3",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := ParseMeta(reply)
			require.NoError(t, err)
			require.Equal(t, want, got)
		})
	}
	for name, reply := range map[string]string{
		"not an ack":   "_INBOX.a.b",
		"too short":    "$JS.ACK.HITL_REQUESTS.intake.2.41.7.1",
		"ten tokens":   "$JS.ACK.x.HITL_REQUESTS.intake.2.41.7.1795780000123456789.3",
		"not a number": "$JS.ACK.HITL_REQUESTS.intake.2.-41.7.1795780000123456789.3",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := ParseMeta(reply)
			require.Error(t, err)
		})
	}
}

func TestDecodeHeader(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, raw string
		want      map[string][]string
	}{
		{"none", "", nil},
		{"usual", "NATS/1.0\r\nA: 1\r\nB:2\r\nA: 3\r\n\r\n", map[string][]string{"A": {"1", "3"}, "B": {"2"}}},
		{"status line", "NATS/1.0 503 gone\r\nA: 1\r\n\r\n", map[string][]string{"A": {"1"}}},
		{"garbage", "x\r\n: v\r\nno colon\r\nA: b: c\r\n", map[string][]string{"A": {"b: c"}}},
		{"cut off", "NATS/1.0", map[string][]string{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, DecodeHeader([]byte(c.raw)))
		})
	}
}
