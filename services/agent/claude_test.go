package agent_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/hitltest/modelapi"
)

const (
	question1 = `{"questions":[{"question":"Which database?","header":"Database","options":[{"label":"Postgres","description":"relational"},{"label":"SQLite","description":"one file"}],"multiSelect":false},{"question":"Which features?","header":"Features","options":[{"label":"Auth","description":"login"},{"label":"Audit, logs","description":"who did what"}],"multiSelect":true}]}`
	question2 = `{"questions":[{"question":"Tea or coffee?","header":"Drink","options":[{"label":"Tea","description":"hot"},{"label":"Coffee","description":"hot"}],"multiSelect":false}]}`
	question3 = `{"questions":[{"question":"Window or aisle?","header":"Seat","options":[{"label":"Window","description":"view"},{"label":"Aisle","description":"legs"}],"multiSelect":false}]}`
)

func asks(text string) func(*pending) bool {
	return func(p *pending) bool { return len(p.Questions) > 0 && p.Questions[0].Question == text }
}

// One real CLI, one conversation, every kind of answer.
func TestClaude_D0_01_D1_02_ToolsWaitForTheirDecision(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, api := w.claudeSetup(
		modelapi.Step{Name: "begin", Conv: "scene-answers", Reply: []modelapi.Block{
			modelapi.Text("I make a file."),
			modelapi.ToolUse("toolu_a1", "Bash", `{"command":"touch one.txt && echo one-done","description":"Make a file"}`),
		}},
		modelapi.Step{Name: "edited", Conv: "scene-answers", Results: []modelapi.Result{{ToolUseID: "toolu_a1", Content: "edited-done"}}, Reply: []modelapi.Block{
			modelapi.ToolUse("toolu_a2", "Bash", `{"command":"touch two.txt","description":"Make another"}`),
		}},
		modelapi.Step{Name: "denied", Conv: "scene-answers", Results: []modelapi.Result{{ToolUseID: "toolu_a2", Content: "No, use \"staging\" — s'il vous plaît", IsError: true}}, Reply: []modelapi.Block{
			modelapi.ToolUse("toolu_a3", "AskUserQuestion", question1),
		}},
		modelapi.Step{Name: "answered", Conv: "scene-answers", Results: []modelapi.Result{{ToolUseID: "toolu_a3", Contains: `"Which database?"="DuckDB, in memory"`}}, Reply: []modelapi.Block{
			modelapi.ToolUse("toolu_a4", "AskUserQuestion", question2),
			modelapi.ToolUse("toolu_a5", "AskUserQuestion", question3),
		}},
		modelapi.Step{Name: "parallel", Conv: "scene-answers", Results: []modelapi.Result{
			{ToolUseID: "toolu_a4", Contains: `"Tea or coffee?"="Tea"`},
			{ToolUseID: "toolu_a5", Content: "Neither, I stand", IsError: true},
		}, Reply: []modelapi.Block{modelapi.Text("All done.")}},
		modelapi.Step{Name: "second turn", Conv: "scene-answers", UserText: "look at this", Reply: []modelapi.Block{
			modelapi.ToolUse("toolu_a6", "Bash", `{"command":"touch six.txt","description":"Wait here"}`),
		}},
		modelapi.Step{
			Name: "after the interrupt", Conv: "scene-answers", UserText: "once more",
			Results: []modelapi.Result{{ToolUseID: "toolu_a6", Any: true, IsError: true}}, Reply: []modelapi.Block{modelapi.Text("Still here.")},
		},
	)
	w.worker(s)
	id := w.begin(hitl.Start{Runtime: "claude", Prompt: "scene-answers: go"})

	p := w.request("one.txt", tool("Bash", "one.txt"))
	require.Equal(t, `{"command":"touch one.txt && echo one-done","description":"Make a file"}`, string(p.Tool.Input))
	require.Equal(t, "Claude Code", p.AgentName)
	require.Equal(t, "claude-stdio", p.Source.Protocol)
	require.Equal(t, "toolu_a1", p.ToolCallID)
	require.True(t, strings.HasSuffix(p.Key, ":toolu_a1:"+p.Source.RequestID))
	require.NotContains(t, string(p.Suggestions), "localSettings")
	require.Equal(t, hitl.StateAssistantTurn, w.reached(id, hitl.StateAssistantTurn).State)
	w.saw(id, hitl.EventText, "I make a file.")
	w.saw(id, hitl.EventToolCallEnd, "toolu_a1")
	require.NoFileExists(t, filepath.Join(s.Cwd, "one.txt"))
	t.Run("D1-03 what a person edited is what runs", func(t *testing.T) {
		w.decide(p, hitl.Response{Decision: "allow", UpdatedInput: json.RawMessage(`{"command":"touch edited.txt && echo edited-done","description":"Make a file"}`)})
		w.acked(p, hitl.Applied)
	})

	p = w.request("two.txt", tool("Bash", "two.txt"))
	require.FileExists(t, filepath.Join(s.Cwd, "edited.txt"))
	require.NoFileExists(t, filepath.Join(s.Cwd, "one.txt"))
	t.Run("D0-19 a denial reaches the model word for word", func(t *testing.T) {
		w.decide(p, hitl.Response{Decision: "deny", Message: "No, use \"staging\" — s'il vous plaît"})
		w.acked(p, hitl.Applied)
	})

	p = w.request("questions", asks("Which database?"))
	require.Len(t, p.Questions, 2)
	require.True(t, p.Questions[1].MultiSelect)
	t.Run("D0-17 D4-08 B-10 options and free text reach the model together", func(t *testing.T) {
		w.decide(p, hitl.Response{Answers: json.RawMessage(`[{"question_id":"0","values":[],"other":"DuckDB, in memory"},{"question_id":"1","values":["Auth","Audit, logs"],"other":"x, y"}]`)})
		w.saw(id, hitl.EventToolResult, `Auth`)
		got := w.saw(id, hitl.EventToolResult, `Which features?`)
		require.Contains(t, string(got.Data), `Audit, logs`)
		require.Contains(t, string(got.Data), `x, y`)
	})

	first := w.request("tea", asks("Tea or coffee?"))
	second := w.request("seat", asks("Window or aisle?"))
	t.Run("D0-08 D2-04 B-43 asks open at once are answered in any order", func(t *testing.T) {
		w.decide(second, hitl.Response{Action: "clarify", Message: "Neither, I stand"})
		w.acked(second, hitl.Applied)
		w.decide(first, hitl.Response{Answers: json.RawMessage(`{"Tea or coffee?":"Tea"}`)})
		w.saw(id, hitl.EventText, "All done.")
		w.reached(id, hitl.StateUserTurn)
	})

	t.Run("D1-46 a message brings its image", func(t *testing.T) {
		reply := w.command(id, hitl.Command{Type: hitl.CommandMessage, Text: "look at this", Attachments: []hitl.Attachment{
			{Kind: "image", MediaType: "image/png", DataB64: onePixel},
		}})
		require.Equal(t, "ok", reply.Status, reply.Error)
		p = w.request("six.txt", tool("Bash", "six.txt"))
		var seen bool
		for _, r := range api.Requests() {
			seen = seen || strings.Contains(string(r.Body), onePixel)
		}
		require.True(t, seen)
	})
	t.Run("D0-10 an interrupt withdraws what is open", func(t *testing.T) {
		require.Equal(t, "ok", w.command(id, hitl.Command{Type: hitl.CommandInterrupt}).Status)
		w.until("withdrawal", func() bool { return p.withdrawn })
		w.reached(id, hitl.StateUserTurn)
		w.saw(id, hitl.EventDone, "interrupted")
		require.Equal(t, "ok", w.command(id, hitl.Command{Type: hitl.CommandMessage, Text: "once more"}).Status)
		w.saw(id, hitl.EventText, "Still here.")
		require.NoFileExists(t, filepath.Join(s.Cwd, "six.txt"))
	})
	require.Equal(t, "ok", w.command(id, hitl.Command{Type: hitl.CommandSetMode, Mode: "acceptEdits"}).Status)
	require.Equal(t, "failed", w.command(id, hitl.Command{Type: hitl.CommandSetMode, Mode: "yolo"}).Status)
	w.until("mode", func() bool {
		list := w.states[id]
		return list[len(list)-1].Mode == "acceptEdits"
	})
	require.Equal(t, "ok", w.command(id, hitl.Command{Type: hitl.CommandStop}).Status)
	w.reached(id, hitl.StateDead)
}

const onePixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// told is a step of a resumed conversation. Which of the calls that were lost the
// CLI still knows, and then reports with an unknown outcome, depends on what it
// had written down when it was killed.
func told(st modelapi.Step, calls ...string) []modelapi.Step {
	st.Optional = true
	steps := []modelapi.Step{st}
	for _, id := range calls {
		for _, known := range steps {
			known.Results = append(slices.Clone(known.Results), modelapi.Result{ToolUseID: id, Contains: "interrupted", IsError: true})
			steps = append(steps, known)
		}
	}
	return steps
}

// Who chose never to be asked is not asked, by a CLI that began with its gate.
func TestClaude_D1_08_D1_09_BypassIsChosen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, _ := w.claudeSetup(
		modelapi.Step{Name: "begin", Conv: "scene-bypass", Reply: []modelapi.Block{modelapi.ToolUse("toolu_b1", "Bash", `{"command":"touch free.txt && echo free-done"}`)}},
		modelapi.Step{Name: "ran", Conv: "scene-bypass", Results: []modelapi.Result{{ToolUseID: "toolu_b1", Content: "free-done"}}, Reply: []modelapi.Block{
			modelapi.ToolUse("toolu_b2", "AskUserQuestion", question2),
		}},
		modelapi.Step{Name: "answered", Conv: "scene-bypass", Results: []modelapi.Result{{ToolUseID: "toolu_b2", Contains: `"Tea or coffee?"="Tea"`}}, Reply: []modelapi.Block{modelapi.Text("Free and answered.")}},
	)
	w.worker(s)
	id := w.begin(hitl.Start{Runtime: "claude", Mode: "bypassPermissions", Prompt: "scene-bypass: go"})
	p := w.request("tea", asks("Tea or coffee?"))
	require.FileExists(t, filepath.Join(s.Cwd, "free.txt"))
	w.mu.Lock()
	require.Len(t, w.requests, 1, "a question is asked in every mode, a tool in this one is not")
	w.mu.Unlock()
	w.decide(p, hitl.Response{Answers: json.RawMessage(`{"0":"Tea"}`)})
	w.saw(id, hitl.EventText, "Free and answered.")
}

// A worker stops while a call waits; its successor gets the decision to the
// model, and the call runs once.
func TestClaude_B49_ADecisionOutlivesItsWorker(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const input = `{"command":"echo ran >> ran.txt && echo ran-done","description":"Append"}`
	s, api := w.claudeSetup(
		modelapi.Step{Name: "begin", Conv: "scene-restart", Reply: []modelapi.Block{modelapi.ToolUse("toolu_r1", "Bash", input)}},
		modelapi.Step{Name: "ran", Conv: "scene-restart", Results: []modelapi.Result{{ToolUseID: "toolu_r2", Content: "ran-done"}}, Reply: []modelapi.Block{
			modelapi.ToolUse("toolu_r3", "Bash", input),
		}},
		modelapi.Step{Name: "again", Conv: "scene-restart", Results: []modelapi.Result{{ToolUseID: "toolu_r3", Content: hitl.DefaultDenyMessage, IsError: true}}, Reply: []modelapi.Block{
			modelapi.Text("That was it."),
		}},
	)
	require.NoError(t, api.Add(told(modelapi.Step{
		Name: "told", Conv: "scene-restart", UserText: "Decision: approved",
		Reply: []modelapi.Block{modelapi.ToolUse("toolu_r2", "Bash", input)},
	}, "toolu_r1")...))
	k := w.worker(s)
	id := w.begin(hitl.Start{Runtime: "claude", Prompt: "scene-restart: go"})
	p := w.request("ran.txt", tool("Bash", "ran.txt"))
	k.end()
	w.worker(s)
	require.Equal(t, hitl.StateAssistantTurn, w.generation(id, 2).State)
	w.decide(p, hitl.Response{Decision: "allow"})
	w.acked(p, hitl.Delivered)
	w.acked(p, hitl.Applied)

	// The approval is used up: the same call again is a new question.
	again := w.request("the same call again", tool("Bash", "ran.txt"))
	require.NotEqual(t, p.ID, again.ID)
	w.decide(again, hitl.Response{Decision: "deny"})
	w.saw(id, hitl.EventText, "That was it.")
	raw, err := os.ReadFile(filepath.Join(s.Cwd, "ran.txt"))
	require.NoError(t, err)
	require.Equal(t, "ran\n", string(raw))
	w.mu.Lock()
	defer w.mu.Unlock()
	require.Len(t, w.requests, 2, "asking again after the restart is the same interaction")
	require.False(t, p.withdrawn)
}

// A worker dies by kill -9 and with it the CLI, which must not take that for a
// denial. The person answers while nobody is there.
func TestClaude_B48_KillNineIsNoDenial(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, api := w.claudeSetup(
		modelapi.Step{Name: "begin", Conv: "scene-kill", Reply: []modelapi.Block{
			modelapi.ToolUse("toolu_k1", "AskUserQuestion", question2),
			modelapi.ToolUse("toolu_k2", "AskUserQuestion", question3),
		}},
	)
	require.NoError(t, api.Add(told(modelapi.Step{
		Name: "told", Conv: "scene-kill", UserText: "wrote:\nMilk, \"warm\"\n\n2. Tool AskUserQuestion", Reply: []modelapi.Block{modelapi.Text("Milk then.")},
	}, "toolu_k1", "toolu_k2")...))
	child := w.child(s)
	id := w.begin(hitl.Start{Runtime: "claude", Prompt: "scene-kill: go"})
	p := w.request("tea", asks("Tea or coffee?"))
	seat := w.request("seat", asks("Window or aisle?"))
	child.kill()
	require.Len(t, api.Requests(), 1, "the model was told something")
	w.decide(p, hitl.Response{Action: "clarify", Message: `Milk, "warm"`})
	require.Empty(t, w.acks[p.ID], "delivered is said when the agent has it, not before")

	w.worker(s)
	w.acked(p, hitl.Delivered)
	require.Equal(t, hitl.StateAssistantTurn, w.generation(id, 2).State)
	w.decide(seat, hitl.Response{Answers: json.RawMessage(`{"0":"Aisle, please"}`)})
	w.acked(p, hitl.Applied)
	w.acked(seat, hitl.Applied)
	w.saw(id, hitl.EventText, "Milk then.")
	w.saw(id, hitl.EventSessionStatus, "Window or aisle? -> Aisle, please")
	w.reached(id, hitl.StateUserTurn)
}

// The CLI keeps a conversation some time after it began. One that was ended before
// hears again what was said, and what was decided since. Later, without what it
// kept, a session cannot come back, and says so.
func TestClaude_D1_16_B48_ALostConversation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const call = `{"command":"touch lost.txt && echo found"}`
	s, api := w.claudeSetup(
		modelapi.Step{Name: "begin", Conv: "scene-lost", Reply: []modelapi.Block{modelapi.ToolUse("toolu_l1", "Bash", call)}},
		modelapi.Step{Name: "again", Conv: "scene-lost", UserText: "Decision: approved", Reply: []modelapi.Block{modelapi.ToolUse("toolu_l2", "Bash", call)}},
		modelapi.Step{Name: "ran", Conv: "scene-lost", Results: []modelapi.Result{{ToolUseID: "toolu_l2", Content: "found"}}, Reply: []modelapi.Block{modelapi.Text("It is there.")}},
	)
	k := w.worker(s)
	lose := func() {
		k.end()
		for _, kv := range s.Env {
			if dir, ok := strings.CutPrefix(kv, "CLAUDE_CONFIG_DIR="); ok {
				require.NoError(t, os.RemoveAll(filepath.Join(dir, "projects")))
			}
		}
		k = w.worker(s)
	}
	id := w.begin(hitl.Start{Runtime: "claude", Prompt: "scene-lost: go"})
	p := w.request("lost.txt", tool("Bash", "lost.txt"))
	lose()
	w.generation(id, 2)
	w.decide(p, hitl.Response{Decision: "allow"})
	w.saw(id, hitl.EventSessionStatus, "begins again with what was said")
	w.saw(id, hitl.EventText, "It is there.")
	w.acked(p, hitl.Applied)
	require.FileExists(t, filepath.Join(s.Cwd, "lost.txt"))
	w.reached(id, hitl.StateUserTurn)
	w.until("one request alone: the approval was for the call that was made again", func() bool { return len(w.requests) == 1 })
	require.Contains(t, string(api.Requests()[1].Body), "scene-lost: go")

	lose()
	w.generation(id, 3)
	require.Equal(t, "ok", w.command(id, hitl.Command{Type: hitl.CommandMessage, Text: "and now?"}).Status)
	st := w.reached(id, hitl.StateDead)
	require.Contains(t, st.Error, "cannot be resumed")
	w.saw(id, hitl.EventError, "cannot be resumed")
}

// What a sub-agent asks shows up in the session that people watch, under the
// sub-agent's name, and the answer goes to the sub-agent.
func TestClaude_B44_ASubAgentAsksInItsRootSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, _ := w.claudeSetup(
		modelapi.Step{Name: "begin", Conv: "scene-root", Reply: []modelapi.Block{
			modelapi.ToolUse("toolu_t1", "Task", `{"description":"Make a file","prompt":"scene-child: make the file","subagent_type":"general-purpose"}`),
		}},
		modelapi.Step{Name: "child", Conv: "scene-child", Reply: []modelapi.Block{
			modelapi.ToolUse("toolu_t2", "Bash", `{"command":"touch child.txt && echo child-done","description":"Make it"}`),
		}},
		modelapi.Step{Name: "child done", Conv: "scene-child", Results: []modelapi.Result{{ToolUseID: "toolu_t2", Content: "child-done"}}, Reply: []modelapi.Block{
			modelapi.Text("The child is done."),
		}},
		modelapi.Step{Name: "root", Conv: "scene-root", Results: []modelapi.Result{{ToolUseID: "toolu_t1", Any: true}}, Reply: []modelapi.Block{
			modelapi.Text("The root is done."),
		}, Repeat: true},
		modelapi.Step{Name: "told of the child", Conv: "scene-root", Reply: []modelapi.Block{modelapi.Text("I heard.")}, Repeat: true, Optional: true},
	)
	w.worker(s)
	id := w.begin(hitl.Start{Runtime: "claude", Prompt: "scene-root: go"})
	p := w.request("child.txt", tool("Bash", "child.txt"))
	require.Equal(t, id, p.SessionID)
	require.Contains(t, p.AgentName, "general-purpose (")
	w.decide(p, hitl.Response{Decision: "allow"})
	w.acked(p, hitl.Applied)
	w.saw(id, hitl.EventToolResult, "child-done")
	w.saw(id, hitl.EventText, "The child is done.")
	require.FileExists(t, filepath.Join(s.Cwd, "child.txt"))
}
