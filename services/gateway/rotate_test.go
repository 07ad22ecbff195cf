package gateway_test

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/natsd"
	"github.com/banksman/banksman/pkg/subject"
)

// The decision key is rotated under two gateways and an asker that all run on.
func TestTheDecisionKeyIsRotatedUnderRunningGateways_invariant2(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	one, two := s.gateway(), s.gateway()
	c := s.client("agents")
	nc := s.connect(bus.RoleGateway)
	ref := func(key string) subject.Ref {
		return subject.NewRef(bus.DefaultTenant, "agents", hitl.ID(bus.DefaultTenant, "agents", key, 1))
	}
	stored := func(key string) *nats.Msg {
		m, err := nc.Request(subject.Direct(journal.Decisions, subject.Decision(ref(key))), nil, patience)
		require.NoError(t, err)
		return m
	}
	signedBy := func(id, key string) {
		t.Helper()
		require.Equal(t, id, stored(key).Header.Get(hitl.HeaderSigner))
	}
	first := s.creds(bus.RoleGateway, "").SigningKeyID
	roundTrip(t, c, one, "before")
	signedBy(first, "before")
	_, err := natsd.AnnounceDecisionKey(s.dir)
	require.NoError(t, err)
	roundTrip(t, c, one, "announced")
	signedBy(first, "announced")
	waiting := ask(t, c, "across")
	keys, err := natsd.RotateDecisionKey(s.dir)
	require.NoError(t, err)
	require.NotEqual(t, first, keys.Signing)
	require.Equal(t, first, receiptSigner(t, two, stored, ref("announced"), "announced"))
	roundTrip(t, c, one, "after")
	signedBy(keys.Signing, "after")
	roundTrip(t, c, two, "after by the other")
	signedBy(keys.Signing, "after by the other")
	one.allow(ref("across"))
	require.Equal(t, hitl.Allowed, take(t, waiting).Decision.Outcome)
	signedBy(keys.Signing, "across")

	// The dropped key's decisions stay what they are for gateways that run, and
	// for one that starts.
	_, err = natsd.DropDecisionKeys(s.dir)
	require.NoError(t, err)
	for _, g := range []*running{one, s.gateway()} {
		require.Equal(t, first, receiptSigner(t, g, stored, ref("before"), "before"))
		roundTrip(t, c, g, "dropped "+g.Addr())
		signedBy(keys.Signing, "dropped "+g.Addr())
	}
}

// receiptSigner requires that a gateway knows the decision as what counts, and
// returns who signed it.
func receiptSigner(t *testing.T, g *running, stored func(string) *nats.Msg, ref subject.Ref, key string) string {
	t.Helper()
	rec := receiptOf(t, g, ref.String())
	require.NotNil(t, rec.Decision, "%+v", rec)
	require.Equal(t, hitl.Allowed, rec.Decision.Outcome)
	return stored(key).Header.Get(hitl.HeaderSigner)
}
