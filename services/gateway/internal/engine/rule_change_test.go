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
	change := func(g *ruling, in wire.ChangeRule) (*wire.Rule, error) {
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
