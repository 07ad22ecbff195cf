package door_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
)

// wish is the body that asks for a rule like a request.
func wish(a *asked, more string) string {
	return fmt.Sprintf(`{"request_id":%q,"digest":%q,"expires_in":600%s}`, a.summary.Key, a.summary.Digest, more)
}

func TestRulesOverHTTP(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	call := bash("s1", "c1")
	call.ProjectID, call.AgentName = "shop", "build-7"
	a, b := h.fake.ask(call), h.fake.ask(func() hitl.Request {
		r := bash("s2", "c2")
		r.ProjectID, r.AgentName = "shop", "build-7"
		return r
	}())
	tb, _, _ := h.tab("")
	list := func(h *house) (out wire.RuleList) {
		t.Helper()
		status, raw := h.get("/api/rules")
		require.Equal(t, 200, status, string(raw))
		require.NoError(t, json.Unmarshal(raw, &out))
		return out
	}
	require.Empty(t, list(h).Rules)

	status, raw := h.post("/api/rules/preview", wish(a, `,"pattern":"words","scope":"project"`))
	require.Equal(t, 200, status, string(raw))
	var seen wire.RulePreview
	require.NoError(t, json.Unmarshal(raw, &seen))
	require.Equal(t, "make test", seen.Rule.Title)
	require.Contains(t, seen.Rule.Text, "in the project shop")
	require.Len(t, seen.Pending, 2)
	require.NotEmpty(t, seen.Examples)
	require.Empty(t, list(h).Rules, "a preview makes nothing")

	for name, bad := range map[string]string{
		"request_id": `{"digest":"d","expires_in":600}`,
		"digest":     fmt.Sprintf(`{"request_id":%q,"digest":"another","expires_in":600}`, a.summary.Key),
		"expires_in": fmt.Sprintf(`{"request_id":%q,"digest":%q,"expires_in":0}`, a.summary.Key, a.summary.Digest),
		"max_uses":   wish(a, `,"max_uses":-1`),
		"pattern":    wish(a, `,"pattern":"tool"`),
		"scope":      wish(a, `,"scope":"world"`),
		"effect":     wish(a, `,"effect":"answer"`),
	} {
		status, raw = h.post("/api/rules", bad)
		require.Equal(t, 400, status, name)
		require.Equal(t, []string{name}, fieldNames(httpError(t, raw).Fields))
	}
	status, raw = h.post("/api/rules", fmt.Sprintf(`{"request_id":%q,"digest":%q,"expires_in":%d}`, a.summary.Key, a.summary.Digest, 31*24*3600))
	require.Equal(t, 400, status)
	require.Equal(t, []string{"expires_in"}, fieldNames(httpError(t, raw).Fields), "never for ever")
	status, raw = h.post("/api/rules", `{"request_id":"default.agents.nothing","digest":"d","expires_in":600}`)
	require.Equal(t, 404, status, string(raw))

	status, raw = h.post("/api/rules", wish(a, fmt.Sprintf(`,"pattern":"words","scope":"project","max_uses":3,"apply":[{"request_id":%q,"digest":%q}]`, b.summary.Key, b.summary.Digest)))
	require.Equal(t, 200, status, string(raw))
	var made wire.MadeRule
	require.NoError(t, json.Unmarshal(raw, &made))
	require.Len(t, made.Applied, 1)
	require.Equal(t, hitl.Accepted, made.Applied[0].Status)
	require.Equal(t, "rule", made.Applied[0].Decision.Principal.Kind)
	require.True(t, h.fake.pending(a), "what was not named still waits")
	require.False(t, h.fake.pending(b))
	tb.next(wire.TypeRulesChanged)
	got := list(h).Rules
	require.Len(t, got, 1)
	require.Equal(t, 1, got[0].Uses)
	require.Equal(t, 3, got[0].MaxUses)
	require.True(t, got[0].MayRevoke)

	status, raw, _ = h.call(http.MethodDelete, "/api/rules/nothing", "")
	require.Equal(t, 404, status, string(raw))
	status, raw, _ = h.call(http.MethodDelete, "/api/rules/"+made.Rule.ID, "")
	require.Equal(t, 200, status, string(raw))
	tb.next(wire.TypeRulesChanged)
	got = list(h).Rules
	require.Equal(t, wire.RuleRevoked, got[0].State)
	require.Equal(t, "owner", got[0].RevokedBy.ID)
	require.False(t, got[0].MayRevoke)
}

// Who may make rules: people, at a browser, for what they may decide. Who must not
// know of a request learns nothing by this way either.
func TestWhoMayMakeRules_B56(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	call := bash("s1", "c1")
	call.ProjectID = "shop"
	a := h.fake.ask(call)
	q := h.fake.ask(question("s1", "c2"))
	made, err := h.auth.NewToken(t.Context(), wire.NewAPIToken{Name: "ci", Roles: []wire.Grant{grant(wire.RoleAdmin, "*")}, ExpiresIn: 600}, hitl.Principal{Kind: "person", ID: "owner"})
	require.NoError(t, err)
	for name, who := range map[string]struct {
		token  string
		status int
	}{
		"an approver":                  {h.user("approver", grant(wire.RoleApprover, "shop")), 200},
		"a responder":                  {h.user("responder", grant(wire.RoleResponder, "shop")), 403},
		"a viewer":                     {h.user("viewer", grant(wire.RoleViewer, "shop")), 403},
		"an admin of another project":  {h.user("elsewhere", grant(wire.RoleAdmin, "bank")), 404},
		"a program with every role":    {made.Token, 403},
		"nobody":                       {"nothing", 401},
		"an approver's rule of others": {h.user("other", grant(wire.RoleApprover, "shop")), 200},
	} {
		for _, path := range []string{"/api/rules/preview", "/api/rules"} {
			status, raw := h.as(who.token).post(path, wish(a, ""))
			require.Equal(t, who.status, status, "%s %s: %s", name, path, raw)
		}
	}
	status, raw := h.post("/api/rules", wish(q, ""))
	require.Equal(t, 400, status, string(raw))
	require.Contains(t, httpError(t, raw).Error, "tool calls")
	require.True(t, h.fake.pending(a))
	// What rules are about is as secret as the requests, also in what they decided.
	other := bash("s1", "c3")
	other.ProjectID = "shop"
	b := h.fake.ask(other)
	status, raw = h.post("/api/rules", wish(b, fmt.Sprintf(`,"apply":[{"request_id":%q,"digest":%q}]`, b.summary.Key, b.summary.Digest)))
	require.Equal(t, 200, status, string(raw))
	status, raw = h.as(h.user("viewer-3", grant(wire.RoleViewer, "shop"))).get("/api/interactions?state=closed")
	require.Equal(t, 200, status)
	require.Contains(t, string(raw), "a rule of Ada")
	require.NotContains(t, string(raw), "make test")
	for _, id := range []string{"viewer-2", "bank-2"} {
		token := h.user(id, grant(wire.RoleViewer, "shop"), grant(wire.RoleApprover, "bank"))
		status, raw = h.as(token).get("/api/rules")
		require.Equal(t, 200, status)
		require.NotContains(t, string(raw), "make test")
	}
	_, raw = h.get("/api/rules")
	var list wire.RuleList
	require.NoError(t, json.Unmarshal(raw, &list))
	require.Len(t, list.Rules, 3)
	status, _, _ = h.as(made.Token).call(http.MethodDelete, "/api/rules/"+list.Rules[0].ID, "")
	require.Equal(t, 403, status, "a program ends none")
	status, _, _ = h.as(h.user("third", grant(wire.RoleApprover, "shop"))).call(http.MethodDelete, "/api/rules/"+list.Rules[0].ID, "")
	require.Equal(t, 403, status, "nor does another approver")
	status, _, _ = h.as(h.user("boss", grant(wire.RoleAdmin, "shop"))).call(http.MethodDelete, "/api/rules/"+list.Rules[0].ID, "")
	require.Equal(t, 200, status, "an admin does")
}
