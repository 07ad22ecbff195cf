package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/wire"
)

// token makes a program's token.
func (r *running) programToken(role string) (token, id string) {
	r.t.Helper()
	code, raw := r.call("POST", "/api/tokens", r.token, fmt.Sprintf(`{"name":"bot","roles":[{"role":%q,"projects":["*"]}],"expires_in":3600}`, role))
	require.Equal(r.t, 200, code, "%s", raw)
	var made wire.CreatedAPIToken
	require.NoError(r.t, json.Unmarshal(raw, &made))
	return made.Token, made.ID
}

// followed runs Follow until the test ends or stop is called.
func followed(t *testing.T, c *bus.Client) (heard <-chan wire.Interaction, stop func()) {
	t.Helper()
	got := make(chan wire.Interaction, 64)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Follow(ctx, func(ix wire.Interaction) { got <- ix }) }()
	stop = func() {
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
	}
	return got, stop
}

func next(t *testing.T, heard <-chan wire.Interaction) wire.Interaction {
	t.Helper()
	select {
	case ix := <-heard:
		return ix
	case <-time.After(patience):
		t.Fatal("nothing is told")
		return wire.Interaction{}
	}
}

// A service in an account of its own follows what waits, reads it, decides it with its
// own token through any gateway, and hears how it ended; also of what happened while no
// gateway was there, and each thing once.
func TestAServiceFollowsAndDecides_B48_B50(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	one := s.gateway()
	token, id := one.programToken(wire.RoleApprover)
	asker := s.client("agents")
	before := askFor(t, asker, command("before", "make a"))
	one.open(1)
	bot := s.caller("ci")
	heard, stop := followed(t, bot)
	first := next(t, heard)
	require.Equal(t, wire.StatePending, first.State, "what waited before is told")
	require.Nil(t, first.Body)
	js, err := jetstream.New(s.connect(bus.RoleGateway))
	require.NoError(t, err)
	kv, err := js.KeyValue(t.Context(), journal.SessionsBucket)
	require.NoError(t, err)
	require.Eventually(t, func() bool { // a gateway that starts now learns who follows
		_, err := kv.Get(t.Context(), "feed.default.ci")
		return err == nil
	}, patience, 10*time.Millisecond)
	two := s.gateway()
	later := askFor(t, asker, command("later", "make b"))
	second := next(t, heard)
	require.Equal(t, wire.StatePending, second.State)
	require.NotEqual(t, first.Key, second.Key)
	whole, err := bot.Get(t.Context(), second.Key)
	require.NoError(t, err)
	require.JSONEq(t, `{"command":"make b"}`, whole.Body.Input)

	rec, err := bot.Decide(t.Context(), wire.DecideCall{ID: second.Key, Token: token, Response: hitl.Response{Digest: second.Digest, Shown: whole.Body.Shown, Decision: "allow"}})
	require.NoError(t, err)
	require.Equal(t, hitl.Accepted, rec.Status, rec.Error)
	a := take(t, later)
	require.Equal(t, hitl.Principal{Kind: "service", ID: "token-" + id, Name: "bot"}, a.Decision.Principal)
	require.Equal(t, "service:ci", a.Decision.Channel)
	require.Equal(t, "caller ci", a.Decision.From)
	end := next(t, heard)
	require.Equal(t, []string{second.Key, wire.StateClosed, "allowed"}, []string{end.Key, end.State, string(end.Outcome)})
	require.Equal(t, "token-"+id, end.Decision.Principal.ID)
	// Without a token, or with another one, it decides nothing.
	for _, bad := range []string{"", "banksman_x", "ticket_x"} {
		rec, err = bot.Decide(t.Context(), wire.DecideCall{ID: first.Key, Token: bad, Response: hitl.Response{Digest: first.Digest, Decision: "allow"}})
		require.NoError(t, err)
		require.Equal(t, hitl.Forbidden, rec.Status)
	}

	// While it has no connection, something ends and something begins.
	stop()
	code, raw := two.call("POST", "/api/interactions/"+first.Key+"/decision", two.token, fmt.Sprintf(`{"digest":%q,"decision":"deny"}`, first.Digest))
	require.Equal(t, 200, code, "%s", raw)
	take(t, before)
	third := askFor(t, asker, command("third", "make c"))
	heard, stop = followed(t, bot)
	now := next(t, heard)
	require.NotEqual(t, first.Key, now.Key)
	require.Equal(t, wire.StatePending, now.State)
	code, raw = two.call("POST", "/api/interactions/"+now.Key+"/decision", two.token, fmt.Sprintf(`{"digest":%q,"decision":"deny"}`, now.Digest))
	require.Equal(t, 200, code, "%s", raw)
	take(t, third)
	require.Equal(t, now.Key, next(t, heard).Key)
	stop()
	require.Empty(t, heard, "each is told once")
}

// The same by NATS and JSON alone, without a line of the client library.
func TestAServiceFollowsAndDecidesByNATSAlone_B48(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	g := s.gateway()
	token, id := g.programToken(wire.RoleApprover)
	creds := s.creds(bus.RoleCaller, "ci")
	auth, err := creds.Auth()
	require.NoError(t, err)
	nc, err := nats.Connect(creds.URLs[0], auth)
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	feed, err := nc.SubscribeSync("hitl.feed.ci.default")
	require.NoError(t, err)
	call := func(verb string, in any) map[string]any {
		raw, err := json.Marshal(in)
		require.NoError(t, err)
		m, err := nc.Request("hitl.svc.default.ci."+verb, raw, patience)
		require.NoError(t, err)
		var out map[string]any
		require.NoError(t, json.Unmarshal(m.Data, &out))
		return out
	}
	require.Empty(t, call("list", map[string]any{"follow": true})["interactions"])
	got := askFor(t, s.client("agents"), command("k", "make a"))
	read := func() map[string]any {
		m, err := feed.NextMsg(patience)
		require.NoError(t, err)
		var ix map[string]any
		require.NoError(t, json.Unmarshal(m.Data, &ix))
		return ix
	}
	ix := read()
	require.Equal(t, "pending", ix["state"])
	require.NotContains(t, ix, "body")
	whole := call("get", map[string]any{"id": ix["key"]})
	receipt := call("decide", map[string]any{
		"id": ix["key"], "token": token, "digest": ix["digest"], "shown": whole["body"].(map[string]any)["shown"], "decision": "deny", "message": "not today",
	})
	require.Equal(t, "accepted", receipt["status"], "%v", receipt)
	a := take(t, got)
	require.Equal(t, "not today", a.Decision.Message)
	require.Equal(t, "token-"+id, a.Decision.Principal.ID)
	ix = read()
	require.Equal(t, []any{"closed", "denied"}, []any{ix["state"], ix["outcome"]})

	// It follows nobody else's feed.
	for _, other := range []string{"hitl.feed.cli.default", "hitl.feed.*.*", "hitl.feed.ci.other"} {
		sub, err := nc.SubscribeSync(other)
		require.NoError(t, err)
		require.NoError(t, nc.Flush())
		require.Eventually(t, func() bool { return nc.LastError() != nil }, patience, 10*time.Millisecond, other)
		_ = sub.Unsubscribe()
	}
}
