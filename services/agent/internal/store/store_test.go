package store

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/services/agent/internal/gate"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, path string) *Dir {
	t.Helper()
	d, err := Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = d.Close() }) // some tests close it themselves
	return d
}

// The bytes of an ask survive, or asking again would be another request.
func TestDir_SessionsComeBackByteForByte(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	d := open(t, path)
	in := json.RawMessage(`{"command":"a && b <c>","n":9007199254740993,"f":1.0}`)
	s := &Session{
		State: hitl.SessionState{SessionID: "a session/../with .. odd name", Generation: 3}, Claimed: true,
		Inbox:  []Prompt{{Text: "hello"}},
		Asks:   []gate.Kept{{ID: "r1", Request: &hitl.Request{Key: "k", Tool: &hitl.Tool{Input: in}}, Private: []byte{0, 1}}},
		Memory: json.RawMessage(`{"x":"<&>"}`),
	}
	require.NoError(t, d.Save(s))
	s.State.Generation = 4
	require.NoError(t, d.Save(s))
	require.NoError(t, d.Close())

	d = open(t, path)
	got, err := d.Load()
	require.NoError(t, err)
	require.Len(t, got, 1)
	require.Equal(t, s, got[0])
	require.Equal(t, string(in), string(got[0].Asks[0].Request.Tool.Input))
	files, err := os.ReadDir(filepath.Join(path, "sessions"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	info, err := files[0].Info()
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.NoError(t, d.Delete(s.State.SessionID))
	require.NoError(t, d.Delete(s.State.SessionID), "gone is gone")
	got, err = d.Load()
	require.NoError(t, err)
	require.Empty(t, got)
}

func TestDir_OneWorkerAtATime(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	d := open(t, path)
	_, err := Open(path)
	require.ErrorIs(t, err, ErrInUse)
	require.NoError(t, d.Close())
	open(t, path)
}

func TestDir_AnUnreadableSessionDoesNotHideTheOthers(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	d := open(t, path)
	require.NoError(t, d.Save(&Session{State: hitl.SessionState{SessionID: "good"}}))
	for name, raw := range map[string]string{"half.json": `{"v":1,"sta`, "new.json": `{"v":9,"state":{"session_id":"x"}}`, "nameless.json": `{"v":1}`} {
		require.NoError(t, os.WriteFile(filepath.Join(path, "sessions", name), []byte(raw), 0o600))
	}
	got, err := d.Load()
	require.ErrorContains(t, err, "half.json")
	require.ErrorContains(t, err, "new.json: v: unknown version 9")
	require.ErrorContains(t, err, "nameless.json: state.session_id: missing")
	require.Len(t, got, 1)
	require.FileExists(t, filepath.Join(path, "sessions", "half.json"))
}

func TestDir_TheWorkerKeepsItsName(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	d := open(t, path)
	first, err := d.WorkerID(func() string { return "one" })
	require.NoError(t, err)
	second, err := d.WorkerID(func() string { return "two" })
	require.NoError(t, err)
	require.Equal(t, []string{"one", "one"}, []string{first, second})
}

func TestSession_CommandMemoryIsBounded(t *testing.T) {
	t.Parallel()
	s := &Session{}
	for i := range commandMemory + 5 {
		s.NoteCommand(fmt.Sprint(i))
	}
	require.Len(t, s.Commands, commandMemory)
	require.False(t, s.DidCommand("4"))
	require.True(t, s.DidCommand("5"))
	require.True(t, s.DidCommand(fmt.Sprint(commandMemory+4)))
}
