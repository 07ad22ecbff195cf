package agent_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
)

func kind(k string) func(*pending) bool { return func(p *pending) bool { return p.Kind == k } }

// The demo walks through every kind of card, and survives a worker in between.
func TestDemoSession_D0_05_EveryKindAndARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.demoSetup()
	k := w.worker(s)
	id := w.begin(hitl.Start{Runtime: "demo", Prompt: "show me"})
	w.saw(id, hitl.EventText, `"show me"`)

	p := w.request("status", tool("Bash", "git status"))
	require.Equal(t, id, p.SessionID)
	require.Equal(t, hitl.StateAssistantTurn, w.reached(id, hitl.StateAssistantTurn).State)
	w.decide(p, hitl.Response{Decision: "allow"})
	w.acked(p, hitl.Delivered)
	w.acked(p, hitl.Applied)

	p = w.request("edit", tool("Edit", "config.yaml"))
	early := hitl.Command{Type: hitl.CommandMessage, Text: "are you there?", CommandID: "m0"}
	require.Equal(t, "ok", w.command(id, early).Status)
	w.saw(id, hitl.EventText, "I heard you")
	k.end() // as by SIGTERM: the card stays
	k = w.worker(s)
	require.Equal(t, hitl.StateAssistantTurn, w.generation(id, 2).State)
	require.Equal(t, "duplicate", w.command(id, early).Status, "a command is done once, over a restart too")
	w.decide(p, hitl.Response{Decision: "deny", Message: "not on a Friday"})
	w.saw(id, hitl.EventText, "not on a Friday")
	w.acked(p, hitl.Applied)

	p = w.request("write", tool("Write", "RELEASE.md"))
	w.decide(p, hitl.Response{Decision: "allow", UpdatedInput: json.RawMessage(`{"file_path":"/demo/shop/NOTES.md","content":"short"}`)})
	w.saw(id, hitl.EventToolResult, "NOTES.md")

	w.decide(w.request("push", tool("Bash", "git push --force")), hitl.Response{Decision: "deny"})

	p = w.request("questions", kind(hitl.KindQuestion))
	require.Len(t, p.Questions, 2)
	w.decide(p, hitl.Response{Answers: json.RawMessage(`[{"question_id":"0","values":["Canary"]},{"question_id":"1","values":["Payments","Audit, logs"],"other":"the printer, too"}]`)})
	w.saw(id, hitl.EventText, "Audit, logs; the printer, too")

	w.decide(w.request("form", kind(hitl.KindForm)), hitl.Response{Content: json.RawMessage(`{"env":"staging","replicas":3}`)})

	p = w.request("refund", tool("mcp__billing__refund", "9007199254740993"))
	require.Contains(t, string(p.raw), `"amount":19.90`)
	w.decide(p, hitl.Response{Action: "dismiss"})

	b := w.request("second log", tool("Bash", "mail.log"))
	a := w.request("first log", tool("Bash", "checkout.log"))
	w.decide(b, hitl.Response{Decision: "allow"})
	w.saw(id, hitl.EventText, "The second log looks fine")
	w.decide(a, hitl.Response{Decision: "allow"})
	w.saw(id, hitl.EventText, "this was a demo")
	w.reached(id, hitl.StateUserTurn)
	w.saw(id, hitl.EventDone, "end_turn")

	require.Equal(t, "ok", w.command(id, hitl.Command{Type: hitl.CommandMessage, Text: "what else?", CommandID: "m1"}).Status)
	require.Equal(t, "duplicate", w.command(id, hitl.Command{Type: hitl.CommandMessage, Text: "what else?", CommandID: "m1"}).Status)
	w.saw(id, hitl.EventText, "I am only a demo")
	require.Equal(t, "ok", w.command(id, hitl.Command{Type: hitl.CommandStop}).Status)
	require.Equal(t, "stopped by a person", w.reached(id, hitl.StateDead).KillReason)
	k.end()

	w.mu.Lock()
	defer w.mu.Unlock()
	var users, asked int
	for _, e := range w.events[id] {
		if e.Type == hitl.EventText && strings.Contains(string(e.Data), `"role":"user"`) {
			users++
		}
		if e.Type == hitl.EventToolCallEnd {
			asked++
		}
	}
	require.Equal(t, 3, users, "a repeated command is done once")
	require.Equal(t, 9, asked, "a restart repeats no step")
	require.Len(t, w.requests, 9, "asking again is the same interaction")
}

// A worker that is killed at every step loses nothing and asks nothing twice.
func TestDemoSession_B48_KillNineAtEveryStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.demoSetup()
	c := w.child(s)
	id := w.begin(hitl.Start{Runtime: "demo", Prompt: "show me"})
	for i := range 9 {
		p := w.request("the next one", func(*pending) bool { return true })
		if i%2 == 0 { // answered while nobody is there
			c.kill()
			w.decide(p, yes(p))
			c = w.child(s)
		} else { // killed as soon as the answer is out
			w.decide(p, yes(p))
			c.kill()
			c = w.child(s)
		}
		w.acked(p, hitl.Delivered)
	}
	w.saw(id, hitl.EventText, "this was a demo")
	// Of two asks at once the second is there already: a worker may be killed
	// before it has taken the session up, and then does not count.
	require.GreaterOrEqual(t, w.reached(id, hitl.StateUserTurn).Generation, 9)
	w.mu.Lock()
	defer w.mu.Unlock()
	require.Len(t, w.requests, 9)
	for _, p := range w.requests {
		require.False(t, p.withdrawn, p.Title)
	}
}

// A successor that gives people more time, or less, asks what is open as it was:
// anything else would be another request under the same key.
func TestDemoSession_B55_AnotherAskTimeoutIsForNewAsksOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.demoSetup()
	s.Expires = time.Hour
	k := w.worker(s)
	id := w.begin(hitl.Start{Runtime: "demo", Prompt: "show me"})
	p := w.request("status", tool("Bash", "git status"))
	require.Equal(t, time.Hour, p.Expiry())
	k.end()
	s.Expires = -1
	w.worker(s)
	w.generation(id, 2)
	w.decide(p, hitl.Response{Decision: "allow"})
	w.acked(p, hitl.Applied)
	require.Zero(t, w.request("edit", tool("Edit", "config.yaml")).Expiry(), "no deadline")
}

// yes is a person's consent to whatever is asked.
func yes(p *pending) hitl.Response {
	switch p.Kind {
	case hitl.KindQuestion:
		return hitl.Response{Answers: json.RawMessage(`{"0":"Staging","1":"Mail"}`)}
	case hitl.KindForm:
		return hitl.Response{Content: json.RawMessage(`{"env":"prod"}`)}
	}
	return hitl.Response{Decision: "allow"}
}

// A worker whose owner has used up its quota of conversation works on: what it asks
// is decided and done, and once there is room again the conversation says that
// something is missing. An approval whose use cannot be recorded runs nothing.
func TestAWorkerOverItsQuotaOfConversationGoesOn_invariant4(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k := w.worker(w.demoSetup())
	id := w.begin(hitl.Start{Runtime: "demo", Prompt: "show me"})
	p := w.request("status", tool("Bash", "git status"))
	w.change(func() { w.full = map[string]bool{"evt": true} })
	w.decide(p, hitl.Response{Decision: "allow"})
	w.acked(p, hitl.Applied)
	p = w.request("edit", tool("Edit", "config.yaml"))
	w.change(func() { w.full = nil })
	w.decide(p, hitl.Response{Decision: "deny", Message: "not on a Friday"})
	w.saw(id, hitl.EventError, "parts of this conversation are missing here")
	w.saw(id, hitl.EventText, "not on a Friday")

	p = w.request("write", tool("Write", "RELEASE.md"))
	w.change(func() { w.full = map[string]bool{"ack": true} })
	w.decide(p, hitl.Response{Decision: "allow"})
	w.saw(id, hitl.EventToolResult, "has used up its quota")
	k.end()
}
