package claudert

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/services/agent/internal/claude/protocol"
	"github.com/banksman/banksman/services/agent/internal/gate"
)

var update = flag.Bool("update", false, "write the golden files")

func TestMain(m *testing.M) {
	if dir := os.Getenv("TEST_FAKE_CLI"); dir != "" {
		os.Exit(fakeMain(dir))
	}
	goleak.VerifyTestMain(m)
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, got, 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}

var where = about{cliSession: "5e55", version: "2.1.332", cwd: "/work"}

// What the CLI asks, as people get it.
func TestMapping_Golden(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]protocol.Ask{
		"D0-12_bash": {
			RequestID: "r1", ToolUseID: "toolu_1", ToolName: "Bash", DisplayName: "Bash", Description: "Make a file",
			Input:       json.RawMessage(`{"command":"touch one.txt && echo 9007199254740993","description":"Make a file","n":9007199254740993}`),
			Suggestions: json.RawMessage(`[{"type":"addRules","rules":[{"toolName":"Bash","ruleContent":"touch one.txt"}],"behavior":"allow","destination":"localSettings"},{"type":"addDirectories","directories":["/ws"],"destination":"session"},{"type":"setMode","mode":"acceptEdits","destination":"session"}]`),
			BlockedPath: "/ws/one.txt",
		},
		"write": {
			RequestID: "r2", ToolUseID: "toolu_2", ToolName: "Write", DisplayName: "Write",
			Input:       json.RawMessage(`{"file_path":"/ws/out.txt","content":"hello\n"}`),
			Suggestions: json.RawMessage(`[{"type":"setMode","mode":"acceptEdits","destination":"session"}]`),
		},
		"read_outside": {
			RequestID: "r3", ToolUseID: "toolu_3", ToolName: "Read", DisplayName: "Read", Input: json.RawMessage(`{"file_path":"/etc/hosts"}`),
			DecisionReason: "Path is outside allowed working directories", DecisionReasonType: "workingDir",
		},
		"mcp": {
			RequestID: "r4", ToolUseID: "toolu_4", ToolName: "mcp__gate__Form", DisplayName: "Form", MCPServer: "gate",
			Input: json.RawMessage(`{"id":9007199254740993}`),
		},
		"plan_with_text":    {RequestID: "r5", ToolUseID: "toolu_5", ToolName: "ExitPlanMode", Input: json.RawMessage(`{"plan":"1. look\n2. leap"}`)},
		"plan_without_text": {RequestID: "r6", ToolUseID: "toolu_6", ToolName: "ExitPlanMode", Input: json.RawMessage(`{}`)},
		"B-44_child":        {RequestID: "r7", ToolUseID: "toolu_7", ToolName: "Bash", AgentID: "a54e2424880fc8dc1", Input: json.RawMessage(`{"command":"ls"}`)},
		"D1-05_questions": {
			RequestID: "r8", ToolUseID: "toolu_8", ToolName: "AskUserQuestion",
			Input: json.RawMessage(`{"questions":[{"question":"Which database?","header":"Database","options":[{"label":"Postgres","description":"relational","preview":"CREATE TABLE"},{"label":"SQLite","description":"one file"}],"multiSelect":false},{"question":"Which features?","header":"Features","options":[{"label":"Auth","description":"login"},{"label":"Audit, logs","description":"who"}],"multiSelect":true}]}`),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ab := where
			ab.child, ab.lastWords = "explorer", "First I look, then I leap."
			mapper := approval
			if ask.ToolName == protocol.QuestionTool {
				mapper = question
			}
			k, err := mapper(&ask, ab)
			require.NoError(t, err)
			require.Equal(t, ask.RequestID, k.ID)
			if k.Request.Tool != nil {
				require.Equal(t, string(ask.Input), string(k.Request.Tool.Input), "D0-01: byte for byte")
			}
			var p private
			require.NoError(t, json.Unmarshal(k.Private, &p))
			require.Equal(t, string(ask.Input), string(p.Input))
			raw, err := hitl.Marshal(k.Request)
			require.NoError(t, err)
			golden(t, "request_"+name+".json", append(raw, '\n'))
		})
	}
}

func TestMapping_Form(t *testing.T) {
	t.Parallel()
	e := &protocol.Elicitation{
		RequestID: "r9", Server: "gate", Message: "Please fill the deploy form", Mode: "form",
		Schema: json.RawMessage(`{"type":"object","properties":{"env":{"type":"string","enum":["staging","prod"]}},"required":["env"]}`),
	}
	k, err := form(e, where)
	require.NoError(t, err)
	raw, err := hitl.Marshal(k.Request)
	require.NoError(t, err)
	golden(t, "request_form.json", append(raw, '\n'))

	e.Schema = json.RawMessage(`{"type":"object","properties":{"deep":{"type":"object"}}}`)
	_, err = form(e, where)
	require.ErrorContains(t, err, `"deep"`, "what people could not be shown is said precisely")
}

// A link is an approval of its own: accepted by who allows it, declined by who
// denies it, cancelled by all else, and never handed on where it was edited.
func TestMapping_Link_B54(t *testing.T) {
	t.Parallel()
	e := &protocol.Elicitation{RequestID: "r9", Server: "tickets", Message: "Please connect your account", Mode: "url", URL: "https://tickets.example/connect"}
	k, err := page(e, where)
	require.NoError(t, err)
	require.Equal(t, hitl.KindApproval, k.Request.Kind)
	require.JSONEq(t, `{"url":"https://tickets.example/connect"}`, string(k.Request.Tool.Input))
	require.Equal(t, "Please connect your account", k.Request.Message)
	for _, address := range []string{"javascript:alert(1)", "https://a@b.example/", "file:///etc/passwd", ""} {
		e.URL = address
		_, err := page(e, where)
		require.ErrorContains(t, err, "its address ", address)
	}
	for outcome, action := range map[hitl.Outcome]string{
		hitl.Allowed: protocol.Accept, hitl.Denied: protocol.Decline, hitl.Dismissed: protocol.Cancel,
		hitl.Expired: protocol.Cancel, hitl.Orphaned: protocol.Cancel, hitl.Cancelled: protocol.Cancel,
	} {
		f := &fakeCLI{}
		require.NoError(t, answerForm(f, "r9", k.Request, gate.Verdict{Content: hitl.Content{Outcome: outcome}}))
		require.Equal(t, []string{"form r9 | " + action + " | "}, f.calls, outcome)
	}
	f := &fakeCLI{}
	err = answerForm(f, "r9", k.Request, gate.Verdict{Content: hitl.Content{Outcome: hitl.Allowed, UpdatedInput: json.RawMessage(`{"url":"https://evil.example"}`)}})
	require.ErrorContains(t, err, "edited address")
	require.Equal(t, []string{"form r9 | cancel | "}, f.calls)
}

func TestMapping_WhatCannotBeShownIsAnError(t *testing.T) {
	t.Parallel()
	for name, input := range map[string]string{
		"no questions":   `{}`,
		"no text":        `{"questions":[{"question":"","options":[]}]}`,
		"five":           `{"questions":[{"question":"1"},{"question":"2"},{"question":"3"},{"question":"4"},{"question":"5"}]}`,
		"option twice":   `{"questions":[{"question":"1","options":[{"label":"a"},{"label":"a"}]}]}`,
		"question twice": `{"questions":[{"question":"1","options":[]},{"question":"1","options":[]}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := question(&protocol.Ask{RequestID: "r", ToolUseID: "t", ToolName: "AskUserQuestion", Input: json.RawMessage(input)}, where)
			require.Error(t, err)
		})
	}
}

func TestTitle_ShortAndOnOneLine(t *testing.T) {
	t.Parallel()
	a := &protocol.Ask{ToolName: "Bash", Input: json.RawMessage(`{"command":"echo 1\n\techo 2 ` + strings.Repeat("ü", 200) + `"}`)}
	got := toolTitle(a)
	require.True(t, strings.HasPrefix(got, "Bash: echo 1 echo 2 ü"), got)
	require.Len(t, []rune(got), maxTitle)
	require.Equal(t, "Thing", toolTitle(&protocol.Ask{ToolName: "Thing", Input: json.RawMessage(`{"command":5}`)}))
	require.Equal(t, "Bash: rm -rf /", toolTitle(&protocol.Ask{ToolName: "Bash", Input: json.RawMessage(`{"command":"rm -rf /","COMMAND":"ls"}`)}),
		"the title says what runs")
}

// A wider scope never leaves the session and never opens everything.
func TestScope_StaysInTheSession(t *testing.T) {
	t.Parallel()
	require.Nil(t, sessionScope(nil))
	require.Nil(t, sessionScope(json.RawMessage(`{"type":"addRules"}`)))
	require.Nil(t, sessionScope(json.RawMessage(`[{"type":"setMode","mode":"bypassPermissions","destination":"session"}]`)))
	require.JSONEq(t, `[{"type":"addRules","destination":"session"}]`,
		string(sessionScope(json.RawMessage(`[{"type":"addRules","destination":"userSettings"},null,{"type":"setMode","mode":"acceptEdits"}]`))))
}

// fakeCLI records what it is told.
type fakeCLI struct {
	calls []string
	fail  map[string]error
}

func (f *fakeCLI) note(name string, parts ...string) error {
	f.calls = append(f.calls, name+" "+strings.Join(parts, " | "))
	return f.fail[name]
}

func (f *fakeCLI) Allow(id string, in, perms json.RawMessage) error {
	return f.note("allow", id, string(in), string(perms))
}

func (f *fakeCLI) Deny(id, msg string, interrupt bool) error {
	if interrupt {
		msg += " +interrupt"
	}
	return f.note("deny", id, msg)
}

func (f *fakeCLI) AnswerElicitation(id, action string, c json.RawMessage) error {
	return f.note("form", id, action, string(c))
}

func (f *fakeCLI) Prompt(...protocol.PromptBlock) error { return f.note("prompt") }

var (
	bashInput = json.RawMessage(`{"command":"ls","n":9007199254740993}`)
	bashReq   = &hitl.Request{Kind: hitl.KindApproval, Suggestions: json.RawMessage(`[{"type":"addRules","destination":"session"}]`)}
)

func TestAnswer_ToolVerdicts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		v    gate.Verdict
		want string
	}{
		"D0-18 allowed echoes the input": {gate.Verdict{Content: hitl.Content{Outcome: hitl.Allowed}}, `allow r | {"command":"ls","n":9007199254740993} | `},
		"D1-03 edited":                   {gate.Verdict{Content: hitl.Content{Outcome: hitl.Allowed, UpdatedInput: json.RawMessage(`{"command":"pwd"}`)}}, `allow r | {"command":"pwd"} | `},
		"for the session":                {gate.Verdict{Content: hitl.Content{Outcome: hitl.Allowed, Scope: "session"}}, `allow r | {"command":"ls","n":9007199254740993} | [{"type":"addRules","destination":"session"}]`},
		"edited, for the session":        {gate.Verdict{Content: hitl.Content{Outcome: hitl.Allowed, Scope: "session", UpdatedInput: json.RawMessage(`{"command":"pwd"}`)}}, `allow r | {"command":"pwd"} | `},
		"denied":                         {gate.Verdict{Content: hitl.Content{Outcome: hitl.Denied}, Text: "no"}, "deny r | no"},
		"denied and stop":                {gate.Verdict{Content: hitl.Content{Outcome: hitl.Denied, Interrupt: true}, Text: "no"}, "deny r | no +interrupt"},
		"expired":                        {gate.Verdict{Content: hitl.Content{Outcome: hitl.Expired}, Text: "late"}, "deny r | late"},
		"D2-03 withdrawn":                {gate.Verdict{Content: hitl.Content{Outcome: hitl.Cancelled}, Text: "withdrawn"}, "deny r | withdrawn"},
		"D2-03 no decision":              {gate.Verdict{Text: "bus lost"}, "deny r | bus lost"},
		"no decision and no text":        {gate.Verdict{}, "deny r | " + hitl.DefaultDenyMessage},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fakeCLI{}
			require.NoError(t, answerTool(f, "r", bashInput, bashReq, c.v))
			require.Equal(t, []string{c.want}, f.calls)
		})
	}
}

// An allowance that the driver refuses must not leave the call without answer.
func TestAnswer_UnusableEditIsDenied(t *testing.T) {
	t.Parallel()
	bad := &protocol.InputError{Field: "updatedInput", Problem: "too large"}
	f := &fakeCLI{fail: map[string]error{"allow": bad}}
	err := answerTool(f, "r", bashInput, bashReq, gate.Verdict{Content: hitl.Content{Outcome: hitl.Allowed}})
	require.ErrorIs(t, err, bad, "so that the receipt says refused")
	require.Len(t, f.calls, 2)
	require.Contains(t, f.calls[1], "deny r | The tool was not run")
}

func TestAnswer_Questions(t *testing.T) {
	t.Parallel()
	input := json.RawMessage(`{"questions":[{"question":"Which database?","header":"D","options":[{"label":"Postgres"},{"label":"a, \"b\""}],"multiSelect":false},{"question":"Which features?","header":"F","options":[{"label":"Auth"},{"label":"Audit, logs"}],"multiSelect":true}],"metadata":{"n":9007199254740993}}`)
	k, err := question(&protocol.Ask{RequestID: "r", ToolUseID: "t", ToolName: "AskUserQuestion", Input: input}, where)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		answers []hitl.Answer
		want    string
	}{
		"D1-06 labels":                       {[]hitl.Answer{{QuestionID: "0", Values: []string{"Postgres"}}, {QuestionID: "1", Values: []string{"Auth"}}}, `"answers":{"Which database?":"Postgres","Which features?":"Auth"}`},
		"B-10 free text beside labels":       {[]hitl.Answer{{QuestionID: "1", Values: []string{"Auth", "Audit, logs"}, Other: "x, y"}}, `"answers":{"Which features?":"Auth, \"Audit, logs\", \"x, y\""}`},
		"free text alone goes as it is":      {[]hitl.Answer{{QuestionID: "1", Other: `say "hi", twice`}}, `"answers":{"Which features?":"say \"hi\", twice"}`},
		"one label of several is one":        {[]hitl.Answer{{QuestionID: "1", Values: []string{"Audit, logs"}}}, `"answers":{"Which features?":"\"Audit, logs\""}`},
		"a single choice needs no quoting":   {[]hitl.Answer{{QuestionID: "0", Values: []string{`a, "b"`}}}, `"answers":{"Which database?":"a, \"b\""}`},
		"notes travel beside the answer":     {[]hitl.Answer{{QuestionID: "0", Values: []string{"Postgres"}, Notes: "17 or newer"}}, `"annotations":{"Which database?":{"notes":"17 or newer"}}`},
		"the rest of the input is untouched": {[]hitl.Answer{{QuestionID: "0", Other: "x"}}, `"metadata":{"n":9007199254740993}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fakeCLI{}
			require.NoError(t, answerTool(f, "r", input, k.Request, gate.Verdict{Content: hitl.Content{Outcome: hitl.Answered, Answers: c.answers}}))
			require.Len(t, f.calls, 1)
			require.True(t, strings.HasPrefix(f.calls[0], "allow r | {"))
			require.Contains(t, f.calls[0], c.want)
		})
	}
	t.Run("D2-07 D0-17 an index map comes back as answers beside the input", func(t *testing.T) {
		c, err := hitl.Evaluate(k.Request, &hitl.Response{Answers: json.RawMessage(`{"0":"Postgres","1":"Auth"}`)})
		require.NoError(t, err)
		f := &fakeCLI{}
		require.NoError(t, answerTool(f, "r", input, k.Request, gate.Verdict{Content: *c}))
		rest, ok := strings.CutPrefix(f.calls[0], "allow r | ")
		require.True(t, ok)
		var out map[string]json.RawMessage
		require.NoError(t, json.Unmarshal([]byte(strings.TrimSuffix(rest, " | ")), &out))
		require.JSONEq(t, `{"Which database?":"Postgres","Which features?":"Auth"}`, string(out["answers"]))
		var was map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(input, &was))
		require.Equal(t, string(was["questions"]), string(out["questions"]), "the original questions")
		require.Equal(t, string(was["metadata"]), string(out["metadata"]))
	})
	t.Run("D2-03 D4-10 a question that nobody answered is denied, never answered empty", func(t *testing.T) {
		for _, o := range []hitl.Outcome{hitl.Expired, hitl.Cancelled, hitl.Dismissed, hitl.Orphaned, hitl.Clarify, ""} {
			f := &fakeCLI{}
			require.NoError(t, answerTool(f, "r", input, k.Request, gate.Verdict{Content: hitl.Content{Outcome: o}, Text: "nobody: " + string(o)}))
			require.Equal(t, []string{"deny r | nobody: " + string(o)}, f.calls)
		}
	})
	t.Run("an answer to another question is not applied", func(t *testing.T) {
		f := &fakeCLI{}
		require.Error(t, answerTool(f, "r", input, k.Request, gate.Verdict{Content: hitl.Content{Outcome: hitl.Answered, Answers: []hitl.Answer{{QuestionID: "7", Other: "x"}}}}))
		require.Contains(t, f.calls[0], "deny r")
	})
}

func TestAnswer_Forms(t *testing.T) {
	t.Parallel()
	req := &hitl.Request{Kind: hitl.KindForm, Message: "Deploy"}
	for name, c := range map[string]struct {
		v    gate.Verdict
		want []string
	}{
		"filled in": {gate.Verdict{Content: hitl.Content{Outcome: hitl.Answered, Content: json.RawMessage(`{"n":9007199254740993}`)}}, []string{`form r | accept | {"n":9007199254740993}`}},
		"in words":  {gate.Verdict{Content: hitl.Content{Outcome: hitl.Clarify, Message: "which env?"}, Text: "which env?"}, []string{"form r | decline | ", "prompt "}},
		"dismissed": {gate.Verdict{Content: hitl.Content{Outcome: hitl.Dismissed}, Text: "closed"}, []string{"form r | cancel | "}},
		"expired":   {gate.Verdict{Content: hitl.Content{Outcome: hitl.Expired}, Text: "late"}, []string{"form r | cancel | "}},
		"lost":      {gate.Verdict{Text: "bus lost"}, []string{"form r | cancel | "}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fakeCLI{}
			require.NoError(t, answerForm(f, "r", req, c.v))
			require.Equal(t, c.want, f.calls)
		})
	}
}

// Two calls with the same text are two interactions, in one turn and over turns:
// also where a sub-agent's call has the tool use id of another.
func TestMapping_B36_EqualCallsAreTwoInteractions(t *testing.T) {
	t.Parallel()
	keys := map[string]bool{}
	for _, a := range []protocol.Ask{
		{RequestID: "r1", ToolUseID: "toolu_1"}, {RequestID: "r2", ToolUseID: "toolu_2"}, {RequestID: "r3", ToolUseID: "toolu_1", AgentID: "child"},
	} {
		a.ToolName, a.Input = "Bash", []byte(`{"command":"make"}`)
		k, err := approval(&a, about{cliSession: "cli"})
		require.NoError(t, err)
		keys[k.Request.Key] = true
		k, err = approval(&a, about{cliSession: "other cli"})
		require.NoError(t, err)
		keys[k.Request.Key] = true
	}
	require.Len(t, keys, 6)
}
