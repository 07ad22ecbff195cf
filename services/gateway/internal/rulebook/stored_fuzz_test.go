package rulebook

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
)

// FuzzStored: a rule that is read decides as its key's, for somebody, has an end, and is
// used no more often than it says; stored again it is the same rule.
func FuzzStored(f *testing.F) {
	now := time.Date(2026, 11, 28, 10, 0, 0, 0, time.UTC)
	r := wire.Rule{
		ID: "a1", Effect: wire.RuleAllow, Title: "t", Text: "x", Maker: hitl.Principal{Kind: "person", ID: "ada"}, CreatedAt: now, ExpiresAt: now.Add(time.Hour), MaxUses: 3, Uses: 1,
		Match: wire.RuleMatch{Tenant: "default", Owner: "agents", Kind: hitl.KindApproval},
	}
	good, err := hitl.Marshal(stored{V: 1, Rule: r})
	require.NoError(f, err)
	r.Version, r.Changes = 2, []wire.RuleChange{{Version: 2, At: now.Add(time.Minute), By: r.Maker, ExpiresAt: now}}
	changed, err := hitl.Marshal(stored{V: 1, Rule: r})
	require.NoError(f, err)
	for _, raw := range []string{string(good), string(changed)} {
		f.Add("a1", []byte(raw))
		f.Add("a2", []byte(raw))
		f.Add("a1", []byte(raw[:len(raw)-1]))
		for _, c := range [][2]string{
			{`"v":1`, `"v":2`},
			{`"v":1`, `"v":1e999`},
			{`"v":1`, `"V":2,"v":1`},
			{`"allow"`, `"ask"`},
			{`"allow"`, `"deny","Effect":"allow"`},
			{`"uses":1`, `"uses":-1000000`},
			{`"max_uses":3`, `"max_uses":-3`},
			{`"max_uses":3`, `"max_uses":99999999999999999999`},
			{`"id":"ada"`, `"id":""`},
			{"2026-11-28T11", "2027-11-28T11"},
			{"2026-11-28T11:00:00Z", "0001-01-01T00:00:00Z"},
			{`"default"`, "\"\xff\""},
			{`"default"`, `["default"]`},
			{`"default"`, strings.Repeat("[", 300) + strings.Repeat("]", 300)},
		} {
			f.Add("a1", []byte(strings.Replace(raw, c[0], c[1], 1)))
		}
	}
	for _, s := range []string{``, `null`, `[]`, `{}`, `{"v":1}`} {
		f.Add("", []byte(s))
	}
	f.Fuzz(func(t *testing.T, id string, raw []byte) {
		got, err := decode(id, raw)
		if err != nil {
			require.Nil(t, got)
			require.Less(t, len(err.Error()), 2*len(raw)+256)
			return
		}
		require.NoError(t, hitl.CheckJSON(raw))
		require.Equal(t, id, got.ID)
		require.Contains(t, []string{wire.RuleAllow, wire.RuleDeny}, got.Effect)
		require.NotEmpty(t, got.Maker.ID)
		require.False(t, got.ExpiresAt.IsZero())
		require.Equal(t, wire.RuleExpired, state(&wire.Rule{ExpiresAt: got.ExpiresAt}, lastMade(got).Add(MaxTTL)), "it ends")
		left := *got
		left.Uses = max(got.Uses, got.MaxUses)
		if got.MaxUses != 0 && got.RevokedAt == nil {
			require.Equal(t, wire.RuleUsedUp, state(&left, got.ExpiresAt.Add(-1)))
		}
		require.GreaterOrEqual(t, got.Uses, 0)
		again, err := hitl.Marshal(stored{V: 1, Rule: *got})
		if err != nil {
			return // a year beyond 9999
		}
		same, err := decode(id, again)
		require.NoError(t, err)
		once, err := hitl.Marshal(stored{V: 1, Rule: *same})
		require.NoError(t, err)
		require.Equal(t, string(again), string(once))
	})
}
