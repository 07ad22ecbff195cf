package claude

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	m "github.com/banksman/banksman/pkg/hitltest/modelapi"
	"github.com/banksman/banksman/services/agent/internal/claude/protocol"
)

// These are contract tests: they pin how the real CLI behaves towards the
// driver. One process plays all scenes, since each start takes seconds.
func TestCLI(t *testing.T) {
	t.Parallel()
	api := m.New(t)
	o := real(t, api)
	o.SessionID, o.AllowBypass = "6f0d9a3e-7c1b-4a52-9d58-0c5a4a1f2b11", true
	o.Env = append(o.Env, "IS_SANDBOX=1") // or root may not bypass anything
	s := start(t, o)
	file := func(name string) string { return filepath.Join(o.Dir, name) }
	script := func(t *testing.T, steps ...m.Step) {
		t.Helper()
		require.NoError(t, api.Add(steps...))
	}
	scene := func(name string, f func(t *testing.T)) {
		if t.Failed() {
			return // the process is in an unknown state
		}
		t.Run(name, func(t *testing.T) {
			s.t = t
			f(t)
			if !t.Failed() {
				require.Empty(t, api.Remaining())
			}
		})
	}

	scene("D0-01 D1-01 D1-03 D0-18 D4-19 the tool waits for allow, then runs the shown input", func(t *testing.T) {
		script(t,
			m.Step{UserText: "scene allow", Reply: []m.Block{m.Text("Let me count."), m.ToolUse("toolu_a1", "Bash", `{"command":"touch allowed.txt && echo counted-to-3","description":"Count"}`)}},
			m.Step{Results: []m.Result{{ToolUseID: "toolu_a1", Content: "counted-to-3"}}, Reply: []m.Block{m.Text("Three.")}})
		s.say("scene allow")
		init := next[protocol.Init](s, nil)
		require.Equal(t, o.SessionID, init.SessionID)
		require.Equal(t, "default", init.Mode)
		require.Contains(t, init.Tools, "AskUserQuestion")
		a := ask(s, "toolu_a1")
		require.Equal(t, "Bash", a.ToolName)
		require.Equal(t, "Count", a.Description)
		require.JSONEq(t, `{"command":"touch allowed.txt && echo counted-to-3","description":"Count"}`, string(a.Input))
		require.NotEmpty(t, a.Suggestions)
		require.Equal(t, file("allowed.txt"), a.BlockedPath)
		require.Contains(t, string(a.Raw), `"subtype":"can_use_tool"`)
		require.NoFileExists(t, file("allowed.txt"))
		require.Len(t, api.Requests(), 1)
		require.NoError(t, s.Allow(a.RequestID, a.Input, nil))
		require.ErrorIs(t, s.Deny(a.RequestID, "too late", false), ErrAnswered)
		end := s.endTurn()
		require.Equal(t, "success", end.Subtype)
		require.Equal(t, "completed", end.Reason)
		require.Equal(t, "Three.", end.Text)
		require.FileExists(t, file("allowed.txt"))
	})

	scene("D0-18 D1-03 an edited input is what runs", func(t *testing.T) {
		script(t,
			m.Step{UserText: "scene edit", Reply: []m.Block{m.ToolUse("toolu_e1", "Bash", `{"command":"touch shown.txt","description":"x"}`)}},
			m.Step{Results: []m.Result{{ToolUseID: "toolu_e1", Content: "edited <&> \u2028 line"}}, Reply: []m.Block{m.Text("ok")}})
		s.say("scene edit")
		a := ask(s, "toolu_e1")
		// Line breaks between tokens and a line separator would both cut the line.
		require.NoError(t, s.Allow(a.RequestID, json.RawMessage("{\n \"command\": \"touch edited.txt && echo 'edited <&> \u2028 line'\",\r\n \"description\": \"x\"\n}"), nil))
		s.endTurn()
		require.NoFileExists(t, file("shown.txt"))
		require.FileExists(t, file("edited.txt"))
	})

	scene("D1-03 D0-19 the model reads the reason of a denial word for word", func(t *testing.T) {
		const reason = "No: use \"staging\", not prod.\nAsk again <tomorrow> – ok?"
		script(t,
			m.Step{UserText: "scene deny", Reply: []m.Block{m.ToolUse("toolu_d1", "Bash", `{"command":"touch denied.txt"}`)}},
			m.Step{Results: []m.Result{{ToolUseID: "toolu_d1", Content: reason, IsError: true}}, Reply: []m.Block{m.Text("ok")}})
		s.say("scene deny")
		a := ask(s, "toolu_d1")
		var bad *protocol.InputError
		require.ErrorAs(t, s.Deny(a.RequestID, " ", false), &bad)
		require.Equal(t, "message", bad.Field)
		require.NoError(t, s.Deny(a.RequestID, reason, false))
		res := next[protocol.ToolResult](s, nil)
		require.True(t, res.IsError)
		require.Equal(t, reason, res.Text)
		s.endTurn()
		require.NoFileExists(t, file("denied.txt"))
	})

	scene("D4-08 D4-09 D0-17 D1-05 D1-06 D4-03 B-02 answers and free text reach the model exactly", func(t *testing.T) {
		input := `{"questions":[` +
			`{"question":"Which database?","header":"Database","options":[{"label":"Postgres","description":"p"},{"label":"SQLite","description":"s"}],"multiSelect":false},` +
			`{"question":"Which name?","header":"Name","options":[{"label":"alpha","description":"a"},{"label":"beta","description":"b"}],"multiSelect":false}]}`
		script(t,
			m.Step{UserText: "scene question", Reply: []m.Block{m.ToolUse("toolu_q1", "AskUserQuestion", input)}},
			m.Step{Results: []m.Result{{ToolUseID: "toolu_q1", Contains: `"Which database?"="SQLite", "Which name?"="none of these: port 8080, 2 replicas"`}}, Reply: []m.Block{m.Text("ok")}})
		s.say("scene question")
		a := ask(s, "toolu_q1")
		require.Equal(t, protocol.QuestionTool, a.ToolName)
		var bad *protocol.InputError
		require.ErrorAs(t, s.Allow(a.RequestID, nil, nil), &bad, "an empty allow would lose the question")
		require.Equal(t, "updatedInput.answers", bad.Field)
		answers := map[string]string{"Which database?": "SQLite", "Which name?": "none of these: port 8080, 2 replicas"}
		out, err := protocol.EncodeAnswers(a.Input, answers, nil)
		require.NoError(t, err)
		require.NoError(t, s.Allow(a.RequestID, out, nil))
		s.endTurn()
	})

	scene("D4-09 D1-06 B-10 multi-select keeps labels with commas and free text apart", func(t *testing.T) {
		input := `{"questions":[{"question":"Which features?","header":"Features","options":[{"label":"Audit, logs","description":"a"},{"label":"Auth","description":"b"},{"label":"The \"big\" one","description":"c"}],"multiSelect":true}]}`
		script(t,
			m.Step{UserText: "scene known labels", Reply: []m.Block{m.ToolUse("toolu_q2", "AskUserQuestion", input)}},
			// The wording the CLI keeps for answers made of known labels only: it
			// has split them as they were meant.
			m.Step{Results: []m.Result{{ToolUseID: "toolu_q2", Content: `Your questions have been answered: "Which features?"=""Audit, logs", Auth, "The \"big\" one"". You can now continue with these answers in mind.`}}, Reply: []m.Block{m.Text("ok")}},
			m.Step{UserText: "scene other", Reply: []m.Block{m.ToolUse("toolu_q3", "AskUserQuestion", input)}},
			m.Step{Results: []m.Result{{ToolUseID: "toolu_q3", Contains: `"Which features?"="Auth, "x, y""`}}, Reply: []m.Block{m.Text("ok")}})
		for id, c := range map[string]struct {
			prompt string
			labels []string
		}{
			"toolu_q2": {"scene known labels", []string{"Audit, logs", "Auth", `The "big" one`}},
			"toolu_q3": {"scene other", []string{"Auth", "x, y"}},
		} {
			s.say(c.prompt)
			a := ask(s, id)
			out, err := protocol.EncodeAnswers(a.Input, map[string]string{"Which features?": protocol.JoinLabels(c.labels)}, nil)
			require.NoError(t, err)
			require.NoError(t, s.Allow(a.RequestID, out, nil))
			s.endTurn()
		}
	})

	scene("B-12 a dismissed question is no answer", func(t *testing.T) {
		script(t,
			m.Step{UserText: "scene dismiss", Reply: []m.Block{m.ToolUse("toolu_q4", "AskUserQuestion", `{"questions":[{"question":"Go on?","header":"Go","options":[{"label":"yes","description":"y"},{"label":"no","description":"n"}],"multiSelect":false}]}`)}},
			m.Step{Results: []m.Result{{ToolUseID: "toolu_q4", Content: "The question was closed without an answer.", IsError: true}}, Reply: []m.Block{m.Text("ok")}})
		s.say("scene dismiss")
		require.NoError(t, s.Deny(ask(s, "toolu_q4").RequestID, "The question was closed without an answer.", false))
		s.endTurn()
	})

	scene("D0-08 D2-04 B-43 two asks at once are answered in reverse order", func(t *testing.T) {
		question := func(n int) string {
			return fmt.Sprintf(`{"questions":[{"question":"Question %d?","header":"Q","options":[{"label":"one","description":"1"},{"label":"two","description":"2"}],"multiSelect":false}]}`, n)
		}
		script(t,
			m.Step{UserText: "scene parallel", Reply: []m.Block{m.ToolUse("toolu_p1", "AskUserQuestion", question(1)), m.ToolUse("toolu_p2", "AskUserQuestion", question(2))}},
			m.Step{Results: []m.Result{{ToolUseID: "toolu_p1", Contains: `"Question 1?"="one"`}, {ToolUseID: "toolu_p2", Contains: `"Question 2?"="two"`}}, Reply: []m.Block{m.Text("ok")}})
		s.say("scene parallel")
		first, second := ask(s, "toolu_p1"), ask(s, "toolu_p2")
		pending, err := s.Reinitialize(s.ctx())
		require.NoError(t, err)
		require.Len(t, pending, 2)
		require.Equal(t, first.Input, pending[0].Input)
		var busy *BusyError
		require.ErrorAs(t, s.Close(s.ctx()), &busy)
		require.ElementsMatch(t, []string{first.RequestID, second.RequestID}, busy.Open)
		for _, c := range []struct {
			a        protocol.Ask
			question string
			answer   string
		}{{second, "Question 2?", "two"}, {first, "Question 1?", "one"}} {
			out, err := protocol.EncodeAnswers(c.a.Input, map[string]string{c.question: c.answer}, nil)
			require.NoError(t, err)
			require.NoError(t, s.Allow(c.a.RequestID, out, nil))
		}
		s.endTurn()
	})

	scene("D0-10 an interrupt withdraws the open ask, and a late answer is refused", func(t *testing.T) {
		script(t, m.Step{UserText: "scene interrupt", Reply: []m.Block{m.ToolUse("toolu_i1", "Bash", `{"command":"touch interrupted.txt"}`)}})
		s.say("scene interrupt")
		a := ask(s, "toolu_i1")
		require.NoError(t, s.Interrupt(s.ctx()))
		require.Equal(t, a.RequestID, next[protocol.AskWithdrawn](s, nil).RequestID)
		require.ErrorIs(t, s.Allow(a.RequestID, a.Input, nil), ErrWithdrawn)
		end := s.endTurn()
		require.Equal(t, "error_during_execution", end.Subtype)
		require.True(t, end.IsError)
		require.NoFileExists(t, file("interrupted.txt"))
		// The session goes on, and the model learns that the call was stopped.
		script(t, m.Step{
			UserText: "scene after", Results: []m.Result{{ToolUseID: "toolu_i1", Any: true, IsError: true}},
			Reply: []m.Block{m.Text("still here")},
		})
		s.say("scene after")
		require.Equal(t, "still here", s.endTurn().Text)
	})

	scene("a number beyond 2^53 goes in verbatim, and the ask shows what the CLI made of it", func(t *testing.T) {
		script(t,
			m.Step{UserText: "scene number", Reply: []m.Block{m.ToolUse("toolu_n1", "Bash", `{"command":"touch number.txt","timeout":9007199254740993}`)}},
			m.Step{Results: []m.Result{{ToolUseID: "toolu_n1", Content: "no", IsError: true}}, Reply: []m.Block{m.Text("ok")}})
		s.say("scene number")
		var streamed strings.Builder
		end := protocol.ToolCallEnd{}
		for end.ID == "" {
			next(s, func(e protocol.Event) bool {
				switch e := e.(type) {
				case protocol.ToolCallDelta:
					streamed.WriteString(e.Input)
				case protocol.ToolCallEnd:
					end = e
				default:
					return false
				}
				return true
			})
		}
		require.Equal(t, `{"command":"touch number.txt","timeout":9007199254740993}`, streamed.String())
		a := ask(s, "toolu_n1")
		require.Contains(t, string(a.Input), "9007199254740992", "the CLI rounds; what it shows is what it runs")
		require.NoError(t, s.Deny(a.RequestID, "no", false))
		s.endTurn()
	})

	scene("D1-46 images, documents and text reach the model in this order, text last", func(t *testing.T) {
		script(t, m.Step{UserText: "scene blocks", Reply: []m.Block{m.Text("seen")}})
		require.NoError(t, s.Prompt(
			protocol.TextBlock("scene blocks"),
			protocol.DocumentBlock("text/plain", "notes.txt", []byte("line one\nline <two>")),
			protocol.ImageBlock("image/png", onePixel),
			protocol.DocumentBlock("application/pdf", "", []byte("%PDF-1.4\n%%EOF\n")),
		))
		s.endTurn()
		reqs := api.Requests()
		last := reqs[len(reqs)-1]
		var content []m.Content
		for _, msg := range last.Messages {
			if msg.Role == "user" {
				content = msg.Content
			}
		}
		var kinds []string
		for _, c := range content {
			if c.Type != "text" || !strings.HasPrefix(c.Text, "[Image: source:") { // the CLI's own note
				kinds = append(kinds, c.Type)
			}
		}
		require.Equal(t, []string{"image", "document", "document", "text"}, kinds)
		require.Equal(t, "scene blocks", strings.TrimSpace(content[3].Text)) // the CLI adds a line break
		var doc struct {
			Title  string
			Source struct{ Data string }
		}
		require.NoError(t, json.Unmarshal(content[1].Raw, &doc))
		require.Equal(t, "notes.txt", doc.Title)
		require.Equal(t, "line one\nline <two>", doc.Source.Data)
	})

	scene("D0-02 D0-03 D0-04 D0-47 D0-54 D1-08 C-11 the mode says what is asked, a question always is", func(t *testing.T) {
		const q = `{"questions":[{"question":"Go on?","header":"Go","options":[{"label":"yes","description":"y"},{"label":"no","description":"n"}],"multiSelect":false}]}`
		script(t,
			m.Step{UserText: "scene mode", Reply: []m.Block{m.ToolUse("toolu_m1", "Bash", `{"command":"mkdir made"}`)}},
			m.Step{Results: []m.Result{{ToolUseID: "toolu_m1", Any: true}}, Reply: []m.Block{m.ToolUse("toolu_m2", "Write", fmt.Sprintf(`{"file_path":%q,"content":"hi"}`, file("mode.txt")))}},
			m.Step{Results: []m.Result{{ToolUseID: "toolu_m2", Any: true}}, Reply: []m.Block{m.ToolUse("toolu_m3", "AskUserQuestion", q)}},
			m.Step{Results: []m.Result{{ToolUseID: "toolu_m3", Contains: `"Go on?"="yes"`}}, Reply: []m.Block{m.ToolUse("toolu_m4", "Bash", `{"command":"touch bypass.txt"}`)}},
			m.Step{Results: []m.Result{{ToolUseID: "toolu_m4", Any: true}}, Reply: []m.Block{m.ToolUse("toolu_m5", "AskUserQuestion", q)}},
			m.Step{Results: []m.Result{{ToolUseID: "toolu_m5", Contains: `"Go on?"="no"`}}, Reply: []m.Block{m.ToolUse("toolu_m6", "Write", fmt.Sprintf(`{"file_path":%q,"content":"hi"}`, file("denied-write.txt")))}},
			m.Step{Results: []m.Result{{ToolUseID: "toolu_m6", Content: "no", IsError: true}}, Reply: []m.Block{m.Text("ok")}})
		// The very next ask: what ran in between was not asked.
		question := func(id, answer string) func() {
			a := next[protocol.Ask](s, nil)
			require.Equal(t, id, a.ToolUseID)
			require.Equal(t, protocol.QuestionTool, a.ToolName)
			return func() {
				out, err := protocol.EncodeAnswers(a.Input, map[string]string{"Go on?": answer}, nil)
				require.NoError(t, err)
				require.NoError(t, s.Allow(a.RequestID, out, nil))
			}
		}
		s.say("scene mode")
		a := ask(s, "toolu_m1")
		require.NoError(t, s.SetMode(s.ctx(), "acceptEdits"))
		require.Equal(t, "acceptEdits", next[protocol.Status](s, nil).Mode)
		require.NoError(t, s.Allow(a.RequestID, nil, json.RawMessage(`[{"type":"addRules","rules":[{"toolName":"Bash","ruleContent":"mkdir made"}],"behavior":"allow","destination":"session"}]`)))
		reply := question("toolu_m3", "yes")
		require.FileExists(t, file("mode.txt"))
		require.DirExists(t, file("made"))
		require.NoError(t, s.SetMode(s.ctx(), "bypassPermissions"))
		reply()
		reply = question("toolu_m5", "no")
		require.FileExists(t, file("bypass.txt"))
		require.NoError(t, s.SetMode(s.ctx(), "default"))
		reply()
		a = next[protocol.Ask](s, nil)
		require.Equal(t, "toolu_m6", a.ToolUseID, "in the default mode a write is asked")
		require.NoError(t, s.Deny(a.RequestID, "no", false))
		s.endTurn()
		require.NoFileExists(t, file("denied-write.txt"))
		var refused *ControlError
		require.ErrorAs(t, s.SetMode(s.ctx(), "no-such-mode"), &refused)
	})

	scene("an idle session closes by itself with code 0, and can be resumed", func(t *testing.T) {
		require.NoError(t, s.Close(s.ctx()))
		require.Zero(t, s.Wait().Code)
		require.Empty(t, s.Wait().Open)
		require.ErrorIs(t, s.Prompt(protocol.TextBlock("late")), ErrExited)
		_, err := s.Reinitialize(s.ctx())
		require.ErrorIs(t, err, ErrExited)

		script(t, m.Step{UserText: "scene resumed", Reply: []m.Block{m.Text("I remember.")}})
		again := o
		again.SessionID, again.ResumeID, again.AllowBypass = "", o.SessionID, false
		r := start(t, again)
		r.say("scene resumed")
		require.Equal(t, o.SessionID, next[protocol.Init](r, nil).SessionID)
		require.Equal(t, "I remember.", r.endTurn().Text)
		reqs := api.Requests()
		require.Contains(t, reqs[len(reqs)-1].FirstText, "scene allow")
		var refused *ControlError
		require.ErrorAs(t, r.SetMode(r.ctx(), "bypassPermissions"), &refused, "nobody opened this session for that")
	})
}

// A sub-agent has a conversation of its own; its asks carry its id.
func TestCLISubAgent_B44(t *testing.T) {
	t.Parallel()
	api := m.New(t,
		m.Step{Conv: "MAIN", UserText: "MAIN", Reply: []m.Block{m.ToolUse("toolu_s1", "Agent", `{"description":"Look","prompt":"CHILD look around","subagent_type":"general-purpose","run_in_background":false}`)}},
		m.Step{Conv: "CHILD", Reply: []m.Block{m.ToolUse("toolu_c1", "Bash", `{"command":"touch child.txt"}`)}},
		m.Step{Conv: "CHILD", Results: []m.Result{{ToolUseID: "toolu_c1", Content: "not here", IsError: true}}, Reply: []m.Block{m.Text("child done")}},
		m.Step{Conv: "MAIN", Results: []m.Result{{ToolUseID: "toolu_s1", Any: true}}, Reply: []m.Block{m.Text("main done")}},
	)
	s := start(t, real(t, api))
	s.say("MAIN")
	a := ask(s, "toolu_c1")
	require.NotEmpty(t, a.AgentID)
	require.NoError(t, s.Deny(a.RequestID, "not here", false))
	res := next(s, func(r protocol.ToolResult) bool { return r.ToolUseID == "toolu_c1" })
	require.Equal(t, "toolu_s1", res.Parent)
	s.endTurn()
}

func TestMissingCLIFails(t *testing.T) {
	t.Parallel()
	for _, exe := range []string{"no-such-claude-anywhere", filepath.Join(t.TempDir(), "claude")} {
		_, err := Start(t.Context(), Options{Executable: exe, OnEvent: func(protocol.Event) {}})
		require.ErrorIs(t, err, ErrNotInstalled)
		require.ErrorContains(t, err, "npm install -g @anthropic-ai/claude-code")
	}
}

func TestLookPath(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	t.Setenv("HOME", dir)
	_, err := LookPath()
	require.ErrorIs(t, err, ErrNotInstalled)
	below := filepath.Join(dir, ".local", "bin")
	require.NoError(t, os.MkdirAll(below, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(below, "claude"), []byte("#!/bin/sh\n"), 0o700))
	p, err := LookPath()
	require.NoError(t, err)
	require.Equal(t, filepath.Join(below, "claude"), p)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "claude"), []byte("#!/bin/sh\n"), 0o700))
	p, err = LookPath()
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, "claude"), p)
}

// A CLI that refuses to start says why.
func TestStartReportsTheCLIsOwnWords(t *testing.T) {
	t.Parallel()
	api := m.New(t)
	o := real(t, api)
	o.Args = []string{"--no-such-flag"}
	o.OnEvent = func(protocol.Event) {}
	_, err := Start(t.Context(), o)
	require.ErrorIs(t, err, ErrExited)
	require.ErrorContains(t, err, "no-such-flag")
}
