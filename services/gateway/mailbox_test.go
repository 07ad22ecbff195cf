package gateway_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
)

// Agents may ask before there is a gateway: what they ask is stored at once, under the
// rules that hold otherwise, and the first gateway shows it.
func TestAskedWhileNoGatewayIsThere_D0_10_B48_invariant3(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	prov := s.connect(bus.RoleProvisioner)
	agents := s.client("agents")
	opened := make(chan bus.Opened, 2)
	first, second := make(chan error, 1), make(chan error, 1)
	asking := func(c *bus.Client, done chan<- error) {
		ans, err := c.Ask(t.Context(), request("early"), bus.Keep(), bus.OnOpen(func(o bus.Opened) { opened <- o }))
		if err == nil && ans.Decision.Outcome != hitl.Allowed {
			err = errors.New(string(ans.Decision.Outcome))
		}
		done <- err
	}
	go asking(agents, first)
	o := <-opened
	require.False(t, o.Again)
	require.Equal(t, 1, s.count(prov, journal.Mailbox, "hitl.box.default.agents.*.req"))
	require.Zero(t, s.count(prov, journal.Requests, ">"))
	// Another process of the owner, with the same key.
	go asking(s.client("agents"), second)
	require.True(t, (<-opened).Again)
	other := request("early")
	other.Title = "Something else"
	_, err := agents.Ask(t.Context(), other)
	require.ErrorIs(t, err, bus.ErrKeyConflict)
	// One that is taken back before anybody saw it.
	back := s.client("agents")
	got := ask(t, back, "back")
	ref := subject.NewRef(bus.DefaultTenant, "agents", hitl.ID(bus.DefaultTenant, "agents", "back", 1))
	require.Eventually(t, func() bool { return s.count(prov, journal.Mailbox, "hitl.box.default.agents."+ref.ID+".req") == 1 }, patience, time.Millisecond)
	require.NoError(t, back.Withdraw(t.Context(), ref, hitl.Withdrawal{Reason: "not needed"}))

	g := s.gateway()
	require.Equal(t, hitl.Cancelled, take(t, got).Decision.Outcome)
	g.allow(o.Ref)
	require.NoError(t, <-first)
	require.NoError(t, <-second)
	require.Eventually(t, func() bool { return s.count(prov, journal.Mailbox, ">") == 0 }, patience, time.Millisecond)
}

// A gateway that listens and does not answer (it hangs, or its machine is gone and the
// server has not noticed) holds nobody up for longer than one try.
func TestADeafGatewayHoldsNoRequestBack_B48(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	deaf := s.connect(bus.RoleGateway)
	heard := make(chan *nats.Msg, 64)
	_, err := deaf.ChanQueueSubscribe(subject.Said("hitl.>"), "relay", heard)
	require.NoError(t, err)
	require.NoError(t, deaf.Flush())
	agents := s.client("agents")
	got := ask(t, agents, "unheard")
	require.Equal(t, "hitl.say.req", (<-heard).Subject[:len("hitl.say.req")])
	ref := subject.NewRef(bus.DefaultTenant, "agents", hitl.ID(bus.DefaultTenant, "agents", "unheard", 1))
	g := s.gateway()
	g.allow(ref)
	require.Equal(t, hitl.Allowed, take(t, got).Decision.Outcome)
}

// A withdrawal that no gateway answers is left as well, behind its request: the next
// gateway shows neither.
func TestADeafGatewayHoldsNoWithdrawalBack_D0_10_B48(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	prov := s.connect(bus.RoleProvisioner)
	deaf := s.connect(bus.RoleGateway)
	heard := make(chan *nats.Msg, 64)
	sub, err := deaf.ChanQueueSubscribe(subject.Said("hitl.>"), "relay", heard)
	require.NoError(t, err)
	require.NoError(t, deaf.Flush())
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	agents := s.client("agents")
	go func() {
		_, err := agents.Ask(ctx, request("given up"))
		done <- err
	}()
	<-heard // and nothing was acknowledged
	stop()
	require.ErrorIs(t, <-done, bus.ErrStopped)
	require.Eventually(t, func() bool {
		return s.count(prov, journal.Mailbox, "hitl.box.default.agents.*.req") == 1 && s.count(prov, journal.Mailbox, "hitl.box.default.agents.*.cxl") == 1
	}, patience, 5*time.Millisecond)
	require.NoError(t, sub.Unsubscribe())
	s.gateway()
	require.Eventually(t, func() bool {
		return s.count(prov, journal.Mailbox, ">") == 0 && s.count(prov, journal.Requests, ">") == 0 && s.count(prov, journal.Decisions, ">") == 1
	}, patience, 5*time.Millisecond)
}
