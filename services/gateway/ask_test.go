package gateway_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/natsd"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway"
)

// caller is a client of the service API that is no owner.
func (s *site) caller(name string) *bus.Client {
	s.t.Helper()
	creds, err := bus.LoadCredentials(natsd.CredentialsFile(s.dir, bus.RoleCaller, bus.DefaultTenant, name))
	require.NoError(s.t, err)
	c, err := bus.Connect(s.t.Context(), creds, bus.Options{})
	require.NoError(s.t, err)
	s.t.Cleanup(c.Close)
	return c
}

const askBody = `{"key":"deploy-42","kind":"approval","title":"Deploy 42","tool":{"name":"deploy","input":{"version":9007199254740993}}}`

func (r *running) askHTTP(wait, body string) (int, wire.AskReply, wire.Error) {
	r.t.Helper()
	status, raw := r.call(http.MethodPost, "/api/interactions?wait="+wait, r.token, body)
	var out wire.AskReply
	var e wire.Error
	if status == http.StatusOK {
		require.NoError(r.t, json.Unmarshal(raw, &out))
	} else {
		require.NoError(r.t, json.Unmarshal(raw, &e))
	}
	return status, out, e
}

// Asking over HTTP: pending until there is a decision, the same key the same
// interaction on any gateway and after a restart, and never one's own judge.
func TestAskingOverHTTP_B06_B48_invariant2_invariant3(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	g := s.gateway()
	status, first, e := g.askHTTP("0s", askBody)
	require.Equal(t, 200, status, e.Error)
	require.Equal(t, wire.AskPending, first.Status)
	require.Nil(t, first.Decision)
	tr := newOverSocket(t, g)
	sum := tr.seen(first.ID)
	require.Equal(t, "person:owner", sum.Owner)
	require.Equal(t, "Ada", sum.AgentName)
	require.Contains(t, sum.ToolInput, "9007199254740993")

	// The same person decides by none of the doors.
	allow := answerTo(sum, func(in *hitl.Response) { in.Decision = "allow" })
	for _, c := range waysIn(g, s.client("cli")) {
		rec := c.open(t).decide(allow)
		require.Equal(t, hitl.Forbidden, rec.Status, c.name)
		require.NotEmpty(t, rec.Error, c.name)
	}
	status, _ = g.call(http.MethodPost, "/api/sessions/asks/approve", g.token, `{"request_id":"`+first.ID+`"}`)
	require.Equal(t, 403, status)
	require.Equal(t, wire.StatePending, g.whole(sum.Key).State)

	// Written in another way it is the same; with other content it is not.
	other := s.gateway(func(o *gateway.Options) { o.TestLogin += "-2" })
	status, again, e := other.askHTTP("0s", `{"kind":"approval", "title":"Deploy 42","key":"deploy-42","tool":{"input":{"version":9007199254740993},"name":"deploy"}}`)
	require.Equal(t, 200, status, e.Error)
	require.Equal(t, first, again)
	status, _, e = other.askHTTP("0s", `{"key":"deploy-42","kind":"approval","title":"Deploy 42","tool":{"name":"deploy","input":{"version":9007199254740992}}}`)
	require.Equal(t, 409, status)
	require.Equal(t, "conflict", e.Code)
	for body, field := range map[string]string{
		`{"kind":"approval","title":"x","tool":{"name":"deploy","input":{}}}`:                       "key",
		`{"key":"k","kind":"approval","title":"x","owner":"agents","tool":{"name":"d","input":{}}}`: "owner",
		`{"key":"k","kind":"approval","title":"x","id":"mine","tool":{"name":"d","input":{}}}`:      "id",
		`{"key":"k","key":"l","kind":"approval"}`:                                                   "key",
		`{"key":"k","kind":"approval","title":"x"}`:                                                 "tool",
	} {
		status, _, e = other.askHTTP("0s", body)
		require.Equal(t, 400, status, body)
		require.Contains(t, e.Fields[0].Field, field, body)
	}
	status, _ = g.call(http.MethodPost, "/api/interactions", "made-up", askBody)
	require.Equal(t, 401, status)

	// It goes on without the gateway that took it.
	require.NoError(t, g.stop())
	require.Equal(t, wire.StatePending, other.whole(sum.Key).State, "what was asked stays open")
}

// A caller asks over the service API, a person decides, and the reply is the
// decision; whoever asks again with the key gets it again.
func TestAskingOverTheServiceAPI_B06_D0_30_invariant2(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	g := s.gateway()
	ci := s.caller("ci")
	type result struct {
		out wire.AskReply
		err error
	}
	got := make(chan result, 1)
	go func() {
		var r result
		r.err = ci.Call(t.Context(), wire.VerbAsk, json.RawMessage(askBody), &r.out)
		got <- r
	}()
	id := hitl.ID(bus.DefaultTenant, "service:ci", "deploy-42", 1)
	tr := newOverSocket(t, g)
	sum := tr.seen(id)
	require.Equal(t, "service:ci", sum.Owner)
	rec := tr.decide(answerTo(sum, func(in *hitl.Response) { in.Decision, in.Message = "deny", "not on a Friday" }))
	require.Equal(t, hitl.Accepted, rec.Status, rec.Error)
	first := <-got
	require.NoError(t, first.err)
	require.Equal(t, wire.AskDecided, first.out.Status)
	require.Equal(t, id, first.out.ID)
	require.Equal(t, rec.Decision.DecisionID, first.out.Decision.DecisionID)
	require.Equal(t, "not on a Friday", first.out.Decision.Message)
	require.Empty(t, first.out.Decision.RequestB64)
	var again wire.AskReply
	require.NoError(t, ci.Call(t.Context(), wire.VerbAsk, json.RawMessage(askBody), &again))
	require.Equal(t, first.out.Decision.DecisionID, again.Decision.DecisionID)
	// Another asker's equal key is another interaction.
	status, mine, e := g.askHTTP("0s", askBody)
	require.Equal(t, 200, status, e.Error)
	require.Equal(t, wire.AskPending, mine.Status)
	require.NotEqual(t, id, mine.ID)
}
