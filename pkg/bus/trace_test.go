package bus_test

import (
	"context"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/micro"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/trace"
	"github.com/banksman/banksman/pkg/wire"
)

const (
	askedIn   = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	decidedIn = "00-4bf92f3577b34da6a3ce929d0e0e4736-1111111111111111-01"
)

// The caller's trace goes with the request, its withdrawal and its receipts, and the
// answer says where it was decided. Who has none sends none.
func TestTheCallersTraceTravels(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	c := n.owner(t)
	ctx := trace.Parse(askedIn, "v=1").In(t.Context())
	var ref subject.Ref
	ans, err := c.Ask(ctx, keyed("traced", `{}`), bus.OnOpen(func(o bus.Opened) {
		ref = o.Ref
		m := n.signed(t, ref, n.decision(t, ref, hitl.Content{Outcome: hitl.Allowed}))
		m.Header.Set(wire.HeaderTraceParent, decidedIn)
		n.write(t, m)
	}))
	require.NoError(t, err)
	asked := n.stored(t, "HITL_REQUESTS", subject.Request(ref))
	require.Equal(t, []string{askedIn}, asked.Header[wire.HeaderTraceParent])
	require.Equal(t, []string{"v=1"}, asked.Header[wire.HeaderTraceState])
	require.Equal(t, trace.Parse(decidedIn, ""), ans.Trace)

	ctx = ans.Trace.In(t.Context())
	require.NoError(t, c.Ack(ctx, ref, hitl.Applied, "d", ""))
	require.NoError(t, c.Withdraw(ctx, ref, hitl.Withdrawal{Reason: "late"}))
	require.Equal(t, []string{decidedIn}, n.stored(t, "HITL_TRANSCRIPTS", subject.Ack(ref, hitl.Applied)).Header[wire.HeaderTraceParent])
	require.Equal(t, []string{decidedIn}, n.stored(t, "HITL_REQUESTS", subject.Withdraw(ref)).Header[wire.HeaderTraceParent])

	a := ask(t, c, keyed("untraced", `{}`))
	o := a.open(t)
	require.NotContains(t, n.stored(t, "HITL_REQUESTS", subject.Request(o.Ref)).Header, wire.HeaderTraceParent)
	n.decide(t, o.Ref, hitl.Content{Outcome: hitl.Allowed})
	ans, err = a.wait(t)
	require.NoError(t, err)
	require.True(t, ans.Trace.IsZero())
}

// A withdrawal that the end of the caller's context brings belongs to the asking.
func TestAWithdrawalBelongsToItsTrace(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	c := n.owner(t)
	ctx, stop := context.WithCancel(trace.Parse(askedIn, "").In(t.Context()))
	var ref subject.Ref
	_, err := c.Ask(ctx, approval(`{}`), bus.OnOpen(func(o bus.Opened) {
		ref = o.Ref
		stop()
	}))
	require.ErrorIs(t, err, bus.ErrStopped)
	c.Close() // it waits for the withdrawal
	require.Equal(t, []string{askedIn}, n.stored(t, "HITL_REQUESTS", subject.Withdraw(ref)).Header[wire.HeaderTraceParent])
}

// What a gateway sends that is no trace context changes nothing about its decision.
func TestADecisionWithABrokenTraceCounts(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	for _, broken := range []string{"x", askedIn + strings.Repeat("-", 3<<10)} {
		a := ask(t, n.owner(t), approval(`{}`))
		o := a.open(t)
		m := n.signed(t, o.Ref, n.decision(t, o.Ref, hitl.Content{Outcome: hitl.Allowed}))
		m.Header.Set(wire.HeaderTraceParent, broken)
		n.write(t, m)
		ans, err := a.wait(t)
		require.NoError(t, err)
		require.True(t, ans.Trace.IsZero())
	}
}

func TestServiceCallsCarryTheTrace(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	heard := make(chan []string, 1)
	svc, err := micro.AddService(n.gateway, micro.Config{Name: "hitl", Version: "1.0.0"})
	require.NoError(t, err)
	require.NoError(t, svc.AddEndpoint("get", micro.HandlerFunc(func(r micro.Request) {
		heard <- r.Headers().Values(wire.HeaderTraceParent)
		require.NoError(t, r.Respond([]byte(`{}`)))
	}), micro.WithEndpointSubject("hitl.svc.*.*.get")))
	t.Cleanup(func() { _ = svc.Stop() })
	c, _ := n.client(t, bus.RoleCaller, "ci")
	_, err = c.Get(trace.Parse(askedIn, "").In(t.Context()), "x")
	require.NoError(t, err)
	require.Equal(t, []string{askedIn}, <-heard)
}
