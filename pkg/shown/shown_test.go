package shown_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/shown"
)

func TestDigest(t *testing.T) {
	t.Parallel()
	base := func() *hitl.Request {
		return &hitl.Request{
			Kind: hitl.KindApproval, Owner: "o", Title: "t", Message: "m", Reason: "r",
			Tool:      &hitl.Tool{Name: "Bash", Cwd: "/d", Input: json.RawMessage(`{"command":"make"}`)},
			Options:   []hitl.AgentOption{{OptionID: "a", Name: "n", Effect: "allow"}},
			Questions: []hitl.Question{{Question: "q", Options: []hitl.Option{{Label: "l"}}}},
		}
	}
	want := shown.Digest(base())
	require.Len(t, want, 64)
	same := base()
	same.Key, same.ID, same.TurnID = "another", "id", "turn"
	require.Equal(t, want, shown.Digest(same), "what nobody sees does not count")
	for name, change := range map[string]func(*hitl.Request){
		"title":       func(r *hitl.Request) { r.Title = "T" },
		"message":     func(r *hitl.Request) { r.Message = "" },
		"reason":      func(r *hitl.Request) { r.Reason = "x" },
		"directory":   func(r *hitl.Request) { r.Tool.Cwd = "/e" },
		"command":     func(r *hitl.Request) { r.Tool.Input = json.RawMessage(`{"command":"make all"}`) },
		"invisible":   func(r *hitl.Request) { r.Tool.Input = json.RawMessage(`{"command":"make\u200b"}`) },
		"agent":       func(r *hitl.Request) { r.AgentName = "somebody" },
		"choice":      func(r *hitl.Request) { r.Options[0].Name = "N" },
		"effect":      func(r *hitl.Request) { r.Options[0].Effect = "deny" },
		"question":    func(r *hitl.Request) { r.Questions[0].Question = "Q" },
		"option":      func(r *hitl.Request) { r.Questions[0].Options[0].Label = "L" },
		"description": func(r *hitl.Request) { r.Questions[0].Options[0].Description = "D" },
	} {
		r := base()
		change(r)
		require.NotEqual(t, want, shown.Digest(r), name)
	}
}
