package agent_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/services/agent/internal/store"
)

// copied is a worker's setup with a copy of another's data directory.
func (w *world) copied(of setup) setup {
	w.t.Helper()
	s := w.demoSetup()
	require.NoError(w.t, os.RemoveAll(s.Data))
	require.NoError(w.t, os.CopyFS(s.Data, os.DirFS(of.Data)))
	return s
}

func (s setup) file(session string) string {
	return filepath.Join(s.Data, "sessions", session+".json")
}

func (s setup) uses(t *testing.T, id string) int {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(s.Data, "approvals.jsonl"))
	require.NoError(t, err)
	return strings.Count(string(raw), id)
}

// gone waits until the session is no longer in a directory.
func (s setup) gone(t *testing.T, session string) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, err := os.Stat(s.file(session))
		return errors.Is(err, os.ErrNotExist)
	}, patience, 10*time.Millisecond, "the worker still has the session %s", session)
}

// theirs checks that what people see of an ask is the word of one worker.
func (w *world) theirs(p *pending) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	require.False(w.t, p.withdrawn, "the ask was taken away")
	for _, a := range w.acks[p.ID] {
		require.NotEqual(w.t, hitl.Refused, a.Stage, a.Detail)
	}
}

// line is a worker's way to the server, which can be cut.
type line struct {
	mu    sync.Mutex
	out   bool
	conns []net.Conn
}

func (l *line) Dial(network, address string) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.out {
		return nil, errors.New("the line is cut")
	}
	c, err := net.Dial(network, address)
	if err == nil {
		l.conns = append(l.conns, c)
	}
	return c, err
}

func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.out = true
	for _, c := range l.conns {
		_ = c.Close()
	}
}

func (l *line) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.out = false
}

// A copy of a data directory is a second worker with the same sessions. One of the
// two has them, the other leaves them, and people hear of one.
func TestCopiedDirectory_D4_05_OneOfTwoWorkersHasTheSession(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"at an ask", "at its claim"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			a := w.demoSetup()
			var p *pending
			if name == "at an ask" {
				p = w.leftover(a, "copied", func(*store.Session, *pending) {})
			} else {
				w.unclaimed(a, "copied")
			}
			b := w.copied(a)
			ka, kb := w.worker(a), w.worker(b)
			if p == nil {
				p = w.request("status", tool("Bash", "git status"))
			}
			require.Eventually(t, func() bool {
				return ka.said.has("another worker has the session") || kb.said.has("another worker has the session")
			}, patience, 10*time.Millisecond)
			w.decide(p, hitl.Response{Decision: "allow"})
			w.acked(p, hitl.Applied)
			second := w.request("edit", tool("Edit", "config.yaml"))
			w.decide(second, hitl.Response{Decision: "deny", Message: "not this"})
			w.acked(second, hitl.Applied)
			w.theirs(p)
			results := func() (n int) {
				w.mu.Lock()
				defer w.mu.Unlock()
				for _, e := range w.events["copied"] {
					if e.Type == hitl.EventToolResult {
						n++
					}
				}
				return n
			}
			// A worker that ends in between leaves what it had to say to the next one.
			require.Eventually(t, func() bool { return results() >= 2 }, patience, 10*time.Millisecond)
			ka.end()
			kb.end()
			require.Equal(t, 1, a.uses(t, p.ID)+b.uses(t, p.ID))
			loser := a
			if kb.said.has("another worker has the session") {
				loser = b
			}
			require.NoFileExists(t, loser.file("copied"), "it does not come back to it")
			require.Equal(t, 2, results())
			w.mu.Lock()
			defer w.mu.Unlock()
			asked := map[string]int{} // the next step may be asked already
			for _, r := range w.requests {
				asked[r.Title]++
				require.Equal(t, 1, asked[r.Title], r.Title)
			}
		})
	}
}

// A worker that was cut off while another took over leaves the session when it is
// back, whether or not the decision was there first, and uses no approval.
func TestCutOffWorker_D4_05_LeavesItsSessionToTheOther(t *testing.T) {
	t.Parallel()
	for _, decided := range []bool{true, false} {
		name := "before the decision"
		if decided {
			name = "behind the decision"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			a, l := w.demoSetup(), &line{}
			ka := w.worker(a, nats.SetCustomDialer(l))
			id := w.begin(hitl.Start{Runtime: "demo", Prompt: "show me", SessionID: "cut"})
			p := w.request("status", tool("Bash", "git status"))
			w.reached(id, hitl.StateAssistantTurn)
			l.cut()
			b := w.copied(a)
			kb := w.worker(b)
			w.generation(id, 2)
			if decided {
				w.decide(p, hitl.Response{Decision: "allow"})
				w.acked(p, hitl.Applied)
			}
			l.mend()
			a.gone(t, id)
			require.True(t, ka.said.has("took it with generation 2, this was 1"))
			if !decided {
				w.decide(p, hitl.Response{Decision: "allow"})
				w.acked(p, hitl.Applied)
			}
			second := w.request("edit", tool("Edit", "config.yaml"))
			// Only the other one hears what people say.
			require.Equal(t, "ok", w.command(id, hitl.Command{Type: hitl.CommandInterrupt}).Status)
			w.until("withdrawal", func() bool { return second.withdrawn })
			w.theirs(p)
			ka.end()
			kb.end()
			require.Zero(t, a.uses(t, p.ID))
			require.Equal(t, 1, b.uses(t, p.ID))
			// Nor does its successor take the session up again.
			w.worker(a).end()
			w.mu.Lock()
			defer w.mu.Unlock()
			require.Equal(t, 2, w.states[id][len(w.states[id])-1].Generation)
		})
	}
}

// A stopped process keeps its connection for a while, and what the server sent it
// meanwhile. It wakes up with the decision in its hands.
func TestPausedWorker_D4_05_B49_UsesNoApprovalOfAnothersSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.demoSetup()
	c := w.child(a)
	id := w.begin(hitl.Start{Runtime: "demo", Prompt: "show me", SessionID: "paused"})
	p := w.request("status", tool("Bash", "git status"))
	w.reached(id, hitl.StateAssistantTurn)
	require.NoError(t, c.cmd.Process.Signal(syscall.SIGSTOP))
	b := w.copied(a)
	kb := w.worker(b)
	w.generation(id, 2)
	w.decide(p, hitl.Response{Decision: "allow"})
	w.acked(p, hitl.Applied)
	require.NoError(t, c.cmd.Process.Signal(syscall.SIGCONT))
	a.gone(t, id)
	second := w.request("edit", tool("Edit", "config.yaml"))
	w.decide(second, hitl.Response{Decision: "deny"})
	w.acked(second, hitl.Applied)
	w.theirs(p)
	kb.end()
	require.Zero(t, a.uses(t, p.ID))
	require.Equal(t, 1, b.uses(t, p.ID))
}

// A session that ends by itself in a worker that lost it takes nothing with it: a
// command to stop reaches the worker that has it.
func TestStop_D1_16_IsTheHoldersWord(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.demoSetup()
	ka := w.worker(a)
	id := w.begin(hitl.Start{Runtime: "demo", Prompt: "show me", SessionID: "stopped"})
	p := w.request("status", tool("Bash", "git status"))
	st := w.reached(id, hitl.StateAssistantTurn)
	// Nothing happens in the first worker, which therefore knows nothing of it.
	st.Worker, st.Generation = "another", 2
	_, err := ka.client.Claim(t.Context(), &st)
	require.NoError(t, err)
	_, err = w.nc.Request("hitl.cmd.default.agents."+id, []byte(`{"v":1,"command_id":"c1","type":"stop"}`), 500*time.Millisecond)
	require.ErrorIs(t, err, nats.ErrTimeout, "another worker's session has its own answer")
	a.gone(t, id)
	ka.end()
	w.theirs(p)
	w.mu.Lock()
	defer w.mu.Unlock()
	require.NotEqual(t, hitl.StateDead, w.states[id][len(w.states[id])-1].State)
}
