package hitl_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
)

func TestParseRequest(t *testing.T) {
	t.Parallel()
	edit := func(r *hitl.Request, f func(*hitl.Request)) *hitl.Request {
		f(r)
		return r
	}
	for _, c := range []struct {
		name string
		r    *hitl.Request
		bad  []string
	}{
		{"approval", approval(), nil},
		{"question", question(choose("Which?", "A", "B")), nil},
		{"free text only", question(choose("Why?")), nil},
		{"form", form(`{"type":"object"}`), nil},
		{"an unknown kind passes", edit(approval(), func(r *hitl.Request) { r.Kind, r.Tool = "haiku", nil }), nil},
		{"nothing", &hitl.Request{}, []string{"v", "id", "kind", "tenant", "owner", "session_id", "title"}},
		{"blank title", edit(approval(), func(r *hitl.Request) { r.Title = " \n" }), []string{"title"}},
		{"long title", edit(approval(), func(r *hitl.Request) { r.Title = strings.Repeat("ä", hitl.MaxTitle+1) }), []string{"title"}},
		{"title at its limit", edit(approval(), func(r *hitl.Request) { r.Title = strings.Repeat("ä", hitl.MaxTitle) }), nil},
		{"long key", edit(approval(), func(r *hitl.Request) { r.Key = strings.Repeat("k", hitl.MaxIdentifier+1) }), []string{"key"}},
		{"another version", edit(approval(), func(r *hitl.Request) { r.V = 2 }), []string{"v"}},
		{"unknown risk", edit(approval(), func(r *hitl.Request) { r.Risk = "extreme" }), []string{"risk"}},
		{"no tool", edit(approval(), func(r *hitl.Request) { r.Tool = nil }), []string{"tool"}},
		{"no tool name", edit(approval(), func(r *hitl.Request) { r.Tool.Name = "" }), []string{"tool.name"}},
		{"no question", question(), []string{"questions"}},
		{"D1-05 five questions", question(choose("1"), choose("2"), choose("3"), choose("4"), choose("5")), []string{"questions"}},
		{"D1-05 four questions", question(choose("1"), choose("2"), choose("3"), choose("4")), nil},
		{"an empty question", question(choose("", "A")), []string{"questions[0].question"}},
		{"an empty label", question(choose("?", "A", "")), []string{"questions[0].options[1].label"}},
		{"a label twice", question(choose("?", "A", "A")), []string{"questions[0].options[1].label"}},
		{"a value twice", question(hitl.Question{Question: "?", Options: []hitl.Option{{Value: "1", Label: "A"}, {Value: "1", Label: "B"}}}), []string{"questions[0].options[1].label"}},
		{"an id twice", question(hitl.Question{ID: "1", Question: "a"}, hitl.Question{Question: "b"}), []string{"questions[1].id"}},
		{"no way to answer", question(hitl.Question{Question: "?", AllowOther: no()}), []string{"questions[0].options"}},
		{"a secret", question(hitl.Question{Question: "Password?", Secret: true}), []string{"questions[0].secret"}},
		{"no schema", form(``), []string{"schema"}},
		{"schema of another type", form(`{"type":"string"}`), []string{"schema"}},
		{"negative wait", edit(approval(), func(r *hitl.Request) { r.ExpiresIn = wait(-time.Second) }), []string{"expires_in", "attention_in"}},
		{"option without effect", edit(approval(), func(r *hitl.Request) { r.Options = []hitl.AgentOption{{OptionID: "a", Effect: "maybe"}} }), []string{"options[0].effect"}},
		{"option twice", edit(approval(), func(r *hitl.Request) {
			r.Options = []hitl.AgentOption{{OptionID: "a", Effect: "allow"}, {OptionID: "a", Effect: "deny"}}
		}), []string{"options[1].option_id"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			body := raw(t, c.r)
			got, err := hitl.ParseRequest(body)
			if c.bad == nil {
				require.NoError(t, err)
				require.Equal(t, string(body), string(raw(t, got)))
				return
			}
			require.Equal(t, c.bad, fields(t, err))
			require.NotNil(t, got, "whose it is can still be told")
		})
	}
}

func wait(d time.Duration) *hitl.Duration {
	w := hitl.Duration(d)
	return &w
}

func TestParseRequestRefusesBadJSON(t *testing.T) {
	t.Parallel()
	for name, c := range map[string][2]string{
		"duplicate key":          {`{"v":1,"v":1}`, `request`},
		"invalid UTF-8":          {"{\"title\":\"\xff\"}", `request`},
		"wrong type":             {`{"v":1,"tool":{"name":7}}`, `tool.name`},
		"C-18 number as timeout": {`{"v":1,"expires_in":600}`, `expires_in`},
		"C-18 no duration":       {`{"v":1,"expires_in":"soon"}`, `request`},
		"not an object":          {`[]`, `request`},
		"too large":              {`{"title":"` + strings.Repeat("x", hitl.MaxRequest) + `"}`, `request`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := hitl.ParseRequest([]byte(c[0]))
			require.Equal(t, []string{c[1]}, fields(t, err))
		})
	}
}

// TestProblemsAreBounded: what is wrong with a request is kept in its
// decision, and that has to fit.
func TestProblemsAreBounded(t *testing.T) {
	t.Parallel()
	manyOptions := approval()
	for range 20_000 {
		manyOptions.Options = append(manyOptions.Options, hitl.AgentOption{})
	}
	manyQuestions := question()
	for range 20_000 {
		manyQuestions.Questions = append(manyQuestions.Questions, hitl.Question{Secret: true})
	}
	long := strings.Repeat("\u0001", 100_000)
	for name, body := range map[string][]byte{
		"options":       raw(t, manyOptions),
		"questions":     raw(t, manyQuestions),
		"duplicate key": []byte(`{"` + strings.Repeat("k", 500_000) + `":{"a":1,"a":2}}`),
		"schema":        raw(t, form(fmt.Sprintf(`{"type":"object","properties":{%s:{"type":"x"}}}`, raw(t, long)))),
	} {
		t.Run("invariant 11: "+name, func(t *testing.T) {
			t.Parallel()
			require.LessOrEqual(t, len(body), hitl.MaxRequest)
			_, err := hitl.ParseRequest(body)
			var invalid *hitl.InvalidError
			require.ErrorAs(t, err, &invalid)
			require.NotEmpty(t, invalid.Fields)
			require.Less(t, len(raw(t, hitl.Content{Outcome: hitl.InvalidIX, Fields: invalid.Fields})), 256<<10)
		})
	}
	var invalid *hitl.InvalidError
	require.ErrorAs(t, manyOptions.Validate(), &invalid)
	last := invalid.Fields[len(invalid.Fields)-1]
	require.Regexp(t, `^and \d+ problems more$`, last.Problem)
	require.Len(t, hitl.Invalid("f", "%s", strings.Repeat("ä", 1000)).Fields[0].Problem, 503, "cut between characters")
}

func TestDeadlines_C08_C18_D0_45_D2_05(t *testing.T) {
	t.Parallel()
	for _, r := range []*hitl.Request{question(choose("?", "A")), form(`{"type":"object"}`), {Kind: "unknown"}} {
		require.Equal(t, hitl.DefaultExpiresIn, r.Expiry(), "one budget for every kind")
	}
	r := approval()
	require.Equal(t, 10*time.Minute, r.Expiry(), "the default")
	require.Equal(t, 5*time.Minute, r.Attention(), "half of it")
	r.ExpiresIn = wait(0)
	require.Zero(t, r.Expiry())
	require.Zero(t, r.Attention())
	r.ExpiresIn, r.AttentionIn = wait(time.Hour), wait(time.Minute)
	require.Equal(t, time.Hour, r.Expiry())
	require.Equal(t, time.Minute, r.Attention())
	require.Contains(t, string(raw(t, r)), `"expires_in":"1h0m0s","attention_in":"1m0s"`)
	got, err := hitl.ParseRequest(raw(t, r))
	require.NoError(t, err)
	require.Equal(t, time.Hour, got.Expiry())
}

// TestInputIsKept: no number is rounded and no byte of a string is changed
// between the asker and the one who runs it.
func TestInputIsKept_C03_invariant5(t *testing.T) {
	t.Parallel()
	const input = `{"n":9007199254740993,"f":1.10,"e":1E+2,"s":"\ud800\u202e<"}`
	body := []byte(`{"v":1,"id":"i","kind":"approval","tenant":"t","owner":"o","session_id":"s","title":"x","tool":{"name":"T","input":` + input + `}}`)
	r, err := hitl.ParseRequest(body)
	require.NoError(t, err)
	require.Equal(t, input, string(r.Tool.Input))
	require.Equal(t, string(body), string(raw(t, r)))
}

func TestGoldenRecords(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 27, 12, 0, 0, 123456789, time.UTC)
	yes := true
	request := hitl.Request{
		V: 1, ID: "6317af19-adbc-81f1-ad44-de9294a2963c", Key: "k", Kind: hitl.KindApproval, Tenant: "default",
		Owner: "agents", SessionID: "s1", ProjectID: "p1", ParentSession: "s0", AgentName: "reviewer", TurnID: "t1",
		ToolCallID: "toolu_1", Title: "Run a command", Message: "m", Reason: "r", Risk: "high",
		Tool: &hitl.Tool{
			Name: "Bash", DisplayName: "Shell", Server: "srv", Kind: "execute", Input: json.RawMessage(`{"command":"ls <&>","n":1.0}`),
			InputSchema: json.RawMessage(`{"type":"object"}`), Description: "d", Cwd: "/tmp", Paths: []string{"/tmp"},
			Diff: json.RawMessage(`{}`), BlockedPath: "/etc",
		},
		URL: "https://example.org/", Options: []hitl.AgentOption{{OptionID: "once", Name: "Once", Kind: "allow_once", Scope: "once", Effect: "allow"}},
		Suggestions: json.RawMessage(`[{"type":"addRules"}]`), Allowed: []string{"allow"}, Audience: "ops",
		ExpiresIn: wait(10 * time.Minute), AttentionIn: wait(0),
		Source: &hitl.Source{Protocol: "claude", Version: "1", Agent: "a", RequestID: "r1", RawB64: "e30="},
	}
	records := map[string]any{
		"request_approval": request,
		"request_question": hitl.Request{
			V: 1, ID: "i", Kind: hitl.KindQuestion, Tenant: "default", Owner: "agents", SessionID: "s1", Title: "t",
			Questions: []hitl.Question{{
				ID: "db", Header: "Database", Question: "Which?", MultiSelect: true, AllowOther: no(), FreeTextExclusive: true,
				Required: &yes, Options: []hitl.Option{{Value: "pg", Label: "PostgreSQL", Description: "d", Preview: "p"}},
			}},
		},
		"request_form": hitl.Request{
			V: 1, ID: "i", Kind: hitl.KindForm, Tenant: "default", Owner: "agents", SessionID: "s1", Title: "t",
			Schema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`),
		},
		"decision": hitl.Decision{
			V: 1, DecisionID: "d1", InteractionID: "i", Digest: "0a",
			Content: hitl.Content{
				Outcome: hitl.Allowed, OptionID: "once", UpdatedInput: json.RawMessage(`{"command":"ls","n":1.0}`),
				Answers: []hitl.Answer{{QuestionID: "db", Values: []string{"pg"}, Other: "o", Notes: "n"}},
				Content: json.RawMessage(`{"n":1}`), Scope: "session", Rule: "r", Message: "m", Comment: "c", Interrupt: true,
				Fields: []hitl.Field{{Field: "title", Problem: "is missing"}},
			},
			Principal: hitl.Principal{Kind: "person", ID: "p", Name: "Pat"}, Channel: "web", Assurance: "session",
			Policy:    hitl.Policy{Version: "1", Risk: "high", Audience: "ops"},
			DecidedAt: at, RequestSeq: 7, RequestedAt: at, RequestB64: "e30=",
		},
		"ack":        hitl.Ack{V: 1, Stage: hitl.Refused, DecisionID: "d1", At: at, Detail: "x"},
		"withdrawal": hitl.Withdrawal{V: 1, Reason: "r", Shutdown: true},
		"receipt": hitl.Receipt{
			Status: hitl.BadInput, Error: "e", Fields: []hitl.Field{{Field: "answers", Problem: "is missing"}},
		},
		"response": hitl.Response{
			Ref: "r", SessionID: "s1", RequestID: "i", ToolCallID: "toolu_1", RequestType: "form", Digest: "0a", Decision: "allow",
			OptionID: "once", Answers: json.RawMessage(`{}`), Content: json.RawMessage(`{}`), Action: "dismiss", Message: "m",
			Comment: "c", UpdatedInput: json.RawMessage(`"{}"`), Scope: "once", Interrupt: true,
		},
		"session_state": hitl.SessionState{
			V: 1, SessionID: "s1", ProjectID: "p1", Tenant: "default", Owner: "agents", Worker: "w1", Generation: 2, Runtime: "demo",
			Title: "t", Cwd: "/tmp", State: hitl.StateDead, StartedAt: at, StateChangedAt: at, Mode: "default", Model: "m",
			Memory: 1024, Error: "e", KillReason: "k",
		},
		"event":   hitl.Event{V: 1, Type: hitl.EventText, Data: json.RawMessage(`{"role":"user","text":"hi"}`)},
		"command": hitl.Command{V: 1, CommandID: "c1", Type: hitl.CommandMessage, Text: "hi", Attachments: []hitl.Attachment{{Kind: "image", MediaType: "image/png", Name: "n", DataB64: "AA=="}}, Mode: "plan"},
		"start": hitl.Start{
			V: 1, SessionID: "s1", Tenant: "default", Pool: "agents", ProjectID: "p1", Runtime: "demo", Prompt: "p", Cwd: "/tmp",
			Mode: "default", Model: "m", StartedBy: hitl.Principal{Kind: "person", ID: "p"},
		},
		"beat": hitl.Beat{V: 1, Worker: "w1", Runtimes: []string{"demo"}, Sessions: []string{"s1"}, At: at},
	}
	for name, record := range records {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			golden(t, name+".json", append(raw(t, record), '\n'))
		})
	}
	t.Run("C-18 parsed", func(t *testing.T) {
		t.Parallel()
		for _, name := range []string{"request_approval", "request_question", "request_form"} {
			r, err := hitl.ParseRequest(raw(t, records[name]))
			require.NoError(t, err)
			require.Equal(t, records[name], *r)
		}
		d, err := hitl.ParseDecision(raw(t, records["decision"]))
		require.NoError(t, err)
		require.Equal(t, records["decision"], *d)
	})
}

func TestAgentMaySend_D0_15(t *testing.T) {
	t.Parallel()
	for _, e := range []string{"text_delta", "text", "tool_call_start", "tool_call_delta", "tool_call_end", "tool_result", "error", "done", "session_status"} {
		require.True(t, hitl.AgentMaySend(e), e)
	}
	for _, e := range []string{"interaction_pending", "interaction_request", "interaction_response", "interaction_delivery", "approval_required", "question_prompt", "", "anything"} {
		require.False(t, hitl.AgentMaySend(e), "only gateways speak of interactions: %s", e)
	}
}
