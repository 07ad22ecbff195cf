package store

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzSession: a session file that is read is read the same after it was
// written again; another one is named and stays where it is.
func FuzzSession(f *testing.F) {
	const good = `{"v":1,"state":{"v":1,"session_id":"s","tenant":"t","owner":"o","worker":"w","generation":1,"runtime":"demo","state":"user_turn","started_at":"2026-11-27T10:00:00Z","state_changed_at":"2026-11-27T10:00:00Z"},"claimed":true,"inbox":[{"text":"hi"}],"asks":[{"id":"a","request":{"v":1,"kind":"approval","tool":{"name":"Bash","input":{"n":9007199254740993}}},"private":"e30="}],"commands":["c"],"memory":{"x":1e400}}`
	for _, s := range []string{
		good, ``, `{}`, `null`, `{"v":2}`, `{"v":1}`, `{"v":1,"state":{"session_id":"../../etc/passwd"}}`, strings.Replace(good, `"v":1`, `"v":1,"V":1`, 1),
		strings.Replace(good, "10:00:00Z", "10:00:00+24:00", 1), "{\"v\":1,\"state\":{\"session_id\":\"\xff\"}}", `{"v":1,"state":{"session_id":"s"},"asks":[{}]}`,
	} {
		f.Add([]byte(s))
	}
	dir, err := Open(f.TempDir())
	require.NoError(f, err)
	f.Cleanup(func() { _ = dir.Close() })
	f.Fuzz(func(t *testing.T, raw []byte) {
		path := filepath.Join(dir.path, "sessions", "x.json")
		require.NoError(t, os.WriteFile(path, raw, 0o600))
		defer func() { require.NoError(t, os.Remove(path)) }()
		list, err := dir.Load()
		if err != nil {
			require.ErrorContains(t, err, "x.json")
			require.Empty(t, list)
			kept, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, raw, kept)
			return
		}
		require.Len(t, list, 1)
		require.NotEmpty(t, list[0].State.SessionID)
		file := dir.file(list[0].State.SessionID)
		require.Equal(t, filepath.Join(dir.path, "sessions"), filepath.Dir(file), "never outside of the directory")
		for _, a := range list[0].Asks {
			require.NotNil(t, a.Request, "what is to be asked again is there")
		}
	})
}
