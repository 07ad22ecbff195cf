package crash

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/hitltest/modelapi"
	"github.com/banksman/banksman/pkg/wire"
)

// scene is a model that wants to run one command, whatever happens to its CLI:
// it asks at the start, makes the call again when it is told that it may, and is
// content with every other news. How many of its lost calls the CLI reports, and
// how, depends on the moment.
func scene(conv string) []modelapi.Step {
	const calls = 4
	var mu sync.Mutex
	made := 0
	respond := func(r *modelapi.Request) []modelapi.Block {
		mu.Lock()
		defer mu.Unlock()
		wants := len(r.Results) == 0 && made == 0 || strings.Contains(r.UserText, "Make the call once more")
		if !wants || made == calls {
			return []modelapi.Block{modelapi.Text("I leave it at that.")}
		}
		made++
		return []modelapi.Block{modelapi.ToolUse(fmt.Sprintf("toolu_%s_%d", conv, made), "Bash", command(conv))}
	}
	var steps []modelapi.Step
	add := func(results ...modelapi.Result) {
		steps = append(steps, modelapi.Step{Conv: conv, Results: results, Respond: respond, Repeat: true, Optional: true})
	}
	add()
	one := func(n int, failed bool) modelapi.Result {
		return modelapi.Result{ToolUseID: fmt.Sprintf("toolu_%s_%d", conv, n), Any: true, IsError: failed}
	}
	for i := range calls {
		for _, failed := range []bool{true, false} {
			add(one(i+1, failed))
			for j := range i {
				add(one(j+1, true), one(i+1, failed))
				add(one(j+1, false), one(i+1, failed))
			}
		}
	}
	return steps
}

func command(conv string) string {
	return fmt.Sprintf(`{"command":"echo ran >> %s.txt","description":"Append a line"}`, conv)
}

// The same with the real CLI: whenever its worker ends, the command that it was
// about to run runs at most once for each approval, and never without one.
func TestClaudeWorkersEndAtRandomMoments_B48_B49_D0_18_D4_05(t *testing.T) {
	t.Parallel()
	t.Logf("seed %d, %d times", *seed, *claudes)
	s := newSite(t)
	rng := rand.New(rand.NewPCG(*seed, 3))
	s.onAsk = func(o wire.Opened) {
		body := map[string]any{"decision": "allow"}
		if rng.IntN(5) == 0 {
			body["decision"] = "deny"
		}
		wait := time.Duration(rng.Int64N(int64(time.Second)))
		s.answer(wait, o, body)
	}
	api := modelapi.New(t)
	exe := modelapi.RequireCLI(t)
	const lanes = 2
	setups := make([]setup, lanes)
	for i := range setups {
		setups[i] = setup{
			Creds: s.creds(), Data: t.TempDir(), Cwd: t.TempDir(), Claude: exe,
			Env: append(api.Env(os.Getenv("PATH"), t.TempDir()), "IS_SANDBOX=1"),
		}
	}
	moments := rand.New(rand.NewPCG(*seed, 4))
	var sessions []string
	var running [lanes]*worker
	rest := func() {
		t.Helper()
		s.until("every session has come to rest", func() bool {
			for _, id := range sessions {
				st := s.states[id]
				if st.State != hitl.StateUserTurn && st.State != hitl.StateDead ||
					!slices.ContainsFunc(s.texts[id], func(e string) bool { return strings.Contains(e, `"type":"done"`) }) {
					return false
				}
			}
			return len(s.closed) == len(s.opened)
		})
	}
	for n := range *claudes {
		i := n % lanes
		id := fmt.Sprintf("scene%03d", n) // none is part of another
		sessions = append(sessions, id)
		require.NoError(t, api.Add(scene(id)...))
		if running[i] == nil {
			w, err := setups[i].start(t)
			require.NoError(t, err)
			running[i] = w
		}
		require.NoError(t, s.j.Enqueue(t.Context(), &hitl.Start{
			V: 1, SessionID: id, Tenant: bus.DefaultTenant, Pool: pool, Runtime: "claude", Prompt: id + ": go",
		}))
		s.await(moment{after: 5 * time.Second, steps: 1 + moments.IntN(16)}, func() int { return s.total }, func() int { return 0 })
		sig := syscall.SIGTERM
		if n%3 == 2 {
			sig = syscall.SIGKILL
		}
		require.NoError(t, running[i].end(sig))
		w, err := setups[i].start(t)
		require.NoError(t, err)
		running[i] = w
		if n%4 == 3 {
			rest() // more CLIs than these do not get far at the same time
		}
	}
	rest()
	s.people.Wait()
	for _, w := range running {
		require.NoError(t, w.end(syscall.SIGTERM))
	}
	used := map[string]bool{}
	for _, st := range setups {
		for ix := range ledger(t, st.Data) {
			require.NotContains(t, used, ix)
			used[ix] = true
		}
	}
	decisions := s.decisions()
	require.Len(t, decisions, len(s.opened))
	approvals := map[string]int{} // handed to the CLI, by session
	for ref, o := range s.opened {
		d := decisions[ref.String()]
		require.NotNil(t, d)
		require.NotNil(t, s.won[ref.String()], "%s ended as %s, and no person said so", ref, d.Outcome)
		if used[ref.ID] {
			require.Equal(t, hitl.Allowed, d.Outcome)
			approvals[o.SessionID]++
		}
		ix := s.interaction(ref.String())
		require.Len(t, ix.Trail, 2, "%s of %s", d.Outcome, o.SessionID)
		require.Equal(t, hitl.Delivered, ix.Trail[0].Stage)
		t.Logf("%s: %s, %s %s", o.SessionID, d.Outcome, ix.Trail[1].Stage, ix.Trail[1].Detail)
		if ix.Trail[1].Stage == hitl.Refused {
			require.Regexp(t, spentRx, ix.Trail[1].Detail)
		}
	}
	all := 0
	for _, id := range sessions {
		ran := 0
		for _, st := range setups {
			raw, err := os.ReadFile(filepath.Join(st.Cwd, id+".txt"))
			if err == nil {
				ran += strings.Count(string(raw), "ran\n")
			}
		}
		t.Logf("%s: %s, %d approvals used, ran %d times", id, s.states[id].State, approvals[id], ran)
		require.LessOrEqual(t, ran, approvals[id])
		all += ran
	}
	require.Positive(t, all, "no command ever ran")
}
