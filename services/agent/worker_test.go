package agent_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/services/agent"
)

// A session that cannot start is dead, with words that help.
func TestStart_ProblemsAreShownToThePerson(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.demoSetup()
	w.worker(s)
	for _, c := range []struct {
		name  string
		start hitl.Start
		want  string
	}{
		{"the CLI is missing", hitl.Start{Runtime: "claude", Prompt: "hello", Cwd: s.Cwd}, "npm install -g @anthropic-ai/claude-code"},
		{"the directory is missing", hitl.Start{Runtime: "claude", Prompt: "hello", Cwd: "/no/such/dir"}, "cwd: the directory /no/such/dir does not exist"},
		{"the directory is a file", hitl.Start{Runtime: "claude", Prompt: "hello", Cwd: filepath.Join(s.Data, "worker")}, "is not a directory"},
		{"unknown mode", hitl.Start{Runtime: "claude", Prompt: "hello", Mode: "yolo"}, `mode: "yolo" is none of default`},
		{"unknown runtime", hitl.Start{Runtime: "parrot", Prompt: "hello"}, `runtime: "parrot" is none of claude, demo`},
	} {
		t.Run(c.name, func(t *testing.T) {
			id := w.begin(c.start)
			require.Contains(t, w.reached(id, hitl.StateDead).Error, c.want)
			w.saw(id, hitl.EventError, "")
			w.saw(id, hitl.EventText, "hello")
			w.saw(id, hitl.EventDone, "error")
		})
	}
}

// Of two workers of a pool exactly one has a session, and they never touch each
// other's.
func TestPool_EverySessionHasOneWorker(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.demoSetup(), w.demoSetup()
	w.worker(a)
	kb := w.worker(b)
	var ids []string
	for i := range 8 {
		ids = append(ids, w.begin(hitl.Start{Runtime: "demo", Prompt: fmt.Sprintf("session %d", i)}))
	}
	for _, id := range ids {
		w.request("status in "+id, func(p *pending) bool { return p.SessionID == id })
	}
	kb.end()
	w.worker(b)
	w.mu.Lock()
	owners := map[string]string{}
	for _, id := range ids {
		owners[id] = w.states[id][0].Worker
		for _, st := range w.states[id] {
			require.Equal(t, owners[id], st.Worker)
		}
	}
	requests := len(w.requests)
	w.mu.Unlock()
	require.Equal(t, 8, requests)
	for _, id := range ids {
		w.decide(w.request("status in "+id, func(p *pending) bool { return p.SessionID == id }), hitl.Response{Decision: "deny"})
		w.saw(id, hitl.EventText, "You said no.")
	}
}

func TestClose_GivesTheDataDirectoryUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cred, err := bus.LoadCredentials(w.creds())
	require.NoError(t, err)
	client, err := bus.Connect(t.Context(), cred, bus.Options{})
	require.NoError(t, err)
	defer client.Close()
	dir := t.TempDir()
	for range 2 {
		a, err := agent.New(agent.Options{Client: client, DataDir: dir})
		require.NoError(t, err)
		require.NoError(t, a.Close())
	}
}

func TestNew_RefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.demoSetup()
	w.worker(s)
	cred, err := bus.LoadCredentials(w.creds())
	require.NoError(t, err)
	client, err := bus.Connect(t.Context(), cred, bus.Options{})
	require.NoError(t, err)
	defer client.Close()
	for _, c := range []struct {
		name, want string
		o          agent.Options
	}{
		{"no client", "Client: missing", agent.Options{DataDir: t.TempDir()}},
		{"no data directory", "-data: missing", agent.Options{Client: client}},
		{"another pool", "-creds: they are for the pool", agent.Options{Client: client, DataDir: t.TempDir(), Pool: "other"}},
		{"another tenant", "-creds: they are for the tenant", agent.Options{Client: client, DataDir: t.TempDir(), Tenant: "other"}},
		{"a relative directory", "-cwd: ", agent.Options{Client: client, DataDir: t.TempDir(), DefaultCwd: "here"}},
		{"a data directory in use", "another worker uses this data directory", agent.Options{Client: client, DataDir: s.Data}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := agent.New(c.o)
			require.ErrorContains(t, err, c.want)
		})
	}
}

// A session that is stopped while it waits takes its card with it.
func TestStop_D1_16_WithdrawsWhatIsOpen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.demoSetup()
	k := w.worker(s)
	id := w.begin(hitl.Start{Runtime: "demo", Prompt: "hello"})
	p := w.request("status", tool("Bash", "git status"))
	require.Equal(t, "invalid", w.command(id, hitl.Command{Type: hitl.CommandMessage}).Status)
	require.Equal(t, "invalid", w.command(id, hitl.Command{Type: "dance"}).Status)
	require.Equal(t, "ok", w.command(id, hitl.Command{Type: hitl.CommandStop}).Status)
	st := w.reached(id, hitl.StateDead)
	require.Equal(t, "stopped by a person", st.KillReason)
	require.Empty(t, st.Error)
	w.until("withdrawal", func() bool { return p.withdrawn })
	k.end()
	files, err := filepath.Glob(filepath.Join(s.Data, "sessions", "*.json"))
	require.NoError(t, err)
	require.Empty(t, files, "a dead session does not come back")
}

// An interrupted step is asked again under another key when the session goes on.
func TestInterrupt_D0_10_TheDemoAsksAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker(w.demoSetup())
	id := w.begin(hitl.Start{Runtime: "demo", Prompt: "hello"})
	p := w.request("status", tool("Bash", "git status"))
	require.Equal(t, "ok", w.command(id, hitl.Command{Type: hitl.CommandInterrupt}).Status)
	w.until("withdrawal", func() bool { return p.withdrawn })
	w.reached(id, hitl.StateUserTurn)
	require.Equal(t, "ok", w.command(id, hitl.Command{Type: hitl.CommandMessage, Text: "go on"}).Status)
	again := w.request("status again", tool("Bash", "git status"))
	require.NotEqual(t, p.ID, again.ID)
	w.decide(again, hitl.Response{Decision: "deny", Interrupt: true})
	w.acked(again, hitl.Applied)
	w.reached(id, hitl.StateUserTurn)
}

// A worker that dies between its claim and the note of it finds out whose the
// session is.
func TestClaim_ACrashInBetweenLosesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cred, err := bus.LoadCredentials(w.creds())
	require.NoError(t, err)
	client, err := bus.Connect(t.Context(), cred, bus.Options{})
	require.NoError(t, err)
	defer client.Close()
	s := w.demoSetup()
	require.NoError(t, os.MkdirAll(filepath.Join(s.Data, "sessions"), 0o700))
	at := time.Now().UTC()
	for _, id := range []string{"ours", "theirs"} {
		st := hitl.SessionState{
			V: 1, SessionID: id, Tenant: bus.DefaultTenant, Owner: "agents", Worker: "before", Generation: 1,
			Runtime: "demo", State: hitl.StateStarting, StartedAt: at, StateChangedAt: at,
		}
		raw, err := json.Marshal(map[string]any{"v": 1, "state": st, "inbox": []any{map[string]any{"text": "hello " + id}}})
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(s.Data, "sessions", id+".json"), raw, 0o600))
		if id == "theirs" {
			st.Worker = "another"
		}
		_, err = client.Claim(t.Context(), &st)
		require.NoError(t, err)
	}
	k := w.worker(s)
	require.Equal(t, "ours", w.request("status", tool("Bash", "git status")).SessionID)
	k.end()
	require.NoFileExists(t, filepath.Join(s.Data, "sessions", "theirs.json"))
	w.mu.Lock()
	defer w.mu.Unlock()
	require.Len(t, w.states["theirs"], 1)
	require.Empty(t, w.events["theirs"])
}
