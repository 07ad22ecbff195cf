package claudert

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/services/agent/internal/gate"
	"github.com/banksman/banksman/services/agent/internal/runtime"
)

// quiet takes everything, and notes the asks and the memory.
type quiet struct {
	asked  []string
	memory json.RawMessage
}

func (q *quiet) Emit(runtime.Event)          {}
func (q *quiet) Ask(a gate.Ask)              { q.asked = append(q.asked, a.ID) }
func (q *quiet) Withdraw(string, string)     {}
func (q *quiet) Flush(context.Context) error { return nil }
func (q *quiet) Remember(memory json.RawMessage) error {
	q.memory = memory
	return nil
}

// FuzzMemory: from a memory that is read nothing but a UUID becomes an argument of
// the CLI, it is written the same, and what is open is asked again. Another one is
// refused.
func FuzzMemory(f *testing.F) {
	const id = "6ba7b810-9dad-41d1-80b4-00c04fd430c8"
	for _, s := range []string{
		`{"cli_session":"` + id + `","begun":true}`, `{"cli_session":"` + id + `"}`, `{"cli_session":"--dangerously-skip-permissions"}`, `{"cli_session":""}`,
		`{}`, `null`, ``, `[]`, `{"cli_session":"{` + id + `}"}`, `{"cli_session":"urn:uuid:` + id + `"}`, `{"cli_session":1}`, `{"begun":"yes"}`,
	} {
		f.Add([]byte(s))
	}
	cwd := f.TempDir()
	f.Fuzz(func(t *testing.T, raw []byte) {
		q := &quiet{}
		spec := runtime.Spec{
			SessionID: "s", Cwd: cwd, Memory: raw, Logger: slog.New(slog.DiscardHandler),
			Open: []gate.Kept{{ID: "a", Request: &hitl.Request{Kind: hitl.KindApproval}}},
		}
		if raw == nil {
			spec.Memory = json.RawMessage{}
		}
		started, err := New(Options{Path: os.Args[0]}).Start(t.Context(), spec, q)
		if err != nil {
			require.ErrorContains(t, err, "memory: ")
			require.Empty(t, q.asked)
			return
		}
		r := started.(*run)
		require.NoError(t, uuid.Validate(r.memory.CLISession))
		require.False(t, strings.HasPrefix(r.memory.CLISession, "-"))
		require.Equal(t, []string{"a"}, q.asked)
		require.NoError(t, r.remember())
		same, err := decode(q.memory)
		require.NoError(t, err)
		require.Equal(t, r.memory, same)
		r.Kill()
	})
}

// FuzzPrivate: whatever note of a call is found on disk, the model is told what was
// decided, and only a note of the same call lets it run.
func FuzzPrivate(f *testing.F) {
	for _, s := range []string{
		``, `null`, `{}`, `{"tool":"Bash","input":{"command":"rm -r build && echo \"<ok>\""}}`, `{"form":"server","input":{}}`, `{"tool":"Bash"}`, `{"tool":1}`, "\xff", `{"tool":"Bash","input":{"a":1,"a":2}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, note []byte) {
		k := bashAsk(t)
		k.Private = note
		s := settle(t, ledger(t), k, hitl.Content{Outcome: hitl.Allowed})
		text := resumeText([]*gate.Settled{s})
		require.True(t, strings.HasPrefix(text, "[Automatic note, not written by the user]"))
		require.Contains(t, text, "It was not run. Decision: approved.")
		var call private
		if json.Unmarshal(note, &call) != nil {
			return
		}
		r := &run{grants: []*grant{{call: &call, settled: s}}}
		other := &private{Tool: call.Tool + "x", Input: call.Input}
		require.Nil(t, r.takeGrant(other))
		s.Refuse("unused")
	})
}
