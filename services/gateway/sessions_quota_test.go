package gateway_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/natsd"
	"github.com/banksman/banksman/services/gateway"
)

// The word on one session more than an owner may have is not stored, and its sender
// reads why. What ends makes room, and others have theirs.
func TestOneSessionTooManyIsRefused(t *testing.T) {
	t.Parallel()
	s := newSiteOn(t, natsd.DurabilityRelaxed, false)
	s.gateway(func(o *gateway.Options) { o.Quota = &gateway.Quota{Sessions: 2} })
	state := func(id, state string) *hitl.SessionState {
		return &hitl.SessionState{SessionID: id, Worker: "w", Generation: 1, Runtime: "demo", State: state}
	}
	agents, cli := s.client("agents"), s.client("cli")
	var first *bus.Hold
	for i := range 2 {
		hold, err := agents.Claim(t.Context(), state(fmt.Sprintf("s%d", i), hitl.StateUserTurn))
		require.NoError(t, err)
		if first == nil {
			first = hold
		}
	}
	_, err := agents.Claim(t.Context(), state("s2", hitl.StateUserTurn))
	require.ErrorIs(t, err, bus.ErrOverQuota)
	require.ErrorContains(t, err, "quota.sessions: this owner has 2 sessions that live")
	_, err = cli.Claim(t.Context(), state("s2", hitl.StateUserTurn))
	require.NoError(t, err)
	require.NoError(t, first.State(t.Context(), state("s0", hitl.StateAssistantTurn)), "what lives goes on")
	require.NoError(t, first.State(t.Context(), state("s0", hitl.StateDead)))
	require.Eventually(t, func() bool {
		_, err = agents.Claim(t.Context(), state("s2", hitl.StateUserTurn))
		return err == nil
	}, patience, 5*time.Millisecond)
	_, err = agents.Claim(t.Context(), state("s3", hitl.StateUserTurn))
	require.ErrorIs(t, err, bus.ErrOverQuota)
}
