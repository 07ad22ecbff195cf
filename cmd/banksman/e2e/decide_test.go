package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
)

// testLogin starts an instance with a session token for unattended tests.
func (h *home) upWithLogin(args ...string) (in *instance, tokenFile, token string) {
	h.t.Helper()
	tokenFile = filepath.Join(h.t.TempDir(), "login")
	in = h.up(append(args, "--test-login", tokenFile)...)
	st, err := os.Stat(tokenFile)
	require.NoError(h.t, err)
	require.Equal(h.t, os.FileMode(0o600), st.Mode().Perm())
	require.Contains(h.t, strings.ToLower(in.output()), "test login", "it says loudly that it did")
	raw, err := os.ReadFile(tokenFile)
	require.NoError(h.t, err)
	return in, tokenFile, strings.TrimSpace(string(raw))
}

func (h *home) waiting(n int) []wire.Interaction {
	h.t.Helper()
	var list []wire.Interaction
	require.Eventually(h.t, func() bool {
		list = h.pending()
		return len(list) == n
	}, patience, 50*time.Millisecond)
	return list
}

func TestTwoPagesAndATerminalDecideAtOnce_B04_D1_18(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	in, tokenFile, _ := h.upWithLogin()
	b := newBrowser(t)
	one := b.open(in.login)
	one.see(testID("inbox"))
	two := b.open(in.url)
	two.see(testID("inbox"))
	effect := h.file("effect.txt")
	agent := start(t, h.env, "/bin/sh", "-c",
		fmt.Sprintf(`banksman ask --data %s --tool Bash --input '{"command":"deploy"}' --title Deploy; echo "exit $?" >> %s`, h.data, effect))
	ix := h.waiting(1)[0]
	id := ix.ID
	require.Equal(t, id, one.card("deploy"))
	require.Equal(t, id, two.card("deploy"))

	// About as long as the command takes to start: any order must do.
	at := time.Now().Add(80 * time.Millisecond)
	press := func(p *page, button string) {
		p.holds(fmt.Sprintf(`(() => { setTimeout(() => { const b = document.querySelector(%q); if (b) b.click(); }, %d - Date.now()); return true; })()`,
			within(id, button), at.UnixMilli()))
	}
	press(one, "approve")
	press(two, "deny")
	var terminal result
	var wg sync.WaitGroup
	wg.Go(func() {
		terminal = h.run("decide", id, "deny", "--message", "not today", "--login", tokenFile)
	})
	wg.Wait()
	agent.wait()

	require.Len(t, lines(t, effect), 1, "one side effect")
	var closed []wire.Interaction
	require.NoError(t, json.Unmarshal([]byte(h.run("pending", "--state", "closed", "--json").stdout), &closed))
	require.Len(t, closed, 1)
	won := closed[0].Decision
	if won.Outcome == hitl.Allowed {
		require.Equal(t, []string{"exit 0"}, lines(t, effect))
	} else {
		require.Equal(t, []string{"exit 1"}, lines(t, effect))
	}
	name := won.Principal.Name
	require.NotEmpty(t, name)
	receipt := testID("receipt-" + id)
	byYou := 0
	for _, p := range []*page{one, two} {
		p.see(receipt)
		text := p.text(receipt)
		if strings.Contains(text, "by you") {
			byYou++
			continue
		}
		require.Contains(t, text, name, "the loser is told who won")
	}
	if won.Channel == "cli" {
		require.Zero(t, terminal.code, terminal.stderr)
		require.Zero(t, byYou)
	} else {
		require.Equal(t, 1, terminal.code, terminal.stderr)
		require.Contains(t, terminal.stdout, name)
		require.Contains(t, terminal.stdout, won.DecisionID)
		require.Equal(t, 1, byYou)
	}
}

func TestAskAgainAfterEverythingWasKilled_B48_D0_18(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	in := h.up()
	ask := []string{"--key", "release-9", "--tool", "Bash", "--input", `{"command":"release","n":9007199254740993}`, "--title", "Release"}
	first := h.ask(ask...)
	before := h.waiting(1)[0]
	in.kill()
	first.kill()

	in, tokenFile, _ := h.upWithLogin()
	after := h.waiting(1)[0]
	require.Equal(t, before.ID, after.ID)
	require.Equal(t, before.ExpiresAt, after.ExpiresAt)
	second := h.ask(ask...)
	p := newBrowser(t).open(in.login)
	require.Equal(t, before.ID, p.card("release"))
	require.Len(t, p.cards(), 1, "asked again is not a second card")
	require.Contains(t, p.text(testID("card-"+before.ID)), "9007199254740993")
	p.click(within(before.ID, "approve"))
	require.Zero(t, second.wait())
	second.line(`"outcome":"allowed"`)
	// And once more, long after: the stored decision, at once.
	third := h.ask(ask...)
	require.Zero(t, third.wait())
	require.Empty(t, h.pending())
	// The same key for something else is an error, not the old decision.
	other := h.run("ask", "--key", "release-9", "--tool", "Bash", "--input", `{"command":"rm -rf /"}`, "--title", "Release")
	require.Equal(t, 2, other.code, other.stdout)
	require.Contains(t, other.stderr, "key")
	_ = tokenFile
}

func TestTerminalDecidesOnlyAfterTheBrowserConfirmed_B56(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	in := h.up()
	asker := h.ask("--tool", "Bash", "--input", `{"command":"make"}`, "--title", "Make")
	id := h.waiting(1)[0].ID
	r := h.run("decide", id, "allow")
	require.Equal(t, 2, r.code)
	require.Contains(t, r.stderr, "banksman login --cli")
	require.Len(t, h.pending(), 1)

	p := newBrowser(t).open(in.login)
	p.see(testID("inbox"))
	login := start(t, h.env, "banksman", "login", "--cli", "--data", h.data)
	code := login.line(`([A-Z0-9]{4}-?[A-Z0-9]{4})`)[1]
	p.reads(testID("cli-login"), code)
	p.click(testID("cli-login-allow"))
	require.Zero(t, login.wait(), login.output())
	r = h.run("decide", id, "deny", "--message", "use the other target")
	require.Zero(t, r.code, r.stderr)
	require.Equal(t, 1, asker.wait())
	asker.line(`"message":"use the other target"`)
	asker.line(`"channel":"cli"`)

	// A question from the terminal, answered in the terminal.
	q := h.askJSON(`{"kind":"question","title":"Where?","questions":[{"question":"Which region?","options":[{"label":"eu, west"},{"label":"us"}],"multi_select":true}]}`)
	id = h.waiting(1)[0].ID
	bad := h.run("answer", id, "--json", `{"answers":{"5":"us"}}`)
	require.Equal(t, 2, bad.code)
	require.Contains(t, bad.stderr, "answers.5")
	require.Len(t, h.pending(), 1)
	require.Zero(t, h.run("answer", id, "--json", `{"answers":{"Which region?":"[\"eu, west\",\"us\"]"}}`).code)
	require.Zero(t, q.wait())
	q.line(`"values":\["eu, west","us"\]`)

	// Silence, a closed card and words have exit codes of their own.
	require.Equal(t, 3, h.run("ask", "--tool", "Bash", "--input", `{}`, "--title", "x", "--timeout", "1s").code)
	d := h.ask("--tool", "Bash", "--input", `{}`, "--title", "y")
	require.Zero(t, h.run("answer", h.waiting(1)[0].ID, "--json", `{"action":"dismiss"}`).code)
	require.Equal(t, 4, d.wait())
}

func TestBadInputGetsItsReceiptAndChangesNothing_B08_D0_27_D0_28_D1_47(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	in, _, token := h.upWithLogin()
	for name, fields := range map[string]string{
		"duplicate": `{"kind":"approval","title":"t","tool":{"name":"Bash","input":{"a":1,"a":2}}}`,
		"kind":      `{"kind":"poll","title":"t"}`,
		"tool":      `{"kind":"approval","title":"t"}`,
	} {
		p := h.askJSON(fields)
		require.Equal(t, 2, p.wait(), "%s: %s", name, p.output())
		p.line(name)
	}
	for name, args := range map[string][]string{
		"input": {"--tool", "Bash", "--input", `{`, "--title", "t"},
		"limit": {"--tool", "Bash", "--input", "@" + bigFile(t), "--title", "t"},
	} {
		r := h.run(append([]string{"ask"}, args...)...)
		require.Equal(t, 2, r.code, "%s: %s", name, r.stderr)
		require.Contains(t, r.stderr, name)
	}
	require.Empty(t, h.pending())
	h.ask("--tool", "Bash", "--input", `{"command":"x"}`, "--title", "t", "--session", "s1")
	h.askJSON(`{"kind":"question","title":"q","session_id":"s2","questions":[{"question":"Q?","options":[{"label":"A"},{"label":"B"}]}]}`)
	list := h.waiting(2)
	a, q := list[0], list[1]
	if a.Kind != hitl.KindApproval {
		a, q = q, a
	}
	type m = map[string]any
	for _, tc := range []struct {
		name, path string
		body       any
		code       int
		contains   string
	}{
		{"unknown id", "/api/interactions/nobody/decision", m{"decision": "allow", "digest": a.Digest}, 404, "not_found"},
		{"wrong digest", "/api/interactions/" + a.ID + "/decision", m{"decision": "allow", "digest": q.Digest}, 400, "digest_mismatch"},
		{"no digest", "/api/interactions/" + a.ID + "/decision", m{"decision": "allow"}, 400, "digest"},
		{"wrong kind", "/api/interactions/" + q.ID + "/decision", m{"decision": "allow", "digest": q.Digest}, 400, "decision"},
		{"neither", "/api/interactions/" + a.ID + "/decision", m{"decision": "maybe", "digest": a.Digest}, 400, "allow or deny"},
		{"missing answers", "/api/interactions/" + q.ID + "/decision", m{"answers": m{}, "digest": q.Digest}, 400, "answers"},
		{"compat, nothing named", "/api/sessions/s2/submit-answers", m{}, 400, "tool_call_id"},
		{"compat, wrong kind", "/api/sessions/s1/submit-answers", m{"request_id": a.ID, "answers": m{"0": "A"}}, 404, "No pending question"},
		{"compat, wrong session", "/api/sessions/s2/approve", m{"request_id": a.ID}, 404, "No pending"},
	} {
		code, body := in.call("POST", tc.path, token, tc.body)
		require.Equal(t, tc.code, code, "%s: %s", tc.name, body)
		require.Contains(t, body, tc.contains, tc.name)
	}
	code, body := in.call("POST", "/api/interactions/"+a.ID+"/decision", "", m{"decision": "allow", "digest": a.Digest})
	require.Equal(t, 401, code, body)
	code, _ = in.call("GET", "/api/interactions/"+a.ID+"/decision?decision=allow", token, nil)
	require.Equal(t, 405, code, "GET never decides")
	require.Len(t, h.pending(), 2, "nothing of that decided anything")
	code, body = in.call("POST", "/api/sessions/s1/approve", token, m{"request_id": a.ID})
	require.Equal(t, 200, code, body)
	require.JSONEq(t, `{"ok":true}`, body)
	code, body = in.call("POST", "/api/sessions/s1/deny", token, m{"request_id": a.ID})
	require.Equal(t, 409, code, body)
	require.Contains(t, body, `"outcome":"allowed"`)
}

func bigFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "big.json")
	require.NoError(t, os.WriteFile(path, []byte(`{"command":"`+strings.Repeat("<", 1<<20)+`"}`), 0o600))
	return path
}
