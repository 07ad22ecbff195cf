package door_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/auth"
	"github.com/banksman/banksman/services/gateway/internal/door"
)

// Each row is one request against an approval and a question that are pending
// in session s1, and an approval in session s2.
func TestHTTPStatusOfEveryAnswer(t *testing.T) {
	t.Parallel()
	type row struct {
		name, path, body string
		status           int
		fields           []string // named by the error
		text             string   // of the error
		settles          string   // which of the three is decided: a, q, b or nothing
	}
	rows := []row{
		{"D0-26 D4-07 submit-answers", "/api/sessions/s1/submit-answers", `{"tool_call_id":"cq","answers":{"db":"SQLite"}}`, 200, nil, "", "q"},
		{"D0-26 by request id", "/api/sessions/s1/submit-answers", `{"request_id":"$q","answers":{"db":"SQLite"}}`, 200, nil, "", "q"},
		{"D0-27 nothing named", "/api/sessions/s1/submit-answers", `{}`, 400, []string{"request_id", "answers"}, "tool_call_id", ""},
		{"D0-27 no answers", "/api/sessions/s1/submit-answers", `{"tool_call_id":"cq"}`, 400, []string{"answers"}, "answers", ""},
		{"D0-27 no call", "/api/sessions/s1/submit-answers", `{"answers":{"db":"SQLite"}}`, 400, []string{"request_id"}, "tool_call_id", ""},
		{"D0-28 unknown session", "/api/sessions/none/submit-answers", `{"tool_call_id":"cq","answers":{"db":"SQLite"}}`, 404, nil, "No pending question", ""},
		{"D0-28 unknown call", "/api/sessions/s1/submit-answers", `{"tool_call_id":"cx","answers":{"db":"SQLite"}}`, 404, nil, "No pending question", ""},
		{"D0-28 D2-12 wrong kind", "/api/sessions/s1/submit-answers", `{"tool_call_id":"ca","answers":{"db":"SQLite"}}`, 404, nil, "No pending question", ""},
		{"D0-28 D2-12 approve a question", "/api/sessions/s1/approve", `{"tool_call_id":"cq"}`, 404, nil, "No pending approval", ""},
		{"D0-29 approve D2-08", "/api/sessions/s1/approve", `{"tool_call_id":"ca"}`, 200, nil, "", "a"},
		{"D0-29 deny D2-08", "/api/sessions/s1/deny", `{"tool_call_id":"ca","message":"not on Fridays"}`, 200, nil, "", "a"},
		{"D0-43 unknown question B-08", "/api/sessions/s1/submit-answers", `{"tool_call_id":"cq","answers":{"nope":"SQLite"}}`, 400, []string{"answers.nope"}, "nope", ""},
		{"D0-43 value is no text", "/api/sessions/s1/submit-answers", `{"tool_call_id":"cq","answers":{"db":7}}`, 400, []string{"answers.db"}, "db", ""},
		{"C-19 empty answers", "/api/sessions/s1/submit-answers", `{"tool_call_id":"cq","answers":{}}`, 400, []string{"answers.db"}, "answers", ""},
		{"D0-44 call of another session", "/api/sessions/s2/approve", `{"tool_call_id":"ca"}`, 404, nil, "No pending approval", ""},
		{"D0-44 id of another session", "/api/sessions/s2/approve", `{"request_id":"$a"}`, 404, nil, "No pending approval", ""},
		{"D0-44 session contradicts", "/api/sessions/s1/approve", `{"request_id":"$b","session_id":"s2"}`, 400, []string{"session_id"}, "session_id", ""},
		{"an edit is not dropped", "/api/sessions/s1/approve", `{"tool_call_id":"ca","updated_input":"{}"}`, 400, []string{"updated_input"}, "decision", ""},
		{"answers to an approval", "/api/sessions/s1/approve", `{"tool_call_id":"ca","answers":{"db":"x"}}`, 400, []string{"answers"}, "", ""},
		{"approve that says deny", "/api/sessions/s1/approve", `{"tool_call_id":"ca","decision":"deny"}`, 400, []string{"decision"}, "", ""},
		{"approve with another digest", "/api/sessions/s1/approve", `{"tool_call_id":"ca","digest":"00"}`, 400, nil, "shown", ""},
		{"decision", "/api/interactions/$a/decision", `{"decision":"allow","digest":"$da"}`, 200, nil, "", "a"},
		{"D1-47 D1-21 neither allow nor deny", "/api/interactions/$a/decision", `{"decision":"yes","digest":"$da"}`, 400, []string{"decision"}, "allow or deny", ""},
		{"D2-12 wrong kind is 400 here", "/api/interactions/$a/decision", `{"answers":{"db":"x"},"digest":"$da"}`, 400, []string{"answers"}, "", ""},
		{"D2-12 wrong request type", "/api/interactions/$a/decision", `{"decision":"allow","request_type":"form","digest":"$da"}`, 400, []string{"request_type"}, "", ""},
		{"D2-11 unknown interaction", "/api/interactions/none/decision", `{"decision":"allow","digest":"$da"}`, 404, nil, "No pending interaction", ""},
		{"digest missing", "/api/interactions/$a/decision", `{"decision":"allow"}`, 400, []string{"digest"}, "", ""},
		{"digest of another", "/api/interactions/$a/decision", `{"decision":"allow","digest":"$db"}`, 400, nil, "shown", ""},
		{"address contradicted", "/api/interactions/$a/decision", `{"decision":"allow","digest":"$da","request_id":"$b"}`, 400, []string{"request_id"}, "", ""},
		{"D0-44 session of another", "/api/interactions/$a/decision", `{"decision":"allow","digest":"$da","session_id":"s2"}`, 404, nil, "No pending interaction", ""},
		{"duplicate key", "/api/interactions/$a/decision", `{"decision":"deny","digest":"$da","decision":"allow"}`, 400, []string{"decision"}, "twice", ""},
		{"duplicate key in another case", "/api/interactions/$a/decision", `{"decision":"deny","digest":"$da","Decision":"allow"}`, 400, []string{"Decision"}, "twice", ""},
		{"no JSON", "/api/interactions/$a/decision", `decision=allow`, 400, []string{"body"}, "JSON", ""},
		{"empty", "/api/interactions/$a/decision", ``, 400, []string{"body"}, "empty", ""},
		{"wrong type", "/api/interactions/$a/decision", `{"decision":true,"digest":"$da"}`, 400, []string{"decision"}, "bool", ""},
	}
	h := newHouse(t)
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			h.t = t
			h.fake.reset()
			ix := map[string]*asked{
				"a": h.fake.ask(bash("s1", "ca")), "q": h.fake.ask(question("s1", "cq")), "b": h.fake.ask(bash("s2", "cb")),
			}
			fill := strings.NewReplacer("$a", ix["a"].req.ID, "$q", ix["q"].req.ID, "$b", ix["b"].req.ID,
				"$da", ix["a"].summary.Digest, "$db", ix["b"].summary.Digest)
			status, raw := h.post(fill.Replace(r.path), fill.Replace(r.body))
			require.Equal(t, r.status, status, string(raw))
			for name, a := range ix {
				require.Equal(t, name != r.settles, h.fake.pending(a), "%s is pending", name)
			}
			if status == http.StatusOK {
				if strings.HasPrefix(r.path, "/api/sessions/") {
					require.JSONEq(t, `{"ok":true}`, string(raw))
				}
				d := h.fake.decided(ix[r.settles])
				require.Equal(t, hitl.Principal{Kind: "person", ID: "owner", Name: "Ada"}, d.Principal)
				require.Equal(t, "web", d.Channel)
				return
			}
			e := httpError(t, raw)
			require.Equal(t, r.fields, fieldNames(e.Fields))
			require.Contains(t, e.Error, r.text)
		})
	}
}

func TestRefusedAnswerLeavesRoomForARightOne(t *testing.T) {
	t.Parallel()
	t.Run("B-08", func(t *testing.T) {
		h := newHouse(t)
		q := h.fake.ask(question("s1", "cq"))
		status, raw := h.post("/api/sessions/s1/submit-answers", `{"tool_call_id":"cq","answers":{"wrong":"SQLite"}}`)
		require.Equal(t, 400, status)
		require.Contains(t, string(raw), "wrong")
		require.True(t, h.fake.pending(q))
		status, _ = h.post("/api/sessions/s1/submit-answers", `{"tool_call_id":"cq","answers":{"db":"SQLite"}}`)
		require.Equal(t, 200, status)
		require.Equal(t, []hitl.Answer{{QuestionID: "db", Values: []string{"SQLite"}}}, h.fake.decided(q).Answers)
	})
}

func TestLateAnswersSayWhoWon(t *testing.T) {
	t.Parallel()
	t.Run("C-12 invariant 6", func(t *testing.T) {
		h := newHouse(t)
		t.Run("B-03 409 already decided, with the winner", func(t *testing.T) {
			a := h.fake.ask(bash("s1", "c1"))
			body := fmt.Sprintf(`{"decision":"allow","digest":%q}`, a.summary.Digest)
			status, raw := h.post("/api/interactions/"+a.summary.Key+"/decision", body)
			require.Equal(t, 200, status)
			var rec wire.Receipt
			require.NoError(t, json.Unmarshal(raw, &rec))
			require.Equal(t, hitl.Accepted, rec.Status)
			status, raw = h.post("/api/sessions/s1/deny", `{"tool_call_id":"c1"}`)
			require.Equal(t, 409, status)
			e := httpError(t, raw)
			require.Equal(t, "already_decided", e.Code)
			require.Equal(t, hitl.Allowed, e.Decision.Outcome)
			require.Empty(t, e.Decision.RequestB64)
			require.Equal(t, hitl.Allowed, h.fake.decided(a).Outcome)
		})
		t.Run("C-10 the same answer again is a duplicate, 200", func(t *testing.T) {
			a := h.fake.ask(bash("s1", "c2"))
			for _, want := range []hitl.Status{hitl.Accepted, hitl.Duplicate} {
				status, raw := h.post("/api/interactions/"+a.req.ID+"/decision", fmt.Sprintf(`{"decision":"deny","digest":%q}`, a.summary.Digest))
				require.Equal(t, 200, status)
				var rec wire.Receipt
				require.NoError(t, json.Unmarshal(raw, &rec))
				require.Equal(t, want, rec.Status)
				require.Equal(t, "owner", rec.Decision.Principal.ID)
			}
		})
		t.Run("410 expired", func(t *testing.T) {
			a := h.fake.ask(bash("s1", "c3"))
			h.fake.later(time.Hour)
			status, raw := h.post("/api/sessions/s1/approve", `{"tool_call_id":"c3"}`)
			require.Equal(t, 410, status)
			require.Equal(t, hitl.Expired, httpError(t, raw).Decision.Outcome)
			require.Equal(t, hitl.Expired, h.fake.decided(a).Outcome)
		})
		t.Run("403 forbidden B-30", func(t *testing.T) {
			a := h.fake.ask(bash("s1", "c4"))
			h.fake.set(func(f *fake) { f.forbid = true })
			status, raw := h.post("/api/sessions/s1/approve", `{"tool_call_id":"c4"}`)
			require.Equal(t, 403, status)
			require.Equal(t, "forbidden", httpError(t, raw).Code)
			require.True(t, h.fake.pending(a))
		})
	})
}

func TestNobodyDecidesWithoutASession(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	a := h.fake.ask(bash("s1", "c1"))
	link, _, err := h.auth.Link(t.Context())
	require.NoError(t, err)
	paths := []string{
		"POST /api/sessions/s1/approve", "POST /api/interactions/" + a.req.ID + "/decision", "GET /api/interactions",
		"GET /api/interactions/" + a.req.ID, "GET /api/sessions", "GET /api/sessions/s1/events", "GET /api/me",
		"POST /api/sessions", "POST /api/demo", "POST /api/sessions/s1/stop", "GET /api/cli-logins", "POST /api/cli-logins/ABCDEFGH",
	}
	for name, header := range map[string]string{
		"none": "", "no bearer": "Basic abc", "an owner's seed": "Bearer SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY",
		"a login link's token": "Bearer " + link, "made up": "Bearer " + strings.Repeat("A", 43),
	} {
		for _, p := range paths {
			method, path, _ := strings.Cut(p, " ")
			status, raw, hdr := h.call(method, path, `{"tool_call_id":"c1"}`, func(r *http.Request) { r.Header.Set("Authorization", header) })
			require.Equal(t, 401, status, "%s %s", name, p)
			require.Equal(t, "unauthorized", httpError(t, raw).Code)
			require.Equal(t, "Bearer", hdr.Get("WWW-Authenticate"))
		}
	}
	require.True(t, h.fake.pending(a))
}

func TestGetChangesNothing(t *testing.T) {
	t.Parallel()
	t.Run("B-62", func(t *testing.T) {
		h := newHouse(t)
		a := h.fake.ask(bash("s1", "c1"))
		link, _, err := h.auth.Link(t.Context())
		require.NoError(t, err)
		req, _, err := h.auth.RequestCLI(t.Context(), "laptop", false)
		require.NoError(t, err)
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			for _, path := range []string{
				"/api/sessions/s1/approve?tool_call_id=c1", "/api/interactions/" + a.req.ID + "/decision?decision=allow",
				"/api/login?token=" + link, "/api/demo",
			} {
				status, _, hdr := h.call(method, path, "")
				require.Equal(t, 405, status, "%s %s", method, path)
				require.Equal(t, "POST", hdr.Get("Allow"))
			}
			status, _, _ := h.call(method, "/api/cli-logins/"+req.Code+"?allow=true", "")
			require.Equal(t, 200, status, "it tells what waits")
		}
		require.True(t, h.fake.pending(a))
		waiting, err := h.auth.WaitingCLI(t.Context())
		require.NoError(t, err)
		require.Len(t, waiting, 1)
		status, raw := h.post("/api/login", fmt.Sprintf(`{"token":%q}`, link))
		require.Equal(t, 200, status, "the link still works: %s", raw)
	})
}

func TestLoginOnce(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	link, _, err := h.auth.Link(t.Context())
	require.NoError(t, err)
	status, raw := h.post("/api/login", fmt.Sprintf(`{"token":%q}`, link))
	require.Equal(t, 200, status)
	var in struct {
		Token     string    `json:"token"`
		ExpiresAt time.Time `json:"expires_at"`
	}
	require.NoError(t, json.Unmarshal(raw, &in))
	require.WithinDuration(t, time.Now().Add(auth.SessionTTL), in.ExpiresAt, time.Minute)
	status, raw = h.post("/api/login", fmt.Sprintf(`{"token":%q}`, link))
	require.Equal(t, 401, status)
	require.Equal(t, "unauthorized", httpError(t, raw).Code)
	for _, bad := range []string{`{}`, `{"token":""}`, `{"token":3}`, `[]`} {
		status, raw = h.post("/api/login", bad)
		require.Equal(t, 400, status, bad)
		require.NotEmpty(t, httpError(t, raw).Fields, bad)
	}
	h.token = in.Token
	status, raw = h.get("/api/me")
	require.Equal(t, 200, status)
	require.Contains(t, string(raw), `"principal":{"kind":"person","id":"owner","name":"Ada"}`)
	status, _ = h.post("/api/logout", `{}`)
	require.Equal(t, 200, status)
	status, _ = h.get("/api/me")
	require.Equal(t, 401, status)
}

func TestTerminalLoginIsConfirmedInTheBrowser(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	req, poll, err := h.auth.RequestCLI(t.Context(), "laptop", false)
	require.NoError(t, err)
	status, raw := h.get("/api/cli-logins")
	require.Equal(t, 200, status)
	var list struct{ Requests []auth.CLIRequest }
	require.NoError(t, json.Unmarshal(raw, &list))
	require.Equal(t, "laptop", list.Requests[0].Name)
	status, raw = h.post("/api/cli-logins/"+req.Code, `{}`)
	require.Equal(t, 400, status)
	require.Equal(t, []string{"allow"}, fieldNames(httpError(t, raw).Fields))
	status, _ = h.post("/api/cli-logins/ZZZZZZZZ", `{"allow":true}`)
	require.Equal(t, 404, status)
	status, _ = h.post("/api/cli-logins/"+req.Code, `{"allow":true}`)
	require.Equal(t, 200, status)
	_, token, sess, err := h.auth.PollCLI(t.Context(), poll)
	require.NoError(t, err)
	require.Equal(t, "cli", sess.Channel)

	// What a terminal's session decides says so, and it lets in no other.
	a := h.fake.ask(bash("s1", "c1"))
	h.token = token
	status, _ = h.post("/api/sessions/s1/approve", `{"tool_call_id":"c1"}`)
	require.Equal(t, 200, status)
	require.Equal(t, "cli", h.fake.decided(a).Channel)
	req, _, err = h.auth.RequestCLI(t.Context(), "another", false)
	require.NoError(t, err)
	status, _ = h.post("/api/cli-logins/"+req.Code, `{"allow":true}`)
	require.Equal(t, 403, status)
}

func TestLists(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	a, b := h.fake.ask(bash("s1", "c1")), h.fake.ask(question("s2", "c2"))
	status, raw := h.get("/api/interactions?state=pending&limit=1")
	require.Equal(t, 200, status)
	var list wire.ListReply
	require.NoError(t, json.Unmarshal(raw, &list))
	require.Len(t, list.Interactions, 1)
	require.Equal(t, a.req.ID, list.Interactions[0].ID)
	status, raw = h.get("/api/interactions?state=closed")
	require.Equal(t, 200, status)
	require.JSONEq(t, `{"interactions":[]}`, string(raw))
	for query, field := range map[string]string{"state=open": "state", "limit=0": "limit", "limit=x": "limit", "limit=1001": "limit"} {
		status, raw = h.get("/api/interactions?" + query)
		require.Equal(t, 400, status, query)
		require.Equal(t, []string{field}, fieldNames(httpError(t, raw).Fields))
	}
	status, raw = h.get("/api/interactions/" + b.summary.Key)
	require.Equal(t, 200, status)
	var ix wire.Interaction
	require.NoError(t, json.Unmarshal(raw, &ix))
	require.Equal(t, "pending", ix.State)
	require.NotNil(t, ix.Body)
	status, raw = h.get("/api/interactions/none")
	require.Equal(t, 404, status)
	require.Equal(t, "not_found", httpError(t, raw).Code)
	status, raw = h.get("/api/sessions")
	require.Equal(t, 200, status)
	require.Contains(t, string(raw), `"session_key":"default.agents.s1"`)
	require.Contains(t, string(raw), h.fake.Cursor())
}

func TestStartAndCommand(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	start := func(body string) string {
		status, raw := h.post("/api/sessions", body)
		require.Equal(t, 200, status, string(raw))
		var out struct {
			SessionID string `json:"session_id"`
		}
		require.NoError(t, json.Unmarshal(raw, &out))
		return out.SessionID
	}
	one := start(`{"prompt":"hello","runtime":"claude","command_id":"x"}`)
	require.Equal(t, one, start(`{"prompt":"hello","runtime":"claude","command_id":"x"}`), "the same command is the same session")
	require.NotEqual(t, one, start(`{"prompt":"hello","runtime":"claude","command_id":"y"}`))
	st := h.fake.started[0]
	require.Equal(t, "/home/ada", st.Cwd)
	require.Equal(t, "agents", st.Pool)
	require.Equal(t, "owner", st.StartedBy.ID)
	for body, field := range map[string]string{
		`{"prompt":"hi"}`: "runtime", `{"prompt":" ","runtime":"claude"}`: "prompt", `{"prompt":"hi","runtime":"gpt"}`: "runtime",
	} {
		status, raw := h.post("/api/sessions", body)
		require.Equal(t, 400, status, body)
		require.Equal(t, []string{field}, fieldNames(httpError(t, raw).Fields))
	}
	status, raw := h.post("/api/demo", "")
	require.Equal(t, 200, status)
	require.Contains(t, string(raw), `"session_id":"default.agents.`)

	h.fake.open("s1")
	for path, body := range map[string]string{
		"message": `{"text":"go on","command_id":"m1"}`, "interrupt": ``, "stop": `{}`, "mode": `{"mode":"plan"}`,
	} {
		status, raw := h.post("/api/sessions/s1/"+path, body)
		require.Equal(t, 200, status, "%s: %s", path, raw)
	}
	require.Len(t, h.fake.commands, 4)
	for _, c := range h.fake.commands {
		require.NotEmpty(t, c.CommandID)
	}
	status, raw = h.post("/api/sessions/s1/mode", `{}`)
	require.Equal(t, 400, status)
	require.Equal(t, []string{"mode"}, fieldNames(httpError(t, raw).Fields))
	status, _ = h.post("/api/sessions/none/stop", ``)
	require.Equal(t, 404, status)
	h.fake.set(func(f *fake) {
		f.reply = func(hitl.Command) (hitl.CommandReply, error) {
			return hitl.CommandReply{Status: "failed", Error: "the process is gone"}, nil
		}
	})
	status, raw = h.post("/api/sessions/s1/stop", ``)
	require.Equal(t, 503, status)
	require.Equal(t, "the process is gone", httpError(t, raw).Error)
	h.fake.set(func(f *fake) { f.runtimes = nil })
	status, raw = h.post("/api/demo", ``)
	require.Equal(t, 503, status)
	require.Contains(t, httpError(t, raw).Error, "no agent worker")
}

func TestBodyLimit(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	a := h.fake.ask(bash("s1", "c1"))
	body := fmt.Sprintf(`{"decision":"deny","digest":%q,"message":%q}`, a.summary.Digest, strings.Repeat("x", 2<<20))
	status, raw := h.post("/api/interactions/"+a.req.ID+"/decision", body)
	require.Equal(t, 413, status)
	require.Equal(t, "too_large", httpError(t, raw).Code)
	require.True(t, h.fake.pending(a))
}

func TestNothingIsListedBeforeItIsLoaded(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(o *door.Options) { o.Engine.(*fake).ready = make(chan struct{}) })
	status, raw := h.get("/api/interactions")
	require.Equal(t, 503, status)
	require.Equal(t, "unavailable", httpError(t, raw).Code)
	status, _ = h.get("/readyz")
	require.Equal(t, 503, status)
	status, _ = h.get("/healthz")
	require.Equal(t, 200, status)
	close(h.fake.ready)
	status, _ = h.get("/readyz")
	require.Equal(t, 200, status)
	status, _ = h.get("/api/interactions")
	require.Equal(t, 200, status)
}
