package gate

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// FuzzLedger: a ledger that is opened knows every whole line, and one that
// cannot be read hands nothing out.
func FuzzLedger(f *testing.F) {
	const line = `{"interaction_id":"i","decision_id":"d","at":"2026-11-27T10:00:00Z"}`
	for _, s := range []string{"", line, line + "\n", line + "\n" + line[:20], "\n", "{}\n", line + "\n{}\n" + line + "\n", line[:20] + "\n" + line + "\n", "\xff\n", "null\n", line + line + "\n"} {
		f.Add([]byte(s))
	}
	path := filepath.Join(f.TempDir(), "approvals.jsonl")
	f.Fuzz(func(t *testing.T, raw []byte) {
		require.NoError(t, os.WriteFile(path, raw, 0o600))
		l, err := OpenLedger(path)
		if err != nil {
			kept, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, raw, kept, "nothing is lost of what cannot be read")
			return
		}
		whole := raw[:bytes.LastIndexByte(raw, '\n')+1]
		require.LessOrEqual(t, len(l.used), bytes.Count(whole, []byte("\n")))
		if bytes.HasPrefix(whole, []byte(line+"\n")) {
			require.Error(t, l.Spent("i", "d"))
		}
		uses := l.Uses()
		dropped, err := l.Trim(time.Now(), 400*24*time.Hour)
		require.NoError(t, err)
		require.Len(t, l.Uses(), len(uses)-dropped)
		if len(uses) > 0 {
			require.Error(t, l.Spent(uses[len(uses)-1].Interaction, ""), "the newest stays")
		}
		spent := l.Spent("new", "one") != nil
		err = l.Claim("new", "one")
		require.Equal(t, spent, err != nil)
		require.NoError(t, l.Close())
		again, err := OpenLedger(path)
		require.NoError(t, err)
		require.Error(t, again.Spent("new", "one"))
		require.ErrorIs(t, again.Claim("new", "one"), ErrSpent)
		require.NoError(t, again.Close())
	})
}
