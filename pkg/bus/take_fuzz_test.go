package bus

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
)

// FuzzClaim: an approval is used by whoever claimed it first. Only a whole claim of
// that very decision by that very caller is one's own; two readers could not take it
// for another's.
func FuzzClaim(f *testing.F) {
	good, err := hitl.Marshal(hitl.Ack{V: 1, Stage: subject.Taken, DecisionID: "d", At: time.Date(2026, 11, 28, 10, 0, 0, 0, time.UTC), Detail: "w1"})
	require.NoError(f, err)
	for _, s := range []string{
		``, `null`, `[]`, `{}`, string(good), string(good[:len(good)-1]), string(good) + `{}`, strings.Replace(string(good), `"w1"`, `"w2","detail":"w1"`, 1), strings.Replace(string(good), `"w1"`, `"w2","Detail":"w1"`, 1),
		strings.Replace(string(good), "taken", "applied", 1), strings.Replace(string(good), `"v":1`, `"v":2`, 1), strings.Replace(string(good), `"v":1`, `"v":1e400`, 1), strings.Replace(string(good), "w1", "w1\xff", 1),
		strings.Replace(string(good), `"w1"`, strings.Repeat("[", 5000)+strings.Repeat("]", 5000), 1), strings.Replace(string(good), `"w1"`, `1`, 1), `{"detail":"w1","decision_id":"d"}`,
	} {
		f.Add([]byte(s), "d", "w1")
		f.Add([]byte(s), "", "")
	}
	f.Fuzz(func(t *testing.T, raw []byte, decision, by string) {
		if !claimed(raw, decision, by) {
			return
		}
		require.NoError(t, hitl.CheckJSON(raw))
		var a hitl.Ack
		require.NoError(t, hitl.Decode(raw, "claim", &a))
		require.Equal(t, []any{1, subject.Taken, decision, by}, []any{a.V, a.Stage, a.DecisionID, a.Detail})
		again, err := hitl.Marshal(a)
		if err != nil {
			return // a year beyond 9999
		}
		require.True(t, claimed(again, decision, by), "what the writer would write is taken as well")
		require.False(t, claimed(raw, decision+"x", by))
		require.False(t, claimed(raw, decision, by+"x"))
	})
}
