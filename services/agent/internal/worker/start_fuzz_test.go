package worker

import (
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/services/agent/internal/store"
)

// FuzzRecord: what becomes of a start is a session that a successor reads the same,
// whoever wrote the start; it names this worker, owner and tenant, and nobody else.
func FuzzRecord(f *testing.F) {
	for _, s := range []string{
		`{"v":1,"session_id":"s","runtime":"demo","prompt":"hello"}`, `{"session_id":"s","prompt":" \t\n "}`,
		`{"session_id":"../../x","tenant":"other","pool":"other","prompt":"a  b\r\nc","cwd":"/tmp","mode":"plan","model":"m","project_id":"p"}`,
		`{"session_id":"s","attachments":[{"kind":"image","media_type":"image/png","data_b64":"AA=="}]}`, "{\"session_id\":\"s\",\"prompt\":\"\\ud800\"}",
	} {
		f.Add([]byte(s))
	}
	dir, err := store.Open(f.TempDir())
	require.NoError(f, err)
	f.Cleanup(func() { _ = dir.Close() })
	w := &Worker{id: "w1", cwd: "/home"}
	owner := &bus.Credentials{Tenant: "default", Name: "agents"}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var st hitl.Start
		if hitl.Decode(raw, "start", &st) != nil || st.SessionID == "" {
			return
		}
		rec := w.record(owner, &st)
		require.Equal(t, []string{"default", "agents", "w1", st.SessionID}, []string{rec.State.Tenant, rec.State.Owner, rec.State.Worker, rec.State.SessionID})
		require.Equal(t, 1, rec.State.Generation)
		require.False(t, rec.Claimed)
		require.True(t, utf8.ValidString(rec.State.Title))
		require.LessOrEqual(t, utf8.RuneCountInString(rec.State.Title), max(maxTitle, utf8.RuneCountInString(st.Runtime+" session")))
		require.NotEmpty(t, rec.State.Title)
		require.NotEmpty(t, rec.State.Cwd)
		require.NoError(t, dir.Save(rec))
		list, err := dir.Load()
		require.NoError(t, err)
		require.Len(t, list, 1)
		want, err := hitl.Marshal(rec)
		require.NoError(t, err)
		got, err := hitl.Marshal(list[0])
		require.NoError(t, err)
		require.Equal(t, string(want), string(got))
		require.NoError(t, dir.Delete(st.SessionID))
	})
}
