package door_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
)

// user makes a person with these roles who is signed in.
func (h *house) user(id string, roles ...wire.Grant) (token string) {
	h.t.Helper()
	by := hitl.Principal{Kind: "person", ID: "owner"}
	_, err := h.auth.AddUser(h.t.Context(), wire.NewUser{ID: id, Roles: roles}, by)
	require.NoError(h.t, err)
	token, _, err = h.auth.GrantTo(h.t.Context(), hitl.Principal{Kind: "person", ID: id})
	require.NoError(h.t, err)
	return token
}

func grant(name string, projects ...string) wire.Grant {
	return wire.Grant{Role: name, Projects: projects}
}

// as is the house for somebody else.
func (h *house) as(token string) *house {
	other := *h
	other.token = token
	return &other
}

// The words that stand in what is asked, said and answered.
const (
	inCall     = "SECRETCALL"
	inQuestion = "SECRETQUESTION"
	inTalk     = "SECRETTALK"
	inAnswer   = "SECRETANSWER"
)

// secrets are the words that somebody with a role may read in project shop.
var secrets = map[string][]string{
	"nobody":            nil,
	wire.RoleViewer:     nil,
	wire.RoleResponder:  {inQuestion, inTalk, inAnswer},
	wire.RoleApprover:   {inCall, inTalk},
	wire.RoleAdmin:      {inCall, inQuestion, inTalk, inAnswer},
	"approver of bank":  nil,
	"everything":        {inCall, inQuestion, inTalk, inAnswer},
	"viewer everywhere": nil,
}

// TestDetailFollowsTheRightToAnswer asks at every door, as everybody, and looks
// for the words in the bytes that came.
func TestDetailFollowsTheRightToAnswer(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	call := bash("talk", "toolu_1")
	call.ProjectID, call.Title = "shop", "Bash: "+inCall
	call.Tool.Input = json.RawMessage(`{"command":"echo ` + inCall + `"}`)
	q := question("talk", "toolu_2")
	q.ProjectID, q.Title = "shop", inQuestion
	q.Questions[0].Question = inQuestion + "?"
	answered := question("talk", "toolu_3")
	answered.ProjectID, answered.Title = "shop", inQuestion
	answered.Questions[0].Question = inQuestion + "?"
	asks := []*asked{h.fake.ask(call), h.fake.ask(q), h.fake.ask(answered)}
	key := asks[0].session
	h.fake.set(func(f *fake) {
		st := f.session(key, "talk")
		st.ProjectID, st.Title, st.Cwd = "shop", inTalk, "/"+inTalk
	})
	events := func() {
		h.fake.say(key, inTalk)
		h.fake.set(func(f *fake) {
			f.publish(key, []wire.Event{
				{Type: hitl.EventToolCallEnd, Data: text(wire.ToolCallEndData{Input: inCall, Blocks: []hitl.Block{}})},
				{Type: hitl.EventToolResult, Data: text(map[string]string{"content": inCall})},
			}, true, nil)
		})
	}
	events()
	h.fake.set(func(f *fake) {
		f.close(asks[2], hitl.Content{Outcome: hitl.Answered, Answers: []hitl.Answer{{QuestionID: "db", Other: inAnswer}}},
			hitl.Principal{Kind: "person", ID: "owner", Name: "Ada"}, "web")
	})

	tokens := map[string]string{
		"nobody":            h.user("nobody", grant(wire.RoleViewer, "nowhere")),
		"approver of bank":  h.user("bank", grant(wire.RoleApprover, "bank"), grant(wire.RoleResponder, "bank")),
		"everything":        h.token,
		"viewer everywhere": h.user("viewer-all", grant(wire.RoleViewer, "*")),
	}
	for _, name := range []string{wire.RoleViewer, wire.RoleResponder, wire.RoleApprover, wire.RoleAdmin} {
		tokens[name] = h.user(name, grant(name, "shop"))
	}
	for name, token := range tokens {
		t.Run(name, func(t *testing.T) {
			sees := name != "nobody" && name != "approver of bank"
			h := h.as(token)
			h.t = t
			check := func(door string, whole bool, raw []byte) {
				t.Helper()
				for _, word := range []string{inCall, inQuestion, inTalk, inAnswer} {
					allowed := false
					for _, w := range secrets[name] {
						allowed = allowed || w == word
					}
					if !allowed {
						require.NotContains(t, string(raw), word, "%s gives %s away to %s", door, word, name)
					} else if whole {
						require.Contains(t, string(raw), word, "%s hides %s from %s", door, word, name)
					}
				}
				require.Equal(t, sees, strings.Contains(string(raw), "talk"), "%s: %s", door, raw)
			}
			get := func(path string) []byte {
				status, raw := h.get(path)
				if !sees && strings.Contains(path, "/api/interactions/") {
					require.Equal(t, http.StatusNotFound, status)
					return nil
				}
				require.Equal(t, http.StatusOK, status, string(raw))
				return raw
			}
			check("GET /api/interactions", false, get("/api/interactions"))
			check("GET /api/interactions?state=closed", false, get("/api/interactions?state=closed"))
			var one []byte
			for _, a := range asks {
				one = append(one, get("/api/interactions/"+a.summary.Key)...)
			}
			check("GET /api/interactions/{id}", false, one)
			check("GET /api/sessions", false, get("/api/sessions"))

			tb, _, snapshot := h.tab("")
			check("snapshot", false, text(snapshot))
			tb.send(map[string]string{"type": "subscribe", "ref": "s", "session_id": key})
			rec := tb.receipt("s")
			if sees {
				require.Equal(t, hitl.Accepted, rec.Status)
				check("replay", true, tb.next(wire.TypeEvent))
			} else {
				require.Equal(t, hitl.NotFound, rec.Status)
			}
			check("SSE", true, h.stored(key, sees))
			check("feed", false, h.fed())
		})
	}

	t.Run("what happens now", func(t *testing.T) {
		tabs := map[string]*tab{}
		for name, token := range tokens {
			h := h.as(token)
			h.t = t
			tb, _, _ := h.tab("")
			tb.send(map[string]string{"type": "subscribe", "ref": "s", "session_id": key})
			if tb.receipt("s").Status == hitl.Accepted {
				for more := true; more; { // until the replay has ended, what happens is held back
					var page wire.Events
					require.NoError(t, json.Unmarshal(tb.next(wire.TypeEvent), &page))
					more = page.More
				}
			}
			tabs[name] = tb
		}
		more := bash("talk", "toolu_9")
		more.ProjectID, more.Title, more.Tool.Input = "shop", inCall, json.RawMessage(`{"command":"`+inCall+`"}`)
		h.fake.ask(more)
		events()
		h.fake.delta(key, inTalk)
		h.fake.set(func(f *fake) {
			f.close(asks[1], hitl.Content{Outcome: hitl.Answered, Answers: []hitl.Answer{{QuestionID: "db", Other: inAnswer}}},
				hitl.Principal{Kind: "person", ID: "owner", Name: "Ada"}, "web")
		})
		for name, tb := range tabs {
			tb.send(map[string]string{"type": "bogus", "ref": "end"})
			var all []byte
			for {
				raw, err := tb.frame()
				require.NoError(t, err)
				var hd head
				require.NoError(t, json.Unmarshal(raw, &hd))
				if hd.Type == wire.TypeReceipt && hd.Ref == "end" {
					break
				}
				all = append(all, raw...)
			}
			for _, word := range []string{inCall, inQuestion, inTalk, inAnswer} {
				allowed := false
				for _, w := range secrets[name] {
					allowed = allowed || w == word
				}
				require.Equal(t, allowed, strings.Contains(string(all), word), "%s: %s", name, word)
			}
			sees := name != "nobody" && name != "approver of bank"
			require.Equal(t, sees, strings.Contains(string(all), wire.TypeProcessState), name)
		}
	})
}

// fed reads the feed's hello and snapshot.
func (h *house) fed() []byte {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.url+"/api/events", nil)
	require.NoError(h.t, err)
	req.Header.Set("Authorization", "Bearer "+h.token)
	res, err := http.DefaultClient.Do(req)
	require.NoError(h.t, err)
	defer func() { _ = res.Body.Close() }()
	require.Equal(h.t, http.StatusOK, res.StatusCode)
	var all []byte
	buf := make([]byte, 64<<10)
	for !strings.Contains(string(all), `"more":false`) {
		n, err := res.Body.Read(buf)
		require.NoError(h.t, err)
		all = append(all, buf[:n]...)
	}
	return all
}

// stored reads the stored part of a session as server-sent events.
func (h *house) stored(key string, sees bool) []byte {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.url+"/api/sessions/"+key+"/events", nil)
	require.NoError(h.t, err)
	req.Header.Set("Authorization", "Bearer "+h.token)
	res, err := http.DefaultClient.Do(req)
	require.NoError(h.t, err)
	defer func() { _ = res.Body.Close() }()
	if !sees {
		require.Equal(h.t, http.StatusNotFound, res.StatusCode)
		return nil
	}
	require.Equal(h.t, http.StatusOK, res.StatusCode)
	var all []byte
	buf := make([]byte, 64<<10)
	for !strings.Contains(string(all), ": live\n") {
		n, err := res.Body.Read(buf)
		require.NoError(h.t, err)
		all = append(all, buf[:n]...)
	}
	return all
}

// A viewer must hear that nothing waits any more, and nothing of sessions that
// were never the viewer's to see.
func TestAnEndIsToldToWhoSawTheBeginning(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	mine, other := bash("mine", "1"), bash("other", "2")
	mine.ProjectID, other.ProjectID = "shop", "bank"
	a := h.fake.ask(mine)
	h.fake.ask(other)
	token := h.user("vera", grant(wire.RoleViewer, "shop"))
	tb, _, snapshot := h.as(token).tab("")
	require.Len(t, snapshot, 1)
	require.Equal(t, a.session, snapshot[0].SessionKey)
	require.Equal(t, 1, snapshot[0].PendingCount)
	h.fake.set(func(f *fake) {
		f.mute = true
		f.close(a, hitl.Content{Outcome: hitl.Expired}, hitl.Principal{Kind: "system"}, "deadline")
	})
	h.fake.set(func(f *fake) { f.mute = false; f.publish(a.session, nil, true, nil) })
	var st wire.ProcessState
	require.NoError(t, json.Unmarshal(tb.next(wire.TypeProcessState), &st))
	require.Equal(t, a.session, st.SessionKey)
	require.Empty(t, st.PendingRequests)
	require.Nil(t, st.PendingRequest)
}

func TestCommandsTakeARole(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	key := h.fake.open("talk")
	h.fake.set(func(f *fake) { f.sessions[key].ProjectID = "shop" })
	post := func(token, path, body string) int {
		status, _ := h.as(token).post(path, body)
		return status
	}
	for name, c := range map[string]struct{ message, mode, start int }{
		wire.RoleViewer:    {403, 403, 403},
		wire.RoleResponder: {200, 403, 403},
		wire.RoleApprover:  {200, 200, 200},
		wire.RoleAdmin:     {200, 200, 200},
	} {
		token := h.user(name, grant(name, "shop"))
		at := "/api/sessions/" + key
		require.Equal(t, c.message, post(token, at+"/message", `{"text":"hello"}`), name)
		require.Equal(t, c.message, post(token, at+"/stop", `{}`), name)
		require.Equal(t, c.mode, post(token, at+"/mode", `{"mode":"bypassPermissions"}`), name)
		require.Equal(t, c.start, post(token, "/api/sessions", `{"runtime":"demo","project_id":"shop"}`), name)
		require.Equal(t, 403, post(token, "/api/sessions", `{"runtime":"demo"}`), name)
		require.Equal(t, 403, post(token, "/api/sessions", `{"runtime":"demo","project_id":"bank"}`), name)
	}
	h.fake.set(func(f *fake) {
		f.asked = func(string, hitl.Principal, []byte, time.Duration) (*wire.AskReply, *wire.Error) {
			return &wire.AskReply{Status: wire.AskPending, ID: "i"}, nil
		}
	})
	for name, want := range map[string]int{wire.RoleViewer: 200, wire.RoleAdmin: 200} {
		token, _, err := h.auth.GrantTo(t.Context(), hitl.Principal{Kind: "person", ID: name})
		require.NoError(t, err)
		require.Equal(t, want, post(token, "/api/interactions?wait=0s", `{"key":"k","kind":"approval","title":"t","project_id":"shop"}`), name)
		require.Equal(t, 403, post(token, "/api/interactions?wait=0s", `{"key":"k","kind":"approval","title":"t","project_id":"bank"}`), name)
		require.Equal(t, 403, post(token, "/api/interactions?wait=0s", `{"key":"k","kind":"approval","title":"t"}`), name)
	}
	stranger := h.user("stranger", grant(wire.RoleAdmin, "bank"))
	require.Equal(t, 404, post(stranger, "/api/sessions/"+key+"/message", `{"text":"hello"}`))
	require.Len(t, h.fake.commands, 3*2+2)
}

// A token that is revoked, and a person who is disabled or changed, lose their
// sockets.
func TestWhoLosesTheRightLosesTheSocket(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	by := hitl.Principal{Kind: "person", ID: "owner"}
	token, err := h.auth.NewToken(t.Context(), wire.NewAPIToken{Name: "ci", Roles: []wire.Grant{grant(wire.RoleViewer, "*")}, ExpiresIn: 60}, by)
	require.NoError(t, err)
	person := h.user("vera", grant(wire.RoleViewer, "*"))
	for name, c := range map[string]struct {
		token string
		end   func() error
	}{
		"a revoked token": {token.Token, func() error { return h.auth.RevokeToken(context.Background(), token.ID, by) }},
		"a disabled person": {person, func() error {
			yes := true
			_, err := h.auth.ChangeUser(context.Background(), "vera", wire.ChangeUser{Disabled: &yes}, by)
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			other := h.as(c.token)
			other.t = t
			tb, _, _ := other.tab("")
			require.NoError(t, c.end())
			require.Equal(t, wire.CloseBadAuth, tb.code())
			status, _ := other.get("/api/me")
			require.Equal(t, http.StatusUnauthorized, status)
			tb, _, err := other.dial()
			require.NoError(t, err)
			tb.send(map[string]string{"type": "auth", "token": c.token})
			require.Equal(t, wire.CloseBadAuth, tb.code())
		})
	}
}

func TestManagingPeopleAndTokens(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for name, token := range map[string]string{
		"admin of one project": h.user("one", grant(wire.RoleAdmin, "shop")),
		"approver":             h.user("all", grant(wire.RoleApprover, "*"), grant(wire.RoleResponder, "*")),
	} {
		for _, route := range []string{"GET /api/users", "POST /api/users", "POST /api/users/one", "POST /api/users/one/logout", "GET /api/tokens", "POST /api/tokens", "DELETE /api/tokens/abc"} {
			method, path, _ := strings.Cut(route, " ")
			status, _, _ := h.as(token).call(method, path, "{}")
			require.Equal(t, http.StatusForbidden, status, "%s: %s", name, route)
		}
	}
	status, raw := h.post("/api/tokens", `{"name":"ci","roles":[{"role":"admin","projects":["*"]}],"expires_in":3600}`)
	require.Equal(t, 200, status, string(raw))
	var made wire.CreatedAPIToken
	require.NoError(t, json.Unmarshal(raw, &made))
	status, _ = h.as(made.Token).get("/api/tokens")
	require.Equal(t, http.StatusForbidden, status, "a program manages nobody, whatever its role")
	status, raw = h.as(made.Token).get("/api/me")
	require.Equal(t, 200, status)
	require.Contains(t, string(raw), `"kind":"service"`)

	// It is listed without its secret, and as used.
	status, raw = h.get("/api/tokens")
	require.Equal(t, 200, status)
	require.NotContains(t, string(raw), made.Token)
	var list wire.APITokenList
	require.NoError(t, json.Unmarshal(raw, &list))
	require.Len(t, list.Tokens, 1)
	require.NotNil(t, list.Tokens[0].LastUsed)
	require.WithinDuration(t, time.Now(), *list.Tokens[0].LastUsed, time.Hour)
	status, _, _ = h.call(http.MethodDelete, "/api/tokens/"+made.ID, "")
	require.Equal(t, 200, status)
	status, _, _ = h.call(http.MethodDelete, "/api/tokens/ffffffffffff", "")
	require.Equal(t, 404, status)

	for body, field := range map[string]string{
		`{"id":"Ada","roles":[{"role":"viewer","projects":["*"]}]}`:    "id",
		`{"id":"owner","roles":[{"role":"viewer","projects":["*"]}]}`:  "id",
		`{"id":"oidc-1","roles":[{"role":"viewer","projects":["*"]}]}`: "id",
		`{"id":"ada"}`: "roles",
		`{"id":"ada","roles":[{"role":"root","projects":["*"]}]}`: "roles.0.role",
	} {
		status, raw := h.post("/api/users", body)
		require.Equal(t, 400, status, body)
		require.Equal(t, field, httpError(t, raw).Fields[0].Field, body)
	}
	status, _ = h.post("/api/users", `{"id":"ada","name":"Ada L.","roles":[{"role":"viewer","projects":["*"]}]}`)
	require.Equal(t, 200, status)
	status, _ = h.post("/api/users", `{"id":"ada","roles":[{"role":"admin","projects":["*"]}]}`)
	require.Equal(t, 409, status, "an id is given once")
	status, raw = h.post("/api/users/owner", `{"disabled":true}`)
	require.Equal(t, 400, status, string(raw))
	status, _ = h.post("/api/users/ghost", `{"disabled":true}`)
	require.Equal(t, 404, status)
}

func TestSignOutEverywhere(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	here := h.user("vera", grant(wire.RoleViewer, "*"))
	there, _, err := h.auth.GrantTo(t.Context(), hitl.Principal{Kind: "person", ID: "vera"})
	require.NoError(t, err)
	status, _ := h.as(here).post("/api/logout/everywhere", "")
	require.Equal(t, 200, status)
	for i, token := range []string{here, there} {
		status, _ := h.as(token).get("/api/me")
		require.Equal(t, http.StatusUnauthorized, status, fmt.Sprint(i))
	}
	status, _ = h.get("/api/me")
	require.Equal(t, 200, status, "others stay")
}
