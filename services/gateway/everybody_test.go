package gateway_test

import (
	"log/slog"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/auth"
)

// Everybody is told who asked for it, of what that person may decide and of nothing else;
// a browser that two people use is told once, and one that is gone is forgotten for all.
func TestEverybodyIsToldOfWhatTheyMayDecide_B57(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	g := s.gateway()
	n := s.notifier()
	people, err := auth.Open(t.Context(), auth.Options{Conn: s.connect(bus.RoleGateway), Logger: slog.New(slog.DiscardHandler), Person: hitl.Principal{Kind: "person", ID: "owner"}})
	require.NoError(t, err)
	shared := subscription(t, "https://push.example.com/shared")
	for id, roles := range map[string]string{
		"ada": `[{"role":"approver","projects":["*"]}]`, "bob": `[{"role":"approver","projects":["elsewhere"]}]`,
		"rita": `[{"role":"responder","projects":["*"]}]`, "vera": `[{"role":"viewer","projects":["*"]}]`,
	} {
		code, raw := g.call("POST", "/api/users", g.token, `{"id":"`+id+`","name":"X","roles":`+roles+`}`)
		require.Equal(t, http.StatusOK, code, "%s", raw)
		token, _, err := people.GrantTo(t.Context(), hitl.Principal{Kind: "person", ID: id})
		require.NoError(t, err)
		for _, sub := range []wire.PushSubscription{subscription(t, "https://push.example.com/"+id), shared} {
			code, raw = g.call("POST", "/api/push", token, encode(t, sub))
			require.Equal(t, http.StatusOK, code, "%s", raw)
		}
	}
	told := func(key string, gone ...string) []string {
		t.Helper()
		var out wire.PushReply
		require.NoError(t, n.Call(t.Context(), wire.VerbPush, wire.PushCall{User: wire.Everybody, Key: key, Gone: gone}, &out))
		var at []string
		for _, b := range out.Browsers {
			at = append(at, b.Endpoint[len("https://push.example.com/"):])
		}
		slices.Sort(at)
		return at
	}
	askFor(t, s.client("agents"), command("k1", "make test"))
	ix := g.open(1)[0]
	require.Equal(t, []string{"ada", "shared"}, told(ix.Key))
	require.Equal(t, []string{"ada", "bob", "rita", "shared", "vera"}, told(""), "a test")
	err = n.Call(t.Context(), wire.VerbPush, wire.PushCall{User: wire.Everybody, Key: "default.agents.nothing"}, &wire.PushReply{})
	require.Error(t, err)
	err = s.caller("ci").Call(t.Context(), wire.VerbPush, wire.PushCall{User: wire.Everybody}, &wire.PushReply{})
	var refused *bus.ServiceError
	require.ErrorAs(t, err, &refused)

	var all wire.PushReply
	require.NoError(t, n.Call(t.Context(), wire.VerbPush, wire.PushCall{User: wire.Everybody}, &all))
	i := slices.IndexFunc(all.Browsers, func(b wire.PushTarget) bool { return b.Endpoint == shared.Endpoint })
	require.Equal(t, []string{"ada"}, told(ix.Key, all.Browsers[i].ID))
	require.Equal(t, []string{"ada", "bob", "rita", "vera"}, told("", all.Browsers[i].ID))
}
