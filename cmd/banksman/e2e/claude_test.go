package e2e

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/hitltest/modelapi"
)

const twoQuestions = `{"questions":[
 {"question":"Which database should we use?","header":"Database","multiSelect":false,
  "options":[{"label":"Postgres","description":"relational"},{"label":"SQLite","description":"one file"}]},
 {"question":"Which features?","header":"Features","multiSelect":true,
  "options":[{"label":"Auth","description":"sign-in"},{"label":"Billing","description":"invoices"}]}]}`

// The whole road: a session from the browser, the real CLI, streamed text, an
// approval, a denial with a reason, questions, and the conversation after it.
func TestClaudeFromBrowser_D1_43_D0_13_D1_03_D4_09(t *testing.T) {
	t.Parallel()
	h := newHome(t,
		modelapi.Step{Conv: "marker-road", UserText: "marker-road", Reply: []modelapi.Block{
			modelapi.Text("I will make a file."),
			modelapi.ToolUse("toolu_touch", "Bash", `{"command":"echo made >> made.txt","description":"Make a file"}`),
		}},
		modelapi.Step{Conv: "marker-road", Results: []modelapi.Result{{ToolUseID: "toolu_touch", Any: true}}, Reply: []modelapi.Block{
			modelapi.ToolUse("toolu_rm", "Bash", `{"command":"touch removed.txt && rm -rf build","description":"Clean up"}`),
		}},
		modelapi.Step{Conv: "marker-road", Results: []modelapi.Result{{ToolUseID: "toolu_rm", Content: `Not "build", use 'dist' <b>instead</b>`, IsError: true}}, Reply: []modelapi.Block{
			modelapi.ToolUse("toolu_ask", "AskUserQuestion", twoQuestions),
		}},
		modelapi.Step{Conv: "marker-road", Results: []modelapi.Result{{
			ToolUseID: "toolu_ask", Contains: `"Which database should we use?"="a plain file, really"`,
		}}, Reply: []modelapi.Block{modelapi.Text("All done, thank you.")}},
	)
	in := h.up()
	p := newBrowser(t).open(in.login)
	p.session(h.work, "marker-road please")
	p.reads(testID("transcript"), "I will make a file.")
	p.shot("session approval")

	first := p.card("echo made >> made.txt")
	require.Len(t, p.cards(), 1, "one copy on the screen")
	require.Empty(t, lines(t, h.file("made.txt")), "nothing runs before the decision")
	p.click(within(first, "approve"))
	second := p.card("rm -rf build")
	require.Equal(t, []string{"made"}, lines(t, h.file("made.txt")))
	require.NotEqual(t, first, second)

	p.click(within(second, "deny-reason"))
	p.fill(within(second, "deny-reason-text"), `Not "build", use 'dist' <b>instead</b>`)
	p.click(within(second, "deny-reason-send"))

	q := p.card("Which database should we use?")
	require.NoFileExists(t, h.file("removed.txt"))
	p.shot("session question")
	p.fill(within(q, "q-0-other"), "a plain file, really")
	p.click(within(q, "q-1-opt-0"))
	p.click(within(q, "q-1-opt-1"))
	p.click(within(q, "submit"))
	p.reads(testID("transcript"), "All done, thank you.")
	p.see(testID("message-input"))
	p.gone(testID("card-" + q))
	p.shot("session done")

	// The multi-select labels arrived too, exactly.
	reqs := h.api.Requests()
	var got string
	for _, res := range reqs[len(reqs)-1].Results {
		if res.ToolUseID == "toolu_ask" {
			got = res.Content
		}
	}
	require.Contains(t, got, `"Which features?"="Auth, Billing"`)

	// A reload shows the same conversation and nothing pending.
	p.reload()
	p.reads(testID("transcript"), "All done, thank you.")
	require.Empty(t, p.cards())
	in.interrupt()
}

func TestClaudeParallelAsksInterruptAndStop_B43_D0_08_D1_16(t *testing.T) {
	t.Parallel()
	q := func(s string) string {
		return `{"questions":[{"question":"` + s + `","header":"H","multiSelect":false,"options":[{"label":"Yes","description":""},{"label":"No","description":""}]}]}`
	}
	h := newHome(t,
		modelapi.Step{Conv: "marker-par", UserText: "marker-par", Reply: []modelapi.Block{
			modelapi.ToolUse("toolu_a", "AskUserQuestion", q("Question A?")),
			modelapi.ToolUse("toolu_b", "AskUserQuestion", q("Question B?")),
		}},
		modelapi.Step{Conv: "marker-par", Results: []modelapi.Result{
			{ToolUseID: "toolu_a", Contains: `"Question A?"="No"`}, {ToolUseID: "toolu_b", Contains: `"Question B?"="Yes"`},
		}, Reply: []modelapi.Block{modelapi.ToolUse("toolu_c", "Bash", `{"command":"touch never.txt","description":"Never"}`)}},
		// The rejected tool's result travels with the next prompt.
		modelapi.Step{Conv: "marker-par", UserText: "go on", Results: []modelapi.Result{{ToolUseID: "toolu_c", Any: true, IsError: true}}, Reply: []modelapi.Block{
			modelapi.ToolUse("toolu_d", "Bash", `{"command":"touch also-never.txt","description":"Never"}`),
		}},
	)
	in := h.up()
	b := newBrowser(t)
	p := b.open(in.login)
	p.session(h.work, "marker-par")
	inbox := b.open(in.url)
	inbox.see(testID("inbox"))
	first, second := inbox.card("Question A?"), inbox.card("Question B?")
	// Any order.
	inbox.click(within(second, "q-0-opt-0"))
	inbox.click(within(second, "submit"))
	inbox.gone(within(second, "submit"))
	inbox.click(within(first, "q-0-opt-1"))
	inbox.click(within(first, "submit"))

	waiting := p.card("touch never.txt")
	p.click(testID("interrupt"))
	p.gone(testID("card-" + waiting)) // the CLI's own withdrawal closes the card
	p.see(testID("message-input"))
	ix := h.run("pending", "--state", "closed", "--json")
	require.Contains(t, ix.stdout, `"outcome":"`+string(hitl.Cancelled))

	p.fill(testID("message-input"), "go on")
	p.click(testID("message-send"))
	p.card("touch also-never.txt")
	p.click(testID("stop"))
	p.click(testID("stop-sure"))
	require.Eventually(t, func() bool { return len(h.pending()) == 0 }, patience, 50*time.Millisecond)
	p.holds(`document.querySelectorAll('article[data-testid^="card-"] [data-testid="approve"]').length === 0`)
	require.NoFileExists(t, h.file("never.txt"))
	require.NoFileExists(t, h.file("also-never.txt"))
}

func TestMissingClaudeSaysHowToInstallIt(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	for i, kv := range h.env {
		if len(kv) > 5 && kv[:5] == "PATH=" {
			h.env[i] = "PATH=/usr/bin:/bin"
		}
	}
	in := h.up()
	p := newBrowser(t).open(in.login)
	p.session(h.work, "hello")
	p.reads("body", "npm install -g @anthropic-ai/claude-code")
}

func TestKillEverythingWhileClaudeWaits_B48_D0_18(t *testing.T) {
	t.Parallel()
	h := newHome(t,
		modelapi.Step{Conv: "marker-kill", UserText: "marker-kill", Reply: []modelapi.Block{
			modelapi.ToolUse("toolu_k", "Bash", `{"command":"echo ran >> ran.txt","description":"Run once"}`),
		}},
		// After the restart the worker tells the model what the person decided.
		modelapi.Step{Conv: "marker-kill", UserText: "echo ran >> ran.txt", Results: nil, Respond: again("toolu_k2"), Optional: true},
		modelapi.Step{Conv: "marker-kill", UserText: "echo ran >> ran.txt", Results: []modelapi.Result{{ToolUseID: "toolu_k", Any: true}}, Respond: again("toolu_k2"), Optional: true},
		modelapi.Step{Conv: "marker-kill", UserText: "echo ran >> ran.txt", Results: []modelapi.Result{{ToolUseID: "toolu_k", Any: true, IsError: true}}, Respond: again("toolu_k2"), Optional: true},
		modelapi.Step{Name: "end", Conv: "marker-kill", Results: []modelapi.Result{{ToolUseID: "toolu_k2", Any: true}}, Reply: []modelapi.Block{modelapi.Text("It ran after all.")}},
	)
	in := h.up()
	b := newBrowser(t)
	p := b.open(in.login)
	p.session(h.work, "marker-kill")
	id := p.card("echo ran >> ran.txt")
	before := h.pending()
	require.Len(t, before, 1)
	in.kill()
	require.Empty(t, lines(t, h.file("ran.txt")), "a crash is no consent")

	in = h.up()
	after := h.pending()
	require.Len(t, after, 1, "the same card")
	require.Equal(t, before[0].ID, after[0].ID)
	require.Equal(t, before[0].ExpiresAt, after[0].ExpiresAt, "and the same deadline")
	// The address has changed with the port; the session token has not.
	p = b.open(in.login)
	require.Equal(t, id, p.card("echo ran >> ran.txt"))
	p.click(within(id, "approve"))
	h.served("end")
	require.Equal(t, []string{"ran"}, lines(t, h.file("ran.txt")), "exactly once")
	require.Empty(t, h.pending(), "the decision was not asked for again")
}

func again(id string) func(*modelapi.Request) []modelapi.Block {
	return func(*modelapi.Request) []modelapi.Block {
		return []modelapi.Block{modelapi.ToolUse(id, "Bash", `{"command":"echo ran >> ran.txt","description":"Run once"}`)}
	}
}

func TestCtrlCKeepsWhatWaits(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	in := h.up()
	asker := h.ask("--key", "deploy-7", "--tool", "Bash", "--input", `{"command":"make deploy"}`, "--title", "Deploy")
	require.Eventually(t, func() bool { return len(h.pending()) == 1 }, patience, 50*time.Millisecond)
	before := h.pending()
	in.interrupt()
	require.Zero(t, in.cmd.ProcessState.ExitCode(), in.output())
	_, err := os.Stat(h.data + "/instance.json")
	require.True(t, os.IsNotExist(err))

	in = h.up()
	after := h.pending()
	require.Len(t, after, 1)
	require.Equal(t, before[0].ID, after[0].ID)
	p := newBrowser(t).open(in.login)
	id := p.card("make deploy")
	p.click(within(id, "approve"))
	require.Zero(t, asker.wait(), "the asker waited through the restart")
	asker.line(`"outcome":"allowed"`)
}
