package door_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/door"
)

// Every route, asked by a viewer. A row says what the route tells: what it tells of
// interactions must have none of their words. A route without a row fails.
func TestEveryRouteHidesTheDetailFromAViewer(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(o *door.Options) { o.History = &librarian{out: wire.ListReply{Interactions: []wire.Interaction{}}} })
	call := bash("talk", "toolu_1")
	call.ProjectID, call.Title = "shop", "Bash: "+inCall
	call.Tool.Input = json.RawMessage(`{"command":"echo ` + inCall + `"}`)
	q := question("talk", "toolu_2")
	q.ProjectID, q.Title = "shop", inQuestion
	q.Questions[0].Question = inQuestion + "?"
	gone := question("talk", "toolu_3")
	gone.ProjectID, gone.Title = "shop", inQuestion
	asks := []*asked{h.fake.ask(call), h.fake.ask(q), h.fake.ask(gone)}
	key := asks[0].session
	h.fake.set(func(f *fake) {
		st := f.session(key, "talk")
		st.ProjectID, st.Title, st.Cwd = "shop", inTalk, "/"+inTalk
		f.close(asks[2], hitl.Content{Outcome: hitl.Answered, Answers: []hitl.Answer{{QuestionID: "db", Other: inAnswer}}},
			hitl.Principal{Kind: "person", ID: "owner", Name: "Ada"}, "web")
	})
	h.fake.say(key, inTalk)
	i, s := asks[0].summary.Key, key

	// What a row has: a body to send, and the statuses that are right. Streams and sockets are read by
	// TestDetailFollowsTheRightToAnswer, which reads them as everybody.
	type row struct {
		body   string
		status []int
		stream bool
	}
	elsewhere := row{stream: true}
	refused := func(body string) row { return row{body: body, status: []int{403}} }
	// Who may decide is the engine's to say, which is a fake here, see TestWhoDecides there.
	engines := func(body string) row { return row{body: body, status: []int{200, 400, 403, 404, 409}} }
	rows := map[string]row{
		"GET /healthz": {}, "GET /readyz": {}, "GET /api/openapi.json": {}, "GET /api/frames.schema.json": {}, "GET /api/me": {},
		"GET /api/services": {status: []int{200}}, "GET /api/sign-in": {}, "GET /api/sign-ins": {}, "DELETE /api/sign-ins/{id}": {status: []int{404}},
		"GET /api/push": {}, "POST /api/push": {body: `{}`, status: []int{400}}, "DELETE /api/push/{id}": {status: []int{404}},
		"POST /api/push/renewal": {body: `{}`, status: []int{400}}, "POST /api/push/decision": {body: `{"token":"x","decision":"deny"}`, status: []int{403}},
		"GET /api/cli-logins": {}, "GET /api/cli-logins/{code}": {status: []int{404}}, "POST /api/cli-logins/{code}": {body: `{"allow":false}`, status: []int{404}},
		"GET /api/ws": elsewhere, "GET /api/events": elsewhere, "GET /api/sessions/{id}/events": elsewhere,
		"GET /api/interactions": {}, "GET /api/interactions/{id}": {}, "GET /api/sessions": {},
		"POST /api/interactions":                 {body: `{"key":"k","kind":"approval","title":"t","project_id":"bank"}`, status: []int{403}},
		"POST /api/interactions/{id}/decision":   engines(`{"decision":"allow","digest":"` + asks[0].summary.Digest + `"}`),
		"GET /api/interactions/{id}/audience":    refused(""),
		"GET /api/interactions/{id}/alerts":      refused(""),
		"POST /api/seen":                         {body: `{"requests":["` + i + `"]}`},
		"GET /api/rules":                         {},
		"POST /api/rules/preview":                refused(`{"request_id":"` + i + `","digest":"` + asks[0].summary.Digest + `","pattern":"exact","scope":"session"}`),
		"POST /api/rules":                        refused(`{"request_id":"` + i + `","digest":"` + asks[0].summary.Digest + `","expires_in":60}`),
		"POST /api/rules/{id}":                   {body: `{"version":1,"expires_in":60}`, status: []int{404}},
		"DELETE /api/rules/{id}":                 {status: []int{404}},
		"POST /api/sessions":                     refused(`{"runtime":"demo","project_id":"shop"}`),
		"POST /api/demo":                         refused(`{}`),
		"POST /api/sessions/{id}/approve":        engines(`{"tool_call_id":"toolu_1"}`),
		"POST /api/sessions/{id}/deny":           engines(`{"tool_call_id":"toolu_1"}`),
		"POST /api/sessions/{id}/submit-answers": engines(`{"tool_call_id":"toolu_2","answers":{"db":"x"}}`),
		"POST /api/sessions/{id}/message":        refused(`{"text":"x"}`),
		"POST /api/sessions/{id}/interrupt":      refused(`{}`),
		"POST /api/sessions/{id}/stop":           refused(`{}`),
		"POST /api/sessions/{id}/mode":           refused(`{"mode":"plan"}`),
		"GET /api/users":                         refused(""), "POST /api/users": refused(`{}`), "POST /api/users/{id}": refused(`{}`),
		"POST /api/users/{id}/logout": refused(`{}`), "POST /api/users/{id}/invite": refused(`{}`),
		"GET /api/tokens": refused(""), "POST /api/tokens": refused(`{}`), "DELETE /api/tokens/{id}": refused(""),
		"POST /api/login":                  {body: `{"token":"x"}`, status: []int{401}},
		"POST /api/sign-in/passkey/begin":  {status: []int{200, 400, 503}, body: `{}`},
		"POST /api/sign-in/passkey/finish": {status: []int{401, 400}, body: `{"ceremony":"x"}`},
		"POST /api/sign-in/oidc/begin":     {status: []int{404}, body: `{}`},
		"POST /api/sign-in/oidc/finish":    {status: []int{404}, body: `{"ceremony":"x"}`},
		"POST /api/sign-in/invite/begin":   {status: []int{400, 401}, body: `{"invite":"x"}`},
		"POST /api/sign-in/invite/finish":  {status: []int{400, 401}, body: `{"invite":"x"}`},
		"POST /api/passkeys/begin":         {status: []int{200, 400}, body: `{}`}, "POST /api/passkeys/finish": {status: []int{400, 401}, body: `{}`},
		"POST /api/proof/begin": {status: []int{200, 400, 401}, body: `{}`}, "POST /api/proof/finish": {status: []int{400, 401}, body: `{}`},
		// These come last: they sign the viewer out.
		"POST /api/logout/others": {body: `{}`}, "POST /api/logout": {body: `{}`}, "POST /api/logout/everywhere": {body: `{}`, status: []int{401}},
	}
	viewer := h.as(h.user("vera", grant(wire.RoleViewer, "shop")))
	patterns := viewer.door.Patterns()
	for pattern := range rows {
		require.Contains(t, patterns, pattern, "a row for a route that is not there")
	}
	ask := func(t *testing.T, pattern, path string, r row) {
		t.Helper()
		method, _, _ := strings.Cut(pattern, " ")
		status, raw, _ := viewer.call(method, path, r.body)
		want := r.status
		if want == nil {
			want = []int{http.StatusOK}
		}
		require.Contains(t, want, status, "%s: %s", pattern, raw)
		for _, word := range []string{inCall, inQuestion, inTalk, inAnswer} {
			require.NotContains(t, string(raw), word, "%s gives it away", pattern)
		}
	}
	last := func(p string) int {
		switch {
		case strings.HasSuffix(p, "/logout/everywhere"):
			return 2
		case p == "POST /api/logout":
			return 1
		}
		return 0
	}
	slices.SortStableFunc(patterns, func(a, b string) int { return last(a) - last(b) })
	for _, pattern := range patterns {
		r, ok := rows[pattern]
		require.True(t, ok, "%s has no row here: what does it tell a viewer?", pattern)
		if r.stream {
			continue
		}
		_, path, _ := strings.Cut(pattern, " ")
		switch {
		case strings.Contains(path, "/interactions/"):
			for _, a := range asks {
				if strings.HasSuffix(path, "/decision") && a != asks[0] {
					continue
				}
				ask(t, pattern, strings.Replace(path, "{id}", a.summary.Key, 1), r)
			}
		case path == "/api/interactions" && strings.HasPrefix(pattern, "GET"):
			for _, query := range []string{"", "?state=closed", "?state=decided", "?state=decided&q=" + inCall, "?state=decided&rule=r1"} {
				ask(t, pattern, path+query, r)
			}
		default:
			ask(t, pattern, strings.NewReplacer("/sessions/{id}", "/sessions/"+s, "{id}", "aaaaaaaaaaaa", "{code}", "ABCDEFGH").Replace(path), r)
		}
	}
}

func TestPeopleSeeWhereTheyAreSignedIn(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	vera := h.as(h.user("vera", grant(wire.RoleViewer, "*")))
	token, _, err := h.auth.GrantTo(t.Context(), hitl.Principal{Kind: "person", ID: "vera"})
	require.NoError(t, err)
	there := h.as(token)
	list := func(h *house) []wire.SignIn {
		t.Helper()
		status, raw := h.get("/api/sign-ins")
		require.Equal(t, 200, status, string(raw))
		var out wire.SignInList
		require.NoError(t, json.Unmarshal(raw, &out))
		return out.SignIns
	}
	status, _, _ := there.call(http.MethodGet, "/api/me", "", func(r *http.Request) { r.Header.Set("User-Agent", "Firefox\u202e") })
	require.Equal(t, 200, status)
	mine := list(vera)
	require.Len(t, mine, 2, "those of nobody else")
	require.True(t, mine[0].This, "the one that was used last is the one that asks")
	require.False(t, mine[1].This)
	require.Equal(t, "test", mine[1].Via)
	require.Equal(t, "127.0.0.1", mine[1].From)
	require.Equal(t, "127.0.0.1", mine[1].FirstFrom)
	require.Equal(t, "Firefox⟦U+202E⟧", mine[1].Agent)
	require.NotNil(t, mine[1].LastSeen)
	require.False(t, mine[1].LastSeen.Before(mine[1].CreatedAt))

	// Nobody ends what is somebody else's, and the other end is closed at once.
	owners := list(h)
	status, _, _ = vera.call(http.MethodDelete, "/api/sign-ins/"+owners[0].ID, "")
	require.Equal(t, 404, status)
	tb, _, _ := there.tab("")
	status, _, _ = vera.call(http.MethodDelete, "/api/sign-ins/"+mine[1].ID, "")
	require.Equal(t, 200, status)
	require.Equal(t, wire.CloseBadAuth, tb.code())
	status, _ = there.get("/api/me")
	require.Equal(t, 401, status)
	require.Len(t, list(vera), 1)

	// All others, and not this one.
	for range 3 {
		_, _, err := h.auth.GrantTo(t.Context(), hitl.Principal{Kind: "person", ID: "vera"})
		require.NoError(t, err)
	}
	require.Len(t, list(vera), 4)
	status, _ = vera.post("/api/logout/others", "")
	require.Equal(t, 200, status)
	require.Len(t, list(vera), 1)
	require.Len(t, list(h), len(owners), "the owner stays")

	made, err := h.auth.NewToken(t.Context(), wire.NewAPIToken{Name: "ci", Roles: []wire.Grant{grant(wire.RoleViewer, "*")}, ExpiresIn: 60}, hitl.Principal{ID: "owner"})
	require.NoError(t, err)
	for _, c := range []struct{ method, path string }{{"GET", "/api/sign-ins"}, {"DELETE", "/api/sign-ins/" + mine[0].ID}, {"POST", "/api/logout/others"}} {
		status, _, _ := h.as(made.Token).call(c.method, c.path, "{}")
		require.Equal(t, 403, status, c.path)
	}
}

// Who may decide is told who else may, by the roles of now.
func TestTheAudienceOfARequest(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	call := bash("talk", "toolu_1")
	call.ProjectID = "shop"
	key := h.fake.ask(call).summary.Key
	ada := h.as(h.user("ada", grant(wire.RoleApprover, "shop")))
	h.user("bob", grant(wire.RoleAdmin, "*"))
	h.user("rita", grant(wire.RoleResponder, "shop"))
	bank := h.as(h.user("bank", grant(wire.RoleApprover, "bank")))
	h.user("gone", grant(wire.RoleApprover, "shop"))
	yes := true
	by := hitl.Principal{Kind: "person", ID: "owner"}
	_, err := h.auth.ChangeUser(t.Context(), "gone", wire.ChangeUser{Disabled: &yes}, by)
	require.NoError(t, err)
	for _, token := range []wire.NewAPIToken{
		{Name: "ci", Roles: []wire.Grant{grant(wire.RoleApprover, "shop")}, ExpiresIn: 60},
		{Name: "the asker's own", Roles: []wire.Grant{grant(wire.RoleApprover, "*")}, Owner: "agents", ExpiresIn: 60},
		{Name: "looks", Roles: []wire.Grant{grant(wire.RoleViewer, "*")}, ExpiresIn: 60},
	} {
		_, err := h.auth.NewToken(t.Context(), token, by)
		require.NoError(t, err)
	}
	status, raw := ada.get("/api/interactions/" + key + "/audience")
	require.Equal(t, 200, status, string(raw))
	require.JSONEq(t, `{"deciders":[{"id":"owner","name":"Ada"},{"id":"ada","name":"ada","you":true},{"id":"bob","name":"bob"}],"viewers":1,"programs":1}`, string(raw))
	status, _ = bank.get("/api/interactions/" + key + "/audience")
	require.Equal(t, 404, status)
	status, _ = ada.get("/api/interactions/default.agents.none/audience")
	require.Equal(t, 404, status)
}
