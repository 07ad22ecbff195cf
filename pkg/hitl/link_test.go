package hitl_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/hitl/link"
)

func linkTool(t *testing.T, address string) *hitl.Tool {
	t.Helper()
	input, err := hitl.Marshal(map[string]string{"url": address})
	require.NoError(t, err)
	return &hitl.Tool{Name: link.Tool, Server: "tickets", Input: input}
}

// The host stands in the headline and in a row of its own; the address and all
// else that the request brings are shown too.
func TestLinkView_B54_invariant10(t *testing.T) {
	t.Parallel()
	r := &hitl.Request{Kind: hitl.KindApproval, AgentName: "Claude Code", Tool: linkTool(t, "https://g\u0456thub.com/login"), URL: "https://other.example/\u202e"}
	require.Equal(t, "Claude Code wants to have you open a page of g⟦U+0456⟧thub.com", hitl.Headline(r))
	blocks := hitl.View(r)
	require.Equal(t, []string{"Host", "Address", "Address"}, []string{blocks[0].Label, blocks[1].Label, blocks[2].Label})
	require.Equal(t, "g⟦U+0456⟧thub.com", blocks[0].Text)
	require.Equal(t, "https://g\u0456thub.com/login", blocks[1].Text)
	require.Equal(t, "https://other.example/⟦U+202E⟧", blocks[2].Text, "an address of any request is shown")

	r.Tool = linkTool(t, "javascript:alert(1)")
	require.Equal(t, "Claude Code wants to have you open a page", hitl.Headline(r))
	require.Equal(t, "javascript:alert(1)", hitl.View(r)[0].Text)
	r.Tool.Input = json.RawMessage(`{"url":5,"more":1}`)
	require.True(t, strings.Contains(hitl.View(r)[0].Text, `"more": 1`), "%v", hitl.View(r))
}
