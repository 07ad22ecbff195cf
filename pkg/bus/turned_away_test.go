package bus_test

import (
	"bytes"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
)

// turnAway does what a gateway does: the request goes, and its asker is told.
func (n *node) turnAway(t *testing.T, ref subject.Ref, remove, tell bool) {
	t.Helper()
	if remove {
		n.sweep(t, ref)
	}
	if !tell {
		return
	}
	m := nats.NewMsg(subject.Inbox(ref))
	m.Header.Set(wire.HeaderTurnedAway, "quota.rate: used up")
	require.NoError(t, n.gateway.PublishMsg(m))
	require.NoError(t, n.gateway.Flush())
	require.NoError(t, n.gateway.LastError())
}

func TestAskIsToldThatItWasTurnedAway(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	owner := n.owner(t)
	a := ask(t, owner, keyed("k", "1"))
	ref := a.open(t).Ref
	n.turnAway(t, ref, true, true)
	_, err := a.wait(t)
	require.ErrorIs(t, err, bus.ErrTurnedAway)
	require.ErrorContains(t, err, "quota.rate: used up")
	// The key is as good as before.
	a = ask(t, owner, keyed("k", "1"))
	require.Equal(t, ref, a.open(t).Ref)
	n.decide(t, ref, hitl.Content{Outcome: hitl.Allowed})
	got, err := a.wait(t)
	require.NoError(t, err)
	require.Equal(t, hitl.Allowed, got.Decision.Outcome)
	require.Equal(t, 1, got.Attempt)
}

// The word alone ends nothing: what counts is whether the request is stored.
func TestAWordForAnEarlierAskingEndsNothing(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	a := ask(t, n.owner(t), keyed("k", "1"))
	ref := a.open(t).Ref
	n.turnAway(t, ref, false, true)
	a.waiting(t)
	n.decide(t, ref, hitl.Content{Outcome: hitl.Denied})
	got, err := a.wait(t)
	require.NoError(t, err)
	require.Equal(t, hitl.Denied, got.Decision.Outcome)
}

// A decision that comes between the two reads behind such a word is no removal
// without one.
func TestADecisionBehindTheWordCounts_invariant3(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	d := &hookDialer{marker: "$JS.API.DIRECT.GET.HITL_REQUESTS."}
	a := ask(t, n.owner(t, nats.SetCustomDialer(d)), keyed("k", "1"))
	ref := a.open(t).Ref
	d.arm(func() { n.decide(t, ref, hitl.Content{Outcome: hitl.Denied}) })
	n.turnAway(t, ref, false, true)
	got, err := a.wait(t)
	require.NoError(t, err)
	require.Equal(t, hitl.Denied, got.Decision.Outcome)
}

// The server does not answer the look that such a word asks for: the wait goes on.
func TestAWordWithoutAnAnswerEndsNothing_invariant7(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	d := &deafDialer{}
	a := ask(t, n.owner(t, nats.SetCustomDialer(d)), keyed("k", "1"))
	ref := a.open(t).Ref
	// The look behind the publish has been.
	require.Eventually(t, func() bool { return bytes.Contains(d.said(), []byte("$JS.API.DIRECT.GET.HITL_DECISIONS.")) }, patience, 5*time.Millisecond)
	asked := bytes.Count(d.said(), []byte("$JS.API.DIRECT.GET.HITL_DECISIONS."))
	d.arm("$JS.API.DIRECT.GET.HITL_DECISIONS.")
	n.turnAway(t, ref, false, true)
	require.Eventually(t, func() bool { return bytes.Count(d.said(), []byte("$JS.API.DIRECT.GET.HITL_DECISIONS.")) > asked }, patience, 5*time.Millisecond)
	d.cut()
	a.waiting(t)
	n.decide(t, ref, hitl.Content{Outcome: hitl.Denied})
	got, err := a.wait(t)
	require.NoError(t, err)
	require.Equal(t, hitl.Denied, got.Decision.Outcome)
}

// hookDialer makes connections that call fn, once, ahead of a write with the
// marker in it.
type hookDialer struct {
	marker string
	mu     sync.Mutex
	fn     func()
}

type hookConn struct {
	net.Conn
	d *hookDialer
}

func (d *hookDialer) Dial(network, address string) (net.Conn, error) {
	conn, err := net.Dial(network, address)
	return &hookConn{conn, d}, err
}

func (d *hookDialer) arm(fn func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fn = fn
}

func (c *hookConn) Write(p []byte) (int, error) {
	c.d.mu.Lock()
	var fn func()
	if bytes.Contains(p, []byte(c.d.marker)) {
		fn, c.d.fn = c.d.fn, nil
	}
	c.d.mu.Unlock()
	if fn != nil {
		fn()
	}
	return c.Conn.Write(p)
}

// Who missed the word asks again after a while, and after a reconnect.
func TestARequestThatIsGoneIsSentAgain_invariant3(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	a := ask(t, n.owner(t), keyed("k", "1"))
	ref := a.open(t).Ref
	n.turnAway(t, ref, true, false)
	require.Eventually(t, func() bool { return n.stored(t, "HITL_REQUESTS", subject.Request(ref)) != nil }, patience, 5*time.Millisecond)
	n.decide(t, ref, hitl.Content{Outcome: hitl.Allowed})
	got, err := a.wait(t)
	require.NoError(t, err)
	require.Equal(t, hitl.Allowed, got.Decision.Outcome)
	require.Equal(t, hitl.Digest(got.Request), got.Decision.Digest)
}
