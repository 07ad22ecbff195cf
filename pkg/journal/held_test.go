package journal

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
	h := &held{msgs: map[string]hold{}}
	m := &nats.Msg{Reply: "$JS.ACK.x"}
	h.add(m)
	came := time.Now()
	require.Empty(t, h.overdue(came), "most are answered at once")
	require.Equal(t, []string{m.Reply}, h.overdue(came.Add(tellEvery)))
	require.Equal(t, []string{m.Reply}, h.overdue(came.Add(HoldLimit-time.Second)))
	h.begin(m)
	h.add(m) // again, by whoever looks ahead
	in := h.msgs[m.Reply]
	require.Equal(t, []string{m.Reply}, h.overdue(in.until))
	require.Empty(t, h.overdue(in.until.Add(time.Nanosecond)))
	h.begin(m)
	require.Empty(t, h.msgs, "what was given up is not taken back")
	h.add(m)
	h.drop(m)
	require.Empty(t, h.overdue(time.Now().Add(tellEvery)))
}

// Between two signs of life a process may be late, and is not taken for dead.
func TestSignsOfLifeAreFrequent(t *testing.T) {
	t.Parallel()
	require.LessOrEqual(t, 3*tellEvery, AckWait, "one is missed, and the next comes in time")
	require.LessOrEqual(t, AckWait, 2*time.Second, "people wait for it after a kill")
	require.Greater(t, HoldLimit, AckWait)
}
