package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/auth"
	"github.com/banksman/banksman/services/gateway/internal/role"
	"github.com/banksman/banksman/services/gateway/internal/rulebook"
)

// A changed rule is a new version: who, when and what was before stay with it, on
// every gateway. Only whoever made it may, at a browser, and nobody undoes unseen
// what somebody else has done.
func TestARuleIsChangedAsANewVersion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var c clock
	who := everybody()
	who.set("root", role.Everything())
	g := w.ruling(who, c.now)
	other := w.ruling(who, c.now)
	nc := w.connect()
	made := g.rule(w, nc, "git status", uses(1))
	ada := signedIn("ada", role.Everything())
	change := func(g *ruling, in wire.ChangeRule) (*wire.ChangedRule, error) {
		return g.desk.Change(t.Context(), ada, made.ID, in)
	}
	listed := func(g *ruling, sess *auth.Session) *wire.Rule {
		for _, r := range g.desk.List(sess) {
			if r.ID == made.ID {
				return &r
			}
		}
		return nil
	}
	require.Equal(t, 1, listed(g, ada).Version)
	require.True(t, listed(g, ada).MayChange)
	require.False(t, listed(g, signedIn("root", role.Everything())).MayChange, "it decides in the name of whoever made it")

	five := 5
	for name, try := range map[string]struct {
		sess *auth.Session
		in   wire.ChangeRule
		want error
	}{
		"an admin who did not make it": {signedIn("root", role.Everything()), wire.ChangeRule{Version: 1, MaxUses: &five}, rulebook.ErrForbidden},
		"somebody who sees nothing":    {signedIn("eve", nil), wire.ChangeRule{Version: 1, MaxUses: &five}, rulebook.ErrUnknown},
		"a terminal":                   {func() *auth.Session { s := *ada; s.Via = auth.ViaCLI; return &s }(), wire.ChangeRule{Version: 1, MaxUses: &five}, rulebook.ErrForbidden},
		"an older version":             {ada, wire.ChangeRule{Version: 0, MaxUses: &five}, rulebook.ErrChanged},
		"one that is not there yet":    {ada, wire.ChangeRule{Version: 2, MaxUses: &five}, rulebook.ErrChanged},
	} {
		_, err := g.desk.Change(t.Context(), try.sess, made.ID, try.in)
		require.ErrorIs(t, err, try.want, name)
	}
	minus := -1
	for name, in := range map[string]wire.ChangeRule{
		"nothing": {Version: 1}, "too long": {Version: 1, ExpiresIn: int64(rulebook.MaxTTL/time.Second) + 1}, "backwards": {Version: 1, ExpiresIn: -1}, "less than none": {Version: 1, MaxUses: &minus},
	} {
		var inv *hitl.InvalidError
		_, err := change(g, in)
		require.ErrorAs(t, err, &inv, name)
	}
	before := listed(g, ada).ExpiresAt
	now, err := change(g, wire.ChangeRule{Version: 1, MaxUses: &five, ExpiresIn: 7200})
	require.NoError(t, err)
	require.Equal(t, 2, now.Version)
	require.Equal(t, 5, now.MaxUses)
	require.Len(t, now.Changes, 1)
	require.Equal(t, "ada", now.Changes[0].By.ID)
	require.True(t, before.Equal(now.Changes[0].ExpiresAt))
	require.Equal(t, 1, now.Changes[0].MaxUses)
	require.Contains(t, now.Changes[0].What, "at most 5 times, was once")
	require.True(t, now.ExpiresAt.After(before))
	_, err = change(g, wire.ChangeRule{Version: 1, MaxUses: &five})
	require.ErrorIs(t, err, rulebook.ErrChanged, "somebody else's change is seen first")
	require.Eventually(t, func() bool { r := listed(other, ada); return r != nil && r.Version == 2 && len(r.Changes) == 1 }, patience, 5*time.Millisecond)

	// It has the uses of its new version, and no more.
	record := w.journal(nc)
	for i := range 5 {
		r := shell(string(rune('a'+i)), "git status")
		w.ask(nc, r)
		require.Eventually(t, func() bool {
			d, err := record.Decision(t.Context(), ref(r))
			return err == nil && d.Outcome == hitl.Allowed
		}, patience, 5*time.Millisecond)
	}
	last := shell("last", "git status")
	w.ask(nc, last)
	pending(t, g.Engine, last.ID)
	one := 1
	_, err = change(g, wire.ChangeRule{Version: 2, MaxUses: &one})
	require.ErrorIs(t, err, rulebook.ErrChanged, "what is used up is not in force")
}

// What a rule matches is changed as a version, too: what comes is held against the new
// one, of what waits only what was named, and the version before stays readable.
func TestWhatARuleMatchesIsChangedAsANewVersion_B59(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g, other := w.ruling(everybody(), nil), w.ruling(everybody(), nil)
	nc := w.connect()
	made := g.rule(w, nc, "git status")
	ada := signedIn("ada", role.Everything())
	named, left, read := shell("named", "make check"), shell("left", "make check"), request("read", func(r *hitl.Request) {
		r.Tool.Name, r.Tool.Input, r.ProjectID = "Read", []byte(`{"file_path":"/srv/app/a.go"}`), "shop"
	})
	raws := map[string]string{}
	for _, r := range []*hitl.Request{named, left, read} {
		raws[r.ID] = hitl.Digest(w.ask(nc, r))
	}
	pending(t, g.Engine, named.ID, left.ID, read.ID)
	wish := func(r *hitl.Request) *wire.RuleWish {
		return &wire.RuleWish{RequestID: ref(r).String(), Digest: raws[r.ID], Pattern: wire.RuleWords, Scope: wire.RuleProject}
	}
	change := func(in wire.ChangeRule) (*wire.ChangedRule, error) {
		return g.desk.Change(t.Context(), ada, made.ID, in)
	}
	unread := wish(named)
	unread.Digest = "another"
	for name, in := range map[string]wire.ChangeRule{
		"request_id": {Version: 1, Match: &wire.RuleWish{RequestID: ref(read).String(), Digest: raws[read.ID], Pattern: wire.RuleExact, Scope: wire.RuleProject}},
		"digest":     {Version: 1, Match: unread},
		"pattern":    {Version: 1, Match: &wire.RuleWish{Pattern: wire.RuleTool, Scope: wire.RuleProject}},
		"scope":      {Version: 1, Match: &wire.RuleWish{Pattern: wire.RuleWords, Scope: "world"}},
		"version":    {Version: 1, Match: &wire.RuleWish{Pattern: wire.RuleWords, Scope: wire.RuleProject}}, // as it is
		"apply":      {Version: 1, ExpiresIn: 60, Apply: []wire.RuleTarget{{RequestID: ref(named).String(), Digest: raws[named.ID]}}},
	} {
		var inv *hitl.InvalidError
		_, err := change(in)
		require.ErrorAs(t, err, &inv, name)
		require.Equal(t, name, inv.Fields[0].Field, "%v", err)
	}
	now, err := change(wire.ChangeRule{Version: 1, Match: wish(named), Apply: []wire.RuleTarget{{RequestID: ref(named).String(), Digest: raws[named.ID]}}})
	require.NoError(t, err)
	require.Equal(t, []hitl.Status{hitl.Accepted}, []hitl.Status{now.Applied[0].Status})
	require.Equal(t, 2, now.Version)
	require.Equal(t, "make check", now.Title)
	require.Equal(t, ref(named).String(), now.From.RequestID)
	require.Equal(t, "ada", now.Changes[0].By.ID)
	require.Equal(t, made.Text, now.Changes[0].Text)
	require.Contains(t, now.Changes[0].What, "matches something else")
	_, err = change(wire.ChangeRule{Version: 1, Match: wish(left)})
	require.ErrorIs(t, err, rulebook.ErrChanged, "an old page's change")
	require.Equal(t, hitl.Allowed, outcome(t, g.Engine, named).Decision.Outcome)

	// What comes is held against the new version, on every gateway.
	same, old := shell("same", "make check"), shell("old", "git status")
	w.ask(nc, same)
	require.Equal(t, made.ID, outcome(t, other.Engine, same).Decision.Rule)
	w.ask(nc, old)
	pending(t, other.Engine, left.ID, read.ID, old.ID)
	pending(t, g.Engine, left.ID, read.ID, old.ID)
	// Its other choices are those of the request that it was made from last.
	now, err = change(wire.ChangeRule{Version: 2, Match: &wire.RuleWish{Pattern: wire.RuleExact, Scope: wire.RuleOwner}})
	require.NoError(t, err)
	require.Equal(t, "make check", now.Match.Text)
	require.Equal(t, wire.RuleOwner, now.Match.Scope)
	require.Equal(t, 2, now.Uses, "what it was used before counts on")
}

// Once a change has been answered nothing is decided by the version before, also where
// a gateway has picked it already.
func TestAnOlderVersionOfARuleDecidesNothing_B59_invariant4(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := everybody()
	g, other := w.ruling(everybody(), nil), w.ruling(who, nil)
	nc := w.connect()
	made := g.rule(w, nc, "git status")
	other.knows(t, made.ID, inForce)
	to := shell("to", "make check")
	digest := hitl.Digest(w.ask(nc, to))
	pending(t, g.Engine, to.ID)
	// One that the rule matched before it was changed, as an open request.
	require.NoError(t, g.desk.Revoke(t.Context(), signedIn("ada", role.Everything()), g.rule(w, nc, "git log").ID))
	old := shell("old", "git log")
	oldDigest := hitl.Digest(w.ask(nc, old))
	pending(t, other.Engine, to.ID, old.ID)
	change := func(version int, r *hitl.Request, digest string) {
		_, err := g.desk.Change(t.Context(), signedIn("ada", role.Everything()), made.ID, wire.ChangeRule{Version: version, Match: &wire.RuleWish{
			RequestID: ref(r).String(), Digest: digest, Pattern: wire.RuleWords, Scope: wire.RuleProject,
		}})
		require.NoError(t, err)
	}
	ask, err := other.Asked(t.Context(), ref(old).String())
	require.NoError(t, err)
	change(1, old, oldDigest)
	other.knows(t, made.ID, func(r wire.Rule) bool { return r.Version == 2 })
	changed := false
	who.mu.Lock()
	who.meanwhile = func() {
		change(2, to, digest)
		changed = true
	}
	who.mu.Unlock()
	claim, err := other.book.Claim(t.Context(), ask)
	require.NoError(t, err)
	require.True(t, changed)
	require.Nil(t, claim)
	require.Zero(t, g.count(t, made.ID))
	// Changed back, it decides again.
	change(3, old, oldDigest)
	other.knows(t, made.ID, func(r wire.Rule) bool { return r.Version == 4 })
	claim, err = other.book.Claim(t.Context(), ask)
	require.NoError(t, err)
	require.Equal(t, made.ID, claim.Rule)
}
