package engine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/role"
	"github.com/banksman/banksman/services/gateway/internal/rulebook"
)

// Whoever asks does not decide, by a rule either.
func TestNobodysRuleDecidesTheirOwnRequests_B56(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := everybody()
	who.set("bob", role.Everything())
	g := w.ruling(who, nil)
	nc := w.connect()
	own := func(r *hitl.Request) { r.Owner = api.Owner(person("ada")) }
	sample := shell("sample", "git status", own)
	raw := w.ask(nc, sample)
	pending(t, g.Engine, sample.ID)
	_, err := g.desk.Make(t.Context(), signedIn("ada", role.Everything()), always(sample, raw))
	require.ErrorIs(t, err, rulebook.ErrForbidden)
	made, err := g.desk.Make(t.Context(), signedIn("bob", role.Everything()), always(sample, raw))
	require.NoError(t, err)
	next := shell("next", "git status", own)
	w.ask(nc, next)
	require.Equal(t, hitl.Allowed, outcome(t, g.Engine, next).Outcome)
	// Nor by one that lies in the bucket as hers.
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	kv, err := js.KeyValue(t.Context(), journal.RulesBucket)
	require.NoError(t, err)
	e, err := kv.Get(t.Context(), "rule."+made.Rule.ID)
	require.NoError(t, err)
	_, err = kv.Put(t.Context(), "rule."+made.Rule.ID, bytes.ReplaceAll(e.Value(), []byte(`"id":"bob"`), []byte(`"id":"ada"`)))
	require.NoError(t, err)
	g.knows(t, made.Rule.ID, func(r wire.Rule) bool { return r.Maker.ID == "ada" && r.State == wire.RuleActive })
	last := shell("last", "git status", own)
	w.ask(nc, last)
	pending(t, g.Engine, sample.ID, last.ID)
}

func TestWhatIsCriticalIsLeftToPeople(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.ruling(everybody(), nil)
	nc := w.connect()
	made := g.rule(w, nc, "ls src", func(in *wire.NewRule) { in.Pattern = wire.RuleOperands })
	critical := shell("critical", "ls var/banksman /var/banksman")
	w.ask(nc, critical)
	pending(t, g.Engine, critical.ID)
	ix, err := g.Interaction(t.Context(), ref(critical).String())
	require.NoError(t, err)
	require.Equal(t, "critical", ix.Risk)
	raised := shell("raised", "ls lib", func(r *hitl.Request) { r.Risk = "high" })
	w.ask(nc, raised)
	pending(t, g.Engine, critical.ID, raised.ID)
	plain := shell("plain", "ls lib")
	w.ask(nc, plain)
	require.Equal(t, made.ID, outcome(t, g.Engine, plain).Decision.Principal.ID)
	for _, pattern := range []string{wire.RuleExact, wire.RuleWords} {
		in := always(critical, mustMarshal(t, critical), func(in *wire.NewRule) { in.Pattern = pattern })
		_, err := g.desk.Make(t.Context(), signedIn("ada", role.Everything()), in)
		require.ErrorContains(t, err, "people only")
	}
}

func mustMarshal(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := hitl.Marshal(v)
	require.NoError(t, err)
	return raw
}

// A rule and people at once: one decision, and everybody is told the same.
func TestARuleAndPeopleRaceForOneDecision_B04_invariant1_invariant6(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	here, there := w.ruling(everybody(), nil), w.ruling(everybody(), nil)
	nc := w.connect()
	for i := range 20 {
		r := shell(fmt.Sprint("race", i), fmt.Sprint("make part", i))
		raw := w.ask(nc, r)
		pending(t, here.Engine, r.ID)
		pending(t, there.Engine, r.ID)
		in := always(r, raw)
		in.Apply = []wire.RuleTarget{{RequestID: in.RequestID, Digest: in.Digest}}
		var byRule, byPerson wire.Receipt
		var wg sync.WaitGroup
		wg.Go(func() {
			made, err := here.desk.Make(t.Context(), signedIn("ada", role.Everything()), in)
			if err == nil {
				byRule = made.Applied[0]
			}
		})
		wg.Go(func() { byPerson = there.Decide(t.Context(), answer(r, raw, "bob", deny)) })
		wg.Wait()
		require.NotNil(t, byRule.Decision)
		require.NotNil(t, byPerson.Decision)
		require.Equal(t, byRule.Decision.DecisionID, byPerson.Decision.DecisionID)
		require.NotEqual(t, byRule.Status == hitl.Accepted, byPerson.Status == hitl.Accepted)
		used := 0
		if byRule.Status == hitl.Accepted {
			used = 1
		}
		for _, x := range here.desk.List(signedIn("ada", role.Everything())) {
			if x.Match.Words[1] == fmt.Sprint("part", i) {
				require.Equal(t, used, x.Uses, "a use that decided nothing is given back")
			}
		}
	}
}

// What waits already is decided only if the person says so.
func TestARuleLeavesWhatWaitsUnlessItIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.ruling(everybody(), nil)
	nc := w.connect()
	var list []*hitl.Request
	var raws [][]byte
	for i := range 3 {
		r := shell(fmt.Sprint("waits", i), "git status")
		raws = append(raws, w.ask(nc, r))
		list = append(list, r)
		pending(t, g.Engine, idsOf(list)...)
	}
	other := shell("other", "rm x")
	otherRaw := w.ask(nc, other)
	pending(t, g.Engine, append(idsOf(list), other.ID)...)
	sess := signedIn("ada", role.Everything())
	in := always(list[0], raws[0])
	seen, err := g.desk.Preview(t.Context(), sess, in)
	require.NoError(t, err)
	require.Len(t, seen.Pending, 3)
	require.Len(t, seen.Others, 1)
	require.Empty(t, g.desk.List(sess), "a preview makes nothing")
	_, err = g.desk.Make(t.Context(), sess, in)
	require.NoError(t, err)
	pending(t, g.Engine, append(idsOf(list), other.ID)...)
	in.Apply = []wire.RuleTarget{
		{RequestID: ref(list[1]).String(), Digest: hitl.Digest(raws[1])},
		{RequestID: ref(other).String(), Digest: hitl.Digest(otherRaw)},
		{RequestID: ref(list[2]).String(), Digest: "another"},
		{RequestID: "default.agents.nothing", Digest: "x"},
	}
	made, err := g.desk.Make(t.Context(), sess, in)
	require.NoError(t, err)
	var got []hitl.Status
	for _, rec := range made.Applied {
		got = append(got, rec.Status)
	}
	require.Equal(t, []hitl.Status{hitl.Accepted, hitl.Forbidden, hitl.DigestMismatch, hitl.NotFound}, got)
	pending(t, g.Engine, list[0].ID, list[2].ID, other.ID)
	require.Equal(t, made.Rule.ID, outcome(t, g.Engine, list[1]).Decision.Principal.ID)
	// Afterwards the decided one is what it would have decided.
	require.Eventually(t, func() bool {
		seen, err = g.desk.Preview(t.Context(), sess, always(list[0], raws[0]))
		return err == nil && len(seen.Recent) == 1
	}, patience, 5*time.Millisecond)
	require.Equal(t, hitl.Allowed, seen.Recent[0].Outcome)
}

func idsOf(list []*hitl.Request) (ids []string) {
	for _, r := range list {
		ids = append(ids, r.ID)
	}
	return ids
}

func TestADenyingRuleComesFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.ruling(everybody(), nil)
	nc := w.connect()
	sample := shell("sample", "git push")
	raw := w.ask(nc, sample)
	pending(t, g.Engine, sample.ID)
	for _, effect := range []string{wire.RuleAllow, wire.RuleDeny} {
		_, err := g.desk.Make(t.Context(), signedIn("ada", role.Everything()), always(sample, raw, func(in *wire.NewRule) { in.Effect = effect }))
		require.NoError(t, err)
	}
	r := shell("pushed", "git push")
	w.ask(nc, r)
	d := outcome(t, g.Engine, r).Decision
	require.Equal(t, hitl.Denied, d.Outcome)
	require.Equal(t, "Denied by a rule that ada made: git push", d.Message)
}

// A rule that cannot be read may be one that denies: people decide everything
// until it is gone.
func TestAnUnreadableRuleLeavesEverythingToPeople_invariant4(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.ruling(everybody(), nil)
	nc := w.connect()
	g.rule(w, nc, "git status")
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	kv, err := js.KeyValue(t.Context(), journal.RulesBucket)
	require.NoError(t, err)
	ask := &api.Asked{Request: shell("x", "git status"), Policy: hitl.Policy{Risk: "low"}, RequestedAt: time.Now()}
	for name, body := range map[string]string{
		"no JSON": "{", "another version": `{"v":2,"id":"bad"}`, "for ever": `{"v":1,"id":"bad","effect":"allow"}`,
		"another's id": `{"v":1,"id":"other","effect":"allow","expires_at":"2026-01-01T00:00:00Z"}`, "twice": `{"v":1,"v":1}`,
	} {
		_, err = kv.Put(t.Context(), "rule.bad", []byte(body))
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			_, err := g.book.Claim(t.Context(), ask)
			return err != nil
		}, patience, time.Millisecond, name)
	}
	r := shell("unread", "git status")
	w.ask(nc, r)
	pending(t, g.Engine, r.ID)
	sess := signedIn("ada", role.Everything())
	require.ErrorIs(t, g.desk.Revoke(t.Context(), signedIn("eve", role.Set{{Role: wire.RoleApprover, Projects: []string{"*"}}}), "bad"), rulebook.ErrUnknown)
	require.NoError(t, g.desk.Revoke(t.Context(), sess, "bad"))
	next := shell("read again", "git status")
	require.Eventually(t, func() bool {
		_, err := g.book.Claim(t.Context(), &api.Asked{Request: shell("y", "git diff"), Policy: hitl.Policy{Risk: "low"}})
		return err == nil
	}, patience, time.Millisecond)
	w.ask(nc, next)
	require.Equal(t, hitl.Allowed, outcome(t, g.Engine, next).Outcome)
}

// The quota of an owner holds for what rules decide as well.
func TestARuleIsNoWayAroundTheQuota(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.ruling(everybody(), nil, func(o *Options) { o.Quota.DayBytes = 3 * 4 << 10 })
	nc := w.connect()
	g.rule(w, nc, "git status") // the first of three
	var got []hitl.Outcome
	for i := range 3 {
		r := shell(fmt.Sprint("q", i), "git status")
		w.ask(nc, r)
		got = append(got, outcome(t, g.Engine, r).Outcome)
	}
	require.Equal(t, []hitl.Outcome{hitl.Allowed, hitl.Allowed, hitl.InvalidIX}, got)
}

func TestWhoMayKnowAndEndARule(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.ruling(everybody(), nil)
	made := g.rule(w, w.connect(), "git status")
	sets := map[string]role.Set{
		"viewer": {{Role: wire.RoleViewer, Projects: []string{"*"}}}, "approver": {{Role: wire.RoleApprover, Projects: []string{"shop"}}},
		"elsewhere": {{Role: wire.RoleAdmin, Projects: []string{"bank"}}}, "admin": {{Role: wire.RoleAdmin, Projects: []string{"shop"}}}, "ada": nil,
	}
	for id, want := range map[string][2]bool{
		"viewer": {false, false}, "elsewhere": {false, false}, "approver": {true, false}, "admin": {true, true}, "ada": {true, true},
	} {
		list := g.desk.List(signedIn(id, sets[id]))
		require.Equal(t, want[0], len(list) == 1, id)
		if want[0] {
			require.Equal(t, want[1], list[0].MayRevoke, id)
		}
		if !want[1] {
			require.Error(t, g.desk.Revoke(t.Context(), signedIn(id, sets[id]), made.ID), id)
		}
	}
	program := signedIn("ada", role.Everything())
	program.Person.Kind = "service"
	require.ErrorIs(t, g.desk.Revoke(t.Context(), program, made.ID), rulebook.ErrForbidden)
	require.NoError(t, g.desk.Revoke(t.Context(), signedIn("admin", sets["admin"]), made.ID))
	g.knows(t, made.ID, func(r wire.Rule) bool { return r.State == wire.RuleRevoked })
}

// Rules outlive gateways.
func TestRulesAreReadAtTheStart_invariant3(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nc := w.connect()
	made := w.ruling(everybody(), nil).rule(w, nc, "git status")
	later := w.ruling(everybody(), nil)
	later.knows(t, made.ID, inForce)
	raw, err := json.Marshal(later.desk.List(signedIn("ada", role.Everything()))[0].Match)
	require.NoError(t, err)
	want, err := json.Marshal(made.Match)
	require.NoError(t, err)
	require.JSONEq(t, string(want), string(raw))
}
