package card

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/policy"
)

func summaryOf(t *testing.T, r *hitl.Request) wire.Summary {
	t.Helper()
	a := Admission{Ref: subject.NewRef("default", "agents", "id"), RequestedAt: time.Unix(1_000_000, 0).UTC(), Attempt: 1}
	a.Policy, a.RiskReason, a.Reading = (&policy.Policy{}).Assess(r)
	return Summarize(r, "digest", a)
}

func bash(command string) *hitl.Request {
	in, _ := hitl.Marshal(map[string]string{"command": command})
	return &hitl.Request{
		V: 1, ID: "id", Kind: hitl.KindApproval, Tenant: "default", Owner: "agents", SessionID: "s", AgentName: "build-7",
		Title: "t", Tool: &hitl.Tool{Name: "Bash", Input: in},
	}
}

func TestHeadlineNamesTheConsequence_B54(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{
		"git push --force origin release/2.4":                     "build-7 wants to force-push release/2.4 to origin",
		"git push --force origin release/2.4 && rm -rf /srv/x":    "build-7 wants to force-push release/2.4 to origin and delete /srv/x for good",
		"rm -rf build/ && npm run build && git push -f origin v1": "build-7 wants to delete build/ for good and force-push v1 to origin",
		"make; rm -rf /; git push -f":                             "build-7 wants to delete / for good and force-push the current branch",
		"make":                                                    "build-7 wants to run make",
		"npm ci && npm test":                                      "build-7 wants to run 2 commands (npm)",
		"echo a > b":                                              "build-7 wants to write b",
		"git push origin main":                                    "build-7 wants to push main to origin",
		"rm -rf (":                                                "build-7 wants to run a shell command that deletes files for good",
		"rm -rf a\u202eb\nc":                                      "build-7 wants to delete a⟦U+202E⟧b for good",
		"ls &&":                                                   "build-7 wants to run a shell command",
	} {
		require.Equal(t, want, summaryOf(t, bash(command)).Headline)
	}
	r := bash("make")
	r.Risk = "high"
	require.Equal(t, "build-7 wants to run make", summaryOf(t, r).Headline, "the agent's word is no consequence")
}

// However many effects there are, the headline is whole: what does not fit is
// counted, never cut off.
func TestHeadlineIsNeverCut(t *testing.T) {
	t.Parallel()
	var all []string
	for i := range 40 {
		all = append(all, fmt.Sprintf("rm -rf /srv/%02d/%s", i, strings.Repeat("x", 40)))
	}
	h := summaryOf(t, bash(strings.Join(all, " && "))).Headline
	require.LessOrEqual(t, utf8.RuneCountInString(h), maxHeadline)
	require.Regexp(t, `^build-7 wants to delete /srv/00/x+ for good, .* and \d+ things more$`, h)
}

func TestHeadlineOfOtherTools(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ tool, input, want string }{
		{"Write", `{"file_path":"/a.go","content":"x\ny\n"}`, "build-7 wants to write /a.go (2 lines)"},
		{"Write", `{"file_path":"/home/ada/.ssh/authorized_keys","content":"x"}`, "build-7 wants to write /home/ada/.ssh/authorized_keys (1 line), which changes a file that other programs trust (/.ssh/)"},
		{"Edit", `{"file_path":"/a.go","old_string":"a\nb","new_string":"a\nc\nd"}`, "build-7 wants to change /a.go (+2 −1)"},
		{"MultiEdit", `{"file_path":"/a.go","edits":[{"old_string":"a","new_string":"b"},{"old_string":"","new_string":"c"}]}`, "build-7 wants to change /a.go (+2 −1)"},
		{"ExitPlanMode", `{"plan":"1. x\n2. y"}`, "build-7 wants to leave plan mode and start on its plan"},
		{"WebFetch", `{"url":"https://example.org"}`, "build-7 wants to fetch https://example.org"},
	} {
		r := bash("")
		r.Tool = &hitl.Tool{Name: tc.tool, Input: json.RawMessage(tc.input)}
		require.Equal(t, tc.want, summaryOf(t, r).Headline)
	}
}

// The parts are pieces of what the card shows, each with its own risk, and the
// whole is as risky as its worst part.
func TestPartsWithTheirOwnRisk(t *testing.T) {
	t.Parallel()
	r := bash("rm -rf build/ && npm run build | tee log && git push -f")
	b := Body(r, nil, Admission{})
	require.Equal(t, []wire.Part{
		{Text: "rm -rf build/", Joint: "first", Risk: "high", RiskReason: "deletes files for good"},
		{Text: "npm run build", Joint: "and", Risk: "medium", RiskReason: "runs a command"},
		{Text: "tee log", Joint: "pipe", Risk: "medium", RiskReason: "writes a file"},
		{Text: "git push -f", Joint: "and", Risk: "high", RiskReason: "rewrites a published branch"},
	}, b.Parts)
	s := summaryOf(t, r)
	require.Equal(t, "high", s.Risk)
	require.True(t, s.Irreversible)
	for _, p := range b.Parts {
		require.Contains(t, b.Blocks[0].Text, p.Text)
	}
	require.Empty(t, Body(bash("make"), nil, Admission{}).Parts, "one command has no parts")
	require.False(t, summaryOf(t, bash("sudo make")).Irreversible)
	many := Body(bash(strings.Repeat("ls;", 100)), nil, Admission{})
	require.Equal(t, 100, len(many.Parts)+many.MoreParts)
}

func TestGrantsSayWhatASessionLetsThrough(t *testing.T) {
	t.Parallel()
	for suggestions, want := range map[string][]string{
		`[{"type":"addRules","rules":[{"toolName":"Bash","ruleContent":"npm run build"}],"behavior":"allow","destination":"session"}]`: {"Bash with exactly “npm run build”"},
		`[{"type":"addRules","rules":[{"toolName":"Bash","ruleContent":"git push:*"},{"toolName":"WebFetch"}],"behavior":"allow"}]`:    {"every use of Bash that begins with “git push”", "every use of WebFetch"},
		`[{"type":"setMode","mode":"acceptEdits"},{"type":"addDirectories","directories":["/srv\u202e"]}]`:                             {"every change of a file in its folder, without asking", "work in /srv⟦U+202E⟧ and below"},
		`[{"type":"addRules","rules":[{"toolName":"Bash"}],"behavior":"deny"},{"what":1.0}]`:                                           {`{ "type": "addRules", "rules": [ { "toolName": "Bash" } ], "behavior": "deny" }`, `{ "what": 1.0 }`},
		`{"odd":true}`: {"{\n  \"odd\": true\n}"},
	} {
		r := bash("make")
		r.Suggestions = json.RawMessage(suggestions)
		b := Body(r, nil, Admission{})
		require.Equal(t, want, b.Grants)
		require.Equal(t, []string{"once", "session"}, b.Scopes)
	}
	long := bash("make")
	long.Suggestions = json.RawMessage("[" + strings.Repeat(`{"type":"setMode","mode":"x"},`, 50) + `{"type":"setMode","mode":"y"}]`)
	grants := Body(long, nil, Admission{}).Grants
	require.Len(t, grants, maxGrants)
	require.Equal(t, "40 more, listed in the request", grants[maxGrants-1])
	require.Empty(t, Body(bash("make"), nil, Admission{}).Grants)
}

func TestFieldsOfAForm_C03(t *testing.T) {
	t.Parallel()
	r := &hitl.Request{Kind: hitl.KindForm, Schema: json.RawMessage(`{"type":"object","required":["port"],"properties":{
		"zone":{"type":"string","enum":["eu","us"],"enumNames":["Europe","America\u202e"],"default":"eu"},
		"port":{"type":"integer","title":"Port","description":"of the service","minimum":1,"maximum":9007199254740993},
		"ratio":{"type":"number","minimum":0.10},
		"mail":{"type":"string","format":"email","minLength":3,"maxLength":80},
		"tags":{"type":"array","items":{"anyOf":[{"const":"a","title":"A"},{"const":7}]}},
		"sure":{"type":"boolean"}}}`)}
	require.Equal(t, []wire.FormField{
		{Name: "zone", Label: "zone", Type: "string", Choices: []wire.Choice{{JSON: `"eu"`, Label: "Europe"}, {JSON: `"us"`, Label: "America⟦U+202E⟧"}}, Suggested: `"eu"`},
		{Name: "port", Label: "Port", Description: "of the service", Type: "integer", Required: true, Minimum: "1", Maximum: "9007199254740993"},
		{Name: "ratio", Label: "ratio", Type: "number", Minimum: "0.10"},
		{Name: "mail", Label: "mail", Type: "string", Format: "email", MinLength: 3, MaxLength: 80},
		{Name: "tags", Label: "tags", Type: "array", Choices: []wire.Choice{{JSON: `"a"`, Label: "A"}, {JSON: "7", Label: "7"}}},
		{Name: "sure", Label: "sure", Type: "boolean"},
	}, Body(r, nil, Admission{}).Fields)
	for _, odd := range []string{
		`{"type":"object"}`, `{"type":"object","properties":{"a":{"type":"object"}}}`, `{"type":"object","properties":{"a":{"type":"array","items":{"type":"string"}}}}`,
		`{"type":"object","properties":{"a":{"type":"array"}}}`, `{"type":"object","properties":[]}`,
	} {
		r.Schema = json.RawMessage(odd)
		require.Empty(t, Body(r, nil, Admission{}).Fields, "%s is filled in as JSON", odd)
		require.NotEmpty(t, Body(r, nil, Admission{}).Schema)
	}
}

func TestSummaryStaysSmallWhateverAnAgentWrites(t *testing.T) {
	t.Parallel()
	r := bash(strings.Repeat("\u202e<", 100_000))
	r.Title, r.AgentName = strings.Repeat("\u200b", hitl.MaxTitle), strings.Repeat("\u200b", hitl.MaxIdentifier)
	r.ToolCallID, r.ProjectID = strings.Repeat("x", hitl.MaxIdentifier), strings.Repeat("x", hitl.MaxIdentifier)
	s := summaryOf(t, r)
	require.True(t, s.Cut, "what was cut says so, and nobody can decide on it alone")
	raw, err := hitl.Marshal(s)
	require.NoError(t, err)
	require.Less(t, len(raw), 6<<10)
	require.NotContains(t, string(raw), "\u202e")
}

func TestUnknownKindIsShownRawAndOffersNoApproval(t *testing.T) {
	t.Parallel()
	raw := []byte(`{"v":1,"kind":"poll","ballot":[1,2,9007199254740993]}`)
	b := Body(&hitl.Request{Kind: "poll"}, raw, Admission{})
	require.Len(t, b.Blocks, 1)
	require.Contains(t, b.Blocks[0].Text, "9007199254740993")
	require.Equal(t, []string{hitl.VerbDeny, hitl.VerbDismiss}, b.Verbs)
}

func TestWhatAgentsSayHasNothingInvisible_B54(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		`{"v":1,"type":"text","data":{"role":"assistant","text":"safe\u202eevil"}}`,
		`{"v":1,"type":"tool_result","data":{"tool_call_id":"t","content":"safe\u202eevil"}}`,
		`{"v":1,"type":"error","data":{"message":"safe\u202eevil"}}`,
		`{"v":1,"type":"tool_call_end","data":{"tool_call_id":"t","tool_name":"Bash","input":{"command":"safe\u202eevil"}}}`,
	} {
		ev, ok := FromAgent(journal.Message{Data: []byte(raw)})
		require.True(t, ok, raw)
		var fields map[string]any
		require.NoError(t, json.Unmarshal(ev.Data, &fields))
		require.NotContains(t, string(ev.Data), "\u202e")
	}
	// A browser ends the connection for bytes that are no UTF-8.
	_, ok := FromAgent(journal.Message{Data: []byte("{\"v\":1,\"type\":\"text\",\"data\":{\"text\":\"\xff\"}}")})
	require.False(t, ok)
	_, ok = FromAgent(journal.Message{Data: []byte(`{"v":1,"type":"interaction_pending","data":{"pending":false}}`)})
	require.False(t, ok, "only gateways speak of interactions")
}

// A sub-agent's step says whose it is, at its end too.
func TestAStepKeepsItsParent(t *testing.T) {
	t.Parallel()
	for _, typ := range []string{hitl.EventText, hitl.EventToolCallStart, hitl.EventToolCallEnd, hitl.EventToolResult} {
		ev, ok := FromAgent(journal.Message{Data: []byte(`{"v":1,"type":"` + typ + `","data":{"tool_call_id":"t","parent_tool_call_id":"p"}}`)})
		require.True(t, ok, typ)
		require.Contains(t, string(ev.Data), `"parent_tool_call_id":"p"`, typ)
	}
}

// A list names the command with which the view of a request begins, and only that.
func TestAListShowsTheCommandAsItsViewDoes(t *testing.T) {
	for _, input := range []string{
		`{"command":"ls -l"}`, `{"command":"a\nb \u202e","description":"x"}`, `{"command":"one","command":"two"}`, `{"comm\u0061nd":"ls"}`,
		`{"Command":"ls"}`, `{"command":["ls"]}`, `{"command":null}`, `{"description":"ls"}`, `{}`, `null`, `"ls"`, `["command"]`, `{"command":""}`,
	} {
		r := &hitl.Request{Kind: hitl.KindApproval, Tool: &hitl.Tool{Name: "Bash", Input: json.RawMessage(input)}}
		want, _ := hitl.DisplayJSON(r.Tool.Input)
		if first := hitl.View(r)[0]; first.Form == "command" {
			want = first.Text
		}
		require.Equal(t, want, Summarize(r, "", Admission{}).ToolInput, input)
	}
}
