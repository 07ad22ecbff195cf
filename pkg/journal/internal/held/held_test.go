package held

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

// A message is held for as long as it waits and once more for as long as it is
// worked on, and not for ever.
func TestAMessageIsHeldWithinLimits(t *testing.T) {
	t.Parallel()
	const every, limit = time.Second, 10 * time.Second
	h := New(nil, every, limit)
	m := &nats.Msg{Reply: "$JS.ACK.x"}
	h.Add(m)
	came := time.Now()
	require.Empty(t, h.overdue(came), "most are answered at once")
	require.Equal(t, []string{m.Reply}, h.overdue(came.Add(every)))
	require.Equal(t, []string{m.Reply}, h.overdue(came.Add(limit-time.Second)))
	h.Begin(m)
	h.Add(m) // again, by whoever looks ahead
	in := h.msgs[m.Reply]
	require.Equal(t, []string{m.Reply}, h.overdue(in.until))
	require.Empty(t, h.overdue(in.until.Add(time.Nanosecond)))
	h.Begin(m)
	require.Empty(t, h.msgs, "what was given up is not taken back")
	h.Add(m)
	h.Drop(m)
	require.Empty(t, h.overdue(time.Now().Add(every)))
}
