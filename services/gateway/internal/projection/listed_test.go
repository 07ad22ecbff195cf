package projection_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/gateway/internal/command"
	"github.com/banksman/banksman/services/gateway/internal/policy"
	"github.com/banksman/banksman/services/gateway/internal/projection"
	"github.com/banksman/banksman/services/gateway/internal/record"
)

// Taking a long command apart is the dearest thing that a gateway does with a
// request. It is counted by what it allocates, and nothing of it is kept.
func TestACommandIsReadOnce(t *testing.T) {
	text := strings.Repeat("make deploy TARGET=staging; ", 60)
	input, err := hitl.Marshal(map[string]string{"command": text})
	require.NoError(t, err)
	id := hitl.ID("default", "agents", "k", 1)
	raw, err := hitl.Marshal(hitl.Request{
		V: 1, ID: id, Key: "k", Kind: hitl.KindApproval, Tenant: "default", Owner: "agents", SessionID: "s", Title: "t",
		Tool: &hitl.Tool{Name: "Bash", Input: input},
	})
	require.NoError(t, err)
	ref := subject.NewRef("default", "agents", id)
	m := journal.Message{Subject: subject.Request(ref), Seq: 1, Time: time.Unix(1_000_000, 0), Data: raw}

	once := testing.AllocsPerRun(5, func() { command.Read(text) })
	for name, entry := range map[string]func() *projection.Entry{
		"at a start": func() *projection.Entry {
			r, a, err := record.Examined(&policy.Policy{}, ref, m)
			require.NoError(t, err)
			return projection.NewListed(r, len(raw), hitl.Digest(raw), a)
		},
		"when it is asked": func() *projection.Entry {
			r, a, err := record.Examine(&policy.Policy{}, ref, m)
			require.NoError(t, err)
			return projection.NewEntry(r, raw, hitl.Digest(raw), a)
		},
	} {
		require.True(t, entry().Reading == nil, "%s: what was taken apart is kept", name)
		require.Less(t, testing.AllocsPerRun(5, func() { entry() }), 1.7*once, name)
	}
}
