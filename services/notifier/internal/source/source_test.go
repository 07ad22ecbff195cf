package source

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

// Servers write the metadata in two forms, and what does not follow either is
// no event.
func TestMetadata(t *testing.T) {
	t.Parallel()
	at := time.Unix(1700000000, 7).UTC()
	for _, c := range []struct {
		reply string
		more  bool
	}{
		{"$JS.ACK.HITL_EVENTS.notifier.1.42.9.1700000000000000007.0", false},
		{"$JS.ACK.HITL_EVENTS.notifier.3.42.9.1700000000000000007.5", true},
		{"$JS.ACK.hub.Xx1y2z.HITL_EVENTS.notifier.1.42.9.1700000000000000007.5.Rand0m", true},
		{"$JS.ACK._.Xx1y2z.HITL_EVENTS.notifier.1.42.9.1700000000000000007.0", false},
	} {
		j, more, err := parse(&nats.Msg{Reply: c.reply, Subject: "s", Data: []byte("d")})
		require.NoError(t, err, c.reply)
		require.Equal(t, c.more, more, c.reply)
		require.Equal(t, job{ev: Event{Subject: "s", Data: []byte("d"), Seq: 42, Stored: at}, reply: c.reply}, j)
	}
	for _, reply := range []string{
		"$JS.ACK.", "$JS.ACK.a.b.1.2.3.4", "$JS.ACK.a.b.1.2.3.4.5.6", "$JS.ACK.a.b.1.x.3.4.5", "$JS.ACK.a.b.1.2.3.x.5", "$JS.ACK.a.b.1.2.3.4.x",
	} {
		_, _, err := parse(&nats.Msg{Reply: reply})
		require.Error(t, err, reply)
	}
}
