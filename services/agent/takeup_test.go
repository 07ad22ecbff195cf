package agent_test

import (
	"encoding/json"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/hitltest/modelapi"
	"github.com/banksman/banksman/pkg/subject"
)

// beats returns a function that waits for a heartbeat of any worker which names
// the session, or which does not.
func (w *world) beats() func(session string, named bool) {
	w.t.Helper()
	sub, err := w.nc.SubscribeSync("hitl.beat." + subject.Token(bus.DefaultTenant) + "." + subject.Token("agents") + ".*")
	require.NoError(w.t, err)
	return func(session string, named bool) {
		w.t.Helper()
		for limit := time.Now().Add(patience); ; {
			m, err := sub.NextMsg(time.Until(limit))
			require.NoError(w.t, err, "no heartbeat with %s: %t", session, named)
			var b hitl.Beat
			require.NoError(w.t, json.Unmarshal(m.Data, &b))
			if slices.Contains(b.Sessions, session) == named {
				return
			}
		}
	}
}

// The quota of sessions or of conversation can refuse a session that a worker
// comes back to. It is not said to live there meanwhile, and is taken up, with the
// decision that was made, when there is room. The harness refuses in the gateway's
// place.
func TestTakeUp_B49_ARefusedClaimIsMadeAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.demoSetup()
	k := w.worker(s)
	id := w.begin(hitl.Start{Runtime: "demo", Prompt: "show me"})
	p := w.request("status", tool("Bash", "git status"))
	beat := w.beats()
	beat(id, true)
	k.end()
	w.change(func() { w.full = map[string]bool{"ses": true} })
	k = w.worker(s)
	require.Eventually(t, func() bool { return k.said.has("session not taken up") }, patience, 10*time.Millisecond)
	require.True(t, k.said.has("quota.conversation"), "the reason is told")
	beat(id, false)
	w.decide(p, hitl.Response{Decision: "deny", Message: "not now"})
	w.change(func() { w.full = nil })
	w.generation(id, 2)
	w.acked(p, hitl.Applied)
	beat(id, true)
	_, err := w.nc.Request(subject.Command(subject.NewSession(bus.DefaultTenant, "agents", id)), []byte(`{"v":1,"command_id":"c1","type":"stop"}`), patience)
	require.NotErrorIs(t, err, nats.ErrNoResponders)
	w.reached(id, hitl.StateDead)
}

// A worker that is told to stop does not wait for a claim that is refused, and
// leaves the session to the next one.
func TestTakeUp_ARefusedClaimDoesNotHoldAWorkerUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.demoSetup()
	k := w.worker(s)
	id := w.begin(hitl.Start{Runtime: "demo", Prompt: "show me"})
	p := w.request("status", tool("Bash", "git status"))
	k.end()
	w.change(func() { w.full = map[string]bool{"ses": true} })
	k = w.worker(s)
	require.Eventually(t, func() bool { return k.said.has("session not taken up") }, patience, 10*time.Millisecond)
	k.end()
	w.change(func() { w.full = nil })
	w.worker(s)
	w.decide(p, hitl.Response{Decision: "deny"})
	w.acked(p, hitl.Applied)
	w.generation(id, 3)
}

// cannotStart runs a session to its ask, takes the directory away that it runs in,
// and starts its worker again.
func (w *world) cannotStart(s setup) (id string, p *pending) {
	w.t.Helper()
	k := w.worker(s)
	id = w.begin(hitl.Start{Runtime: "claude", Prompt: "scene-away: go"})
	p = w.request("away.txt", tool("Bash", "away.txt"))
	k.end()
	require.NoError(w.t, os.Rename(s.Cwd, s.Cwd+"-away"))
	w.worker(s)
	return id, p
}

const awayCall = `{"command":"touch away.txt && echo away-done"}`

// A directory that is not there yet, as one that is mounted late, ends no session:
// it starts when it can, and what was decided meanwhile holds.
func TestTakeUp_B49_ASessionThatCannotStartYetIsKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, api := w.claudeSetup(
		modelapi.Step{Name: "begin", Conv: "scene-away", Reply: []modelapi.Block{modelapi.ToolUse("toolu_w1", "Bash", awayCall)}},
		modelapi.Step{Name: "ran", Conv: "scene-away", Results: []modelapi.Result{{ToolUseID: "toolu_w2", Content: "away-done"}}, Reply: []modelapi.Block{modelapi.Text("Back again.")}},
	)
	require.NoError(t, api.Add(told(modelapi.Step{
		Name: "told", Conv: "scene-away", UserText: "Decision: approved", Reply: []modelapi.Block{modelapi.ToolUse("toolu_w2", "Bash", awayCall)},
	}, "toolu_w1")...))
	id, p := w.cannotStart(s)
	w.decide(p, hitl.Response{Decision: "allow"})
	w.saw(id, hitl.EventSessionStatus, "cwd: the directory "+s.Cwd+" does not exist")
	require.NoError(t, os.Rename(s.Cwd+"-away", s.Cwd))
	w.saw(id, hitl.EventText, "Back again.")
	w.acked(p, hitl.Applied)
}

// One that never starts again ends, and who decided meanwhile is told that nothing
// came of it; what nobody decided is taken away.
func TestTakeUp_B79_WhatASessionEndsWithoutHavingStartedIsTold(t *testing.T) {
	t.Parallel()
	for _, decided := range []bool{true, false} {
		name := "nobody decided"
		if decided {
			name = "approved meanwhile"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s, _ := w.claudeSetup(modelapi.Step{Name: "begin", Conv: "scene-away", Reply: []modelapi.Block{modelapi.ToolUse("toolu_w1", "Bash", awayCall)}})
			s.TakeUp = time.Millisecond
			id, p := w.cannotStart(s)
			want := "cwd: the directory " + s.Cwd + " does not exist"
			if decided {
				w.decide(p, hitl.Response{Decision: "allow"})
				require.Contains(t, w.acked(p, hitl.Refused).Detail, want)
			} else {
				w.until("withdrawal", func() bool { return p.withdrawn })
			}
			require.Contains(t, w.reached(id, hitl.StateDead).Error, want)
			s.gone(t, id)
		})
	}
}

// Who has waited enough can stop it.
func TestTakeUp_D1_16_ASessionThatCannotStartYetCanBeStopped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, _ := w.claudeSetup(modelapi.Step{Name: "begin", Conv: "scene-away", Reply: []modelapi.Block{modelapi.ToolUse("toolu_w1", "Bash", awayCall)}})
	id, p := w.cannotStart(s)
	w.saw(id, hitl.EventSessionStatus, "does not exist")
	w.decide(p, hitl.Response{Decision: "allow"})
	require.Equal(t, "ok", w.command(id, hitl.Command{Type: hitl.CommandStop}).Status)
	require.Equal(t, "stopped by a person", w.reached(id, hitl.StateDead).KillReason)
	require.Contains(t, w.acked(p, hitl.Refused).Detail, "stopped by a person")
	s.gone(t, id)
}
