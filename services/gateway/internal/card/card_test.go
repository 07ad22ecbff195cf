package card

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

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
	a.Policy, a.RiskReason = (&policy.Policy{}).Assess(r)
	return Summarize(r, "digest", a)
}

func bash(command string) *hitl.Request {
	in, _ := hitl.Marshal(map[string]string{"command": command})
	return &hitl.Request{
		V: 1, ID: "id", Kind: hitl.KindApproval, Tenant: "default", Owner: "agents", SessionID: "s", AgentName: "build-7",
		Title: "t", Tool: &hitl.Tool{Name: "Bash", Input: in},
	}
}

func TestHeadlineNamesTheConsequence(t *testing.T) {
	t.Parallel()
	require.Equal(t, "build-7 wants to run a shell command that rewrites a published branch",
		summaryOf(t, bash("git push --force origin main")).Headline)
	require.Equal(t, "build-7 wants to run a shell command", summaryOf(t, bash("make")).Headline)
	r := bash("make")
	r.Risk = "high"
	require.Equal(t, "build-7 wants to run a shell command", summaryOf(t, r).Headline, "the agent's word is no consequence")
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
	b := Body(&hitl.Request{Kind: "poll"}, raw)
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
