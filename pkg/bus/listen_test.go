package bus_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
)

// The decision stream cannot be read here: what is not heard is lost.
func TestAskListensBeforeItAsks_D2_01_D0_52(t *testing.T) {
	t.Parallel()
	n := newNode(t, noDirect)
	d := &deafDialer{}
	c := n.owner(t, nats.SetCustomDialer(d))
	decided := make(chan struct{}, 10) // never closed
	sub, err := n.core.Subscribe("hitl.req.>", func(m *nats.Msg) {
		p, err := subject.Parse(m.Subject)
		require.NoError(t, err)
		n.decide(t, p.Ref(), hitl.Content{Outcome: hitl.Allowed})
		decided <- struct{}{}
	})
	require.NoError(t, err)
	require.NoError(t, n.core.Flush())
	defer func() { require.NoError(t, sub.Unsubscribe()) }()
	for i := range 10 {
		ans, err := ask(t, c, approval(fmt.Sprintf(`{"i":%d}`, i))).wait(t)
		require.NoError(t, err)
		require.Equal(t, hitl.Allowed, ans.Decision.Outcome)
		<-decided // it still sweeps when the asker has its answer
	}
	// The server takes what one connection says in its order.
	said := d.said()
	var heard int
	for {
		listen := bytes.Index(said, []byte("SUB hitl.inbox."))
		publish := bytes.Index(said, []byte("HPUB hitl.req."))
		if publish < 0 {
			break
		}
		require.GreaterOrEqual(t, listen, 0)
		require.Less(t, listen, publish)
		said = said[publish+1:]
		heard++
	}
	require.Equal(t, 10, heard)
}

func TestWhoMayNotHearTheDecisionDoesNotLeaveARequest_invariant4(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.forbid(t, "hitl.inbox.default.agents.*")
	_, err := n.owner(t).Ask(t.Context(), keyed("k", `{}`))
	require.ErrorIs(t, err, bus.ErrForbidden)
	require.Eventually(t, func() bool { return n.count(t, "HITL_REQUESTS", "hitl.cxl.>") == 1 }, patience, 5*time.Millisecond)
}
