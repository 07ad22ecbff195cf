package gate

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
)

// Without a decision the agent reads which of the things it was, and never a
// person's "no".
func TestGate_B32_C13_NoDecisionIsNoDenial_invariant4(t *testing.T) {
	t.Parallel()
	two := hitl.Duration(2 * time.Minute)
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"too large":    {&bus.TooLargeError{Size: 2000, Limit: 1000}, "The tool was not run: its request is too large to be shown for approval: 2000 bytes, the limit is 1000; nobody was asked"},
		"invalid":      {hitl.Invalid("title", "is missing"), "The tool was not run: its request cannot be shown to a person (invalid: title: is missing); nobody was asked"},
		"key conflict": {bus.ErrKeyConflict, "The tool was not run: the same call was asked before with other content; nobody was asked again"},
		"forbidden":    {bus.ErrForbidden, "The tool was not run: this agent is not allowed to ask; nobody was asked"},
		"bad decision": {bus.ErrBadDecision, "The tool was not run: the stored decision is not about this request"},
		"old decision": {bus.ErrOldDecision, "The tool was not run: the stored decision is an old one that was put back, and does not count"},
		"time is up":   {&bus.WaitError{Stored: true, Err: bus.ErrNoDecision}, "Tool approval timed out after 2 minutes; no decision reached the agent"},
		"never stored": {&bus.WaitError{Err: fmt.Errorf("%w: %w", bus.ErrNoDecision, bus.ErrUnavailable)}, "The tool was not run: the approval service could not be reached within 2 minutes; nobody denied it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			r := request("a")
			r.ExpiresIn = &two
			f.open(r)
			f.reply("a", nil, c.err)
			v := await(t, f.told)
			require.Equal(t, c.want, v.Text)
			require.Empty(t, v.Content.Outcome)
			require.False(t, v.Yes())
			f.gate.Wait()
			none(t, f.acks)
		})
	}
}

// What the agent reads for each outcome that is no yes.
func TestGate_TextsForTheAgent(t *testing.T) {
	t.Parallel()
	ten := hitl.Duration(10 * time.Minute)
	question := &hitl.Request{Kind: hitl.KindQuestion, Key: "a", SessionID: "s1", Title: "t", Questions: []hitl.Question{{Question: "why?"}}, ExpiresIn: &ten}
	for name, c := range map[string]struct {
		r    *hitl.Request
		c    hitl.Content
		want string
	}{
		"D0-19 denied":                 {request("a"), hitl.Content{Outcome: hitl.Denied}, "User denied tool execution"},
		"D1-03 denied in words":        {request("a"), hitl.Content{Outcome: hitl.Denied, Message: " not\nnow "}, " not\nnow "},
		"D0-20 expired approval":       {request("a"), hitl.Content{Outcome: hitl.Expired}, "Tool approval timed out after 10 minutes"},
		"D0-20 D4-10 expired question": {question, hitl.Content{Outcome: hitl.Expired}, "User did not respond within 10 minutes"},
		"clarified":                    {question, hitl.Content{Outcome: hitl.Clarify, Message: "which one?"}, "which one?"},
		"dismissed":                    {question, hitl.Content{Outcome: hitl.Dismissed}, "A person closed this without answering"},
		"orphaned":                     {request("a"), hitl.Content{Outcome: hitl.Orphaned}, "The session that asked was lost before anybody decided"},
		"invalid":                      {request("a"), hitl.Content{Outcome: hitl.InvalidIX, Fields: []hitl.Field{{Field: "risk", Problem: "is odd"}}}, "The request was refused and shown to nobody: risk is odd"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.open(c.r)
			f.reply("a", answer(t, c.r, c.c), nil)
			require.Equal(t, c.want, await(t, f.told).Text)
		})
	}
}
