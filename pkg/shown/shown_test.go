package shown_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/shown"
)

func request() *hitl.Request {
	return &hitl.Request{
		Kind: hitl.KindApproval, Owner: "o", Title: "t", Message: "m", Reason: "r", SessionID: "s",
		Tool:      &hitl.Tool{Name: "Bash", Cwd: "/d", Input: json.RawMessage(`{"command":"make"}`)},
		Options:   []hitl.AgentOption{{OptionID: "a", Name: "n", Effect: "allow"}},
		Questions: []hitl.Question{{Question: "q", Options: []hitl.Option{{Label: "l"}}}},
		Schema:    json.RawMessage(`{"type":"object"}`),
	}
}

func said() *hitl.Card {
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	return &hitl.Card{
		V: shown.Version, Headline: "o wants to run make", Risk: "medium", RiskReason: "runs a command", Verbs: []string{"allow", "deny"}, Scopes: []string{"once"},
		Parts: []hitl.Part{
			{Text: "make", Joint: "first", Risk: "medium", RiskReason: "runs a command"}, {Text: "ls", Joint: "and", Risk: "low", RiskReason: "only reads"},
		},
		Grants: []string{"every use of Bash"}, AttentionAt: &at, ExpiresAt: &at,
	}
}

func TestDigest(t *testing.T) {
	t.Parallel()
	changes := map[string]func(*hitl.Request){
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
	}
	for name, c := range map[string]*hitl.Card{"of the texts alone": nil, "with what was said": said()} {
		want := shown.Digest(request(), c)
		require.Len(t, want, 64)
		same := request()
		same.Key, same.ID, same.TurnID = "another", "id", "turn"
		require.Equal(t, want, shown.Digest(same, c), "what nobody sees does not count")
		for what, change := range changes {
			r := request()
			change(r)
			require.NotEqual(t, want, shown.Digest(r, c), "%s: %s", name, what)
		}
	}
}

// Everything that the gateway says is a part of what was shown.
func TestWhatTheGatewaySaysCounts(t *testing.T) {
	t.Parallel()
	want, later := shown.Digest(request(), said()), time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	require.NotEqual(t, want, shown.Digest(request(), nil))
	for name, change := range map[string]func(*hitl.Request, *hitl.Card){
		"headline":              func(_ *hitl.Request, c *hitl.Card) { c.Headline += "." },
		"risk":                  func(_ *hitl.Request, c *hitl.Card) { c.Risk = "low" },
		"reason of the risk":    func(_ *hitl.Request, c *hitl.Card) { c.RiskReason = "" },
		"cannot be undone":      func(_ *hitl.Request, c *hitl.Card) { c.Irreversible = true },
		"a part's text":         func(_ *hitl.Request, c *hitl.Card) { c.Parts[1].Text = "ls -l" },
		"a part's risk":         func(_ *hitl.Request, c *hitl.Card) { c.Parts[1].Risk = "medium" },
		"a part's reason":       func(_ *hitl.Request, c *hitl.Card) { c.Parts[1].RiskReason = "" },
		"a part's joint":        func(_ *hitl.Request, c *hitl.Card) { c.Parts[1].Joint = "or" },
		"a part's place":        func(_ *hitl.Request, c *hitl.Card) { c.Parts[1].Depth = 1 },
		"parts left out":        func(_ *hitl.Request, c *hitl.Card) { c.Parts = c.Parts[:1] },
		"parts not listed":      func(_ *hitl.Request, c *hitl.Card) { c.MoreParts = 1 },
		"what may be answered":  func(_ *hitl.Request, c *hitl.Card) { c.Verbs = c.Verbs[:1] },
		"scopes":                func(_ *hitl.Request, c *hitl.Card) { c.Scopes = append(c.Scopes, "session") },
		"what it lets through":  func(_ *hitl.Request, c *hitl.Card) { c.Grants[0] = "every use of Read" },
		"when one is reminded":  func(_ *hitl.Request, c *hitl.Card) { c.AttentionAt = nil },
		"when it expires":       func(_ *hitl.Request, c *hitl.Card) { c.ExpiresAt = &later },
		"project":               func(r *hitl.Request, _ *hitl.Card) { r.ProjectID = "shop" },
		"session":               func(r *hitl.Request, _ *hitl.Card) { r.SessionID = "s2" },
		"the fields of a form":  func(r *hitl.Request, _ *hitl.Card) { r.Schema = json.RawMessage(`{"type":"object","properties":{}}`) },
		"owner beside the name": func(r *hitl.Request, _ *hitl.Card) { r.Owner = "o2" },
	} {
		r, c := request(), said()
		change(r, c)
		require.NotEqual(t, want, shown.Digest(r, c), name)
	}
	c := said()
	c.Named = true
	require.Equal(t, want, shown.Digest(request(), c), "that is of the answer")
	c.V++
	require.Empty(t, shown.Digest(request(), c), "a later version is not guessed at")
}

// What gateways recorded that kept no card has the digest that it had.
func TestOldRecordsKeepTheirDigest(t *testing.T) {
	t.Parallel()
	r := request()
	r.Schema, r.SessionID = nil, ""
	require.Equal(t, "90dd181af3e253f770df0c1469a72e4b1388c17e4c562193eb4d71aeab808c13", shown.Digest(r, nil))
}
