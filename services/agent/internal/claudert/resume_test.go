package claudert

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/agent/internal/claude/protocol"
	"github.com/banksman/banksman/services/agent/internal/gate"
)

// decided is an Asker that has its answer already.
type decided struct{ content hitl.Content }

func (d decided) Ask(_ context.Context, r *hitl.Request, _ ...bus.AskOption) (*bus.Answer, error) {
	if d.content.Outcome == "" {
		return nil, &bus.TooLargeError{Size: 2, Limit: 1}
	}
	q := *r
	q.V, q.Tenant, q.Owner, q.ID = 1, "t", "o", hitl.ID("t", "o", r.Key, 1)
	raw, err := hitl.Marshal(&q)
	if err != nil {
		return nil, err
	}
	return &bus.Answer{Ref: subject.NewRef("t", "o", q.ID), Request: raw, Attempt: 1, Decision: &hitl.Decision{
		V: 1, DecisionID: "d1", InteractionID: q.ID, Digest: hitl.Digest(raw), Content: d.content,
	}}, nil
}

func (decided) Ack(context.Context, subject.Ref, string, string, string) error { return nil }

func (decided) Take(context.Context, subject.Ref, string, string) (bool, error) { return true, nil }

type noDisk struct{}

func (noDisk) KeepAsk(gate.Kept) error             { return nil }
func (noDisk) DropAsk(string, *gate.Receipt) error { return nil }
func (noDisk) DropReceipt(*gate.Receipt)           {}

// settle runs an ask through a real gate.
func settle(t *testing.T, l *gate.Ledger, k gate.Kept, c hitl.Content) *gate.Settled {
	t.Helper()
	return settleBy(t, decided{c}, l, k)
}

func settleBy(t *testing.T, by gate.Asker, l *gate.Ledger, k gate.Kept) *gate.Settled {
	t.Helper()
	k.Request.SessionID = "s1"
	g := gate.New(gate.Options{Asker: by, Ledger: l, Keeper: noDisk{}, Logger: slog.New(slog.DiscardHandler)})
	got := make(chan *gate.Settled, 1)
	require.NoError(t, g.Open(gate.Ask{Kept: k, Settle: func(s *gate.Settled) { got <- s }}))
	s := <-got
	g.Wait()
	return s
}

func ledger(t *testing.T) *gate.Ledger {
	t.Helper()
	l, err := gate.OpenLedger(filepath.Join(t.TempDir(), "ledger"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

func bashAsk(t *testing.T) gate.Kept {
	t.Helper()
	k, err := approval(&protocol.Ask{RequestID: "r", ToolUseID: "t", ToolName: "Bash", Input: json.RawMessage(`{"command":"rm -r build && echo \"<ok>\""}`)}, where)
	require.NoError(t, err)
	return k
}

func questionAsk(t *testing.T) gate.Kept {
	t.Helper()
	k, err := question(&protocol.Ask{RequestID: "r", ToolUseID: "t", ToolName: "AskUserQuestion", Input: json.RawMessage(`{"questions":[{"question":"Which features?","header":"F","options":[{"label":"Auth"},{"label":"Audit, logs"}],"multiSelect":true}]}`)}, where)
	require.NoError(t, err)
	return k
}

// What a model reads about a call that was lost with its worker.
func TestResume_B49_B32_TheModelIsToldWhatWasDecided(t *testing.T) {
	t.Parallel()
	const call = "Tool Bash, with exactly this input:\n{\"command\":\"rm -r build && echo \\\"<ok>\\\"\"}\n"
	for name, c := range map[string]struct {
		kept gate.Kept
		c    hitl.Content
		want string
	}{
		"approved":      {bashAsk(t), hitl.Content{Outcome: hitl.Allowed}, call + "It was not run. Decision: approved. Make the call once more with exactly the same input: it then runs without a new question.\n"},
		"edited":        {bashAsk(t), hitl.Content{Outcome: hitl.Allowed, UpdatedInput: json.RawMessage(`{"command":"ls"}`)}, "who wants this input instead:\n{\"command\":\"ls\"}\n"},
		"denied":        {bashAsk(t), hitl.Content{Outcome: hitl.Denied, Message: "not <now>,\nplease"}, "Decision: denied by the person, in these words:\nnot <now>,\nplease\n"},
		"expired":       {bashAsk(t), hitl.Content{Outcome: hitl.Expired}, "It was not run. Nobody decided: Tool approval timed out after 10 minutes\n"},
		"not asked":     {bashAsk(t), hitl.Content{}, "It was not run. Nobody decided: The tool was not run: its request is too large"},
		"answered B-10": {questionAsk(t), hitl.Content{Outcome: hitl.Answered, Answers: []hitl.Answer{{QuestionID: "0", Values: []string{"Auth", "Audit, logs"}, Other: "x, y", Notes: "soon"}}}, "- Which features? -> Auth, \"Audit, logs\", \"x, y\"\n  Notes: soon\n"},
		"clarified":     {questionAsk(t), hitl.Content{Outcome: hitl.Clarify, Message: "which ones are there?"}, "Instead of an answer the person wrote:\nwhich ones are there?\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := settle(t, ledger(t), c.kept, c.c)
			text := resumeText([]*gate.Settled{s})
			require.Contains(t, text, c.want)
			require.True(t, strings.HasPrefix(text, "[Automatic note, not written by the user]"))
			require.Equal(t, c.c.Outcome == hitl.Denied, strings.Contains(text, "denied by the person"), "nobody's silence is a denial")
		})
	}
}

// An approval that was handed over before the crash must not run again.
func TestResume_AnApprovalHandedOverIsReportedAsUnknown(t *testing.T) {
	t.Parallel()
	l := ledger(t)
	first := settle(t, l, bashAsk(t), hitl.Content{Outcome: hitl.Allowed})
	first.Use(func(v gate.Verdict) error {
		require.True(t, v.Yes())
		return nil
	})
	s := settle(t, l, bashAsk(t), hitl.Content{Outcome: hitl.Allowed})
	require.True(t, s.Spent())
	require.Contains(t, resumeText([]*gate.Settled{s}), "Whether it ran is unknown: check before you do it again.")
	s.Use(func(v gate.Verdict) error {
		require.False(t, v.Yes())
		return nil
	})
}

// A decision is applied to the same call only, and once.
func TestGrant_B55_SameCallOnce(t *testing.T) {
	t.Parallel()
	s := settle(t, ledger(t), bashAsk(t), hitl.Content{Outcome: hitl.Allowed})
	var call private
	require.NoError(t, json.Unmarshal(s.Private, &call))
	r := &run{grants: []*grant{{call: &call, settled: s}}}
	for name, other := range map[string]*private{
		"another tool":  {Tool: "Write", Input: call.Input},
		"another input": {Tool: "Bash", Input: json.RawMessage(`{"command":"rm -r build"}`)},
		"a form":        {Form: "Bash", Input: call.Input},
	} {
		require.Nil(t, r.takeGrant(other), name)
	}
	g := r.takeGrant(&private{Tool: "Bash", Input: json.RawMessage(`{ "command": "rm -r build \u0026\u0026 echo \"<ok>\"" }`)})
	require.NotNil(t, g)
	require.Nil(t, r.takeGrant(&call))
	used := 0
	for range 2 {
		g.apply(func(v gate.Verdict) error {
			used++
			require.True(t, v.Yes())
			return nil
		})
	}
	require.Equal(t, 1, used)
}

// What the model made no use of in that turn does not lie around.
func TestGrant_EndsWithItsTurn(t *testing.T) {
	t.Parallel()
	l := ledger(t)
	s := settle(t, l, bashAsk(t), hitl.Content{Outcome: hitl.Allowed})
	r := &run{grants: []*grant{{call: &private{Tool: "Bash"}, settled: s}}}
	r.dropGrants()
	require.Empty(t, r.grants)
	s.Use(func(gate.Verdict) error {
		t.Error("used after its turn")
		return errors.New("used")
	})
	require.False(t, s.Spent())
}
