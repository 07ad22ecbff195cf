package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/wire"
)

// example builds a program of docs/examples, which is a module of its own, and
// returns its path.
func example(t *testing.T, dir string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), filepath.Base(dir))
	cmd := exec.Command("go", "build", "-o", out, ".")
	cmd.Dir = filepath.Join("..", "..", "..", "docs", "examples", dir)
	cmd.Env = append(os.Environ(), "GOWORK=off")
	text, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", text)
	return out
}

// The decider of docs/examples with its own rules: read-only tools run without
// anybody, what is forbidden is denied with a reason, and people are asked for the
// rest. Each decision of the service names the service.
func TestTheExampleDecider_B57_invariant4(t *testing.T) {
	t.Parallel()
	program := example(t, "decider")
	h := newHome(t)
	r := h.run("creds", "--caller", "reader")
	require.Zero(t, r.code, r.stderr)
	tm := newTeam(t, h)
	in, token := tm.gateways[0], tm.tokens[0]
	hook := newReceiver(t)
	secret := "whsec_" + base64.StdEncoding.EncodeToString(hook.secret)
	service := start(t, append(h.env, "DECIDER_SECRET="+secret), program,
		"-listen", "127.0.0.1:0", "-rules", filepath.Join("..", "..", "..", "docs", "examples", "decider", "rules.json"))
	rules := filepath.Join("..", "..", "..", "docs", "examples", "decider", "rules.json")
	bus := start(t, h.env, program, "-creds", h.creds("caller-reader.json"), "-rules", rules)
	bus.line(`asked on hitl\.decider\.default\.reader`)
	at := service.line(`asked at (http://127\.0\.0\.1:\d+)`)[1]
	code, body := in.call("POST", "/api/tokens", token, wire.NewAPIToken{
		Name: "policy", Roles: []wire.Grant{{Role: wire.RoleApprover, Projects: []string{wire.AllProjects}}}, ExpiresIn: 3600,
	})
	require.Equal(t, 200, code, body)
	var made wire.CreatedAPIToken
	require.NoError(t, json.Unmarshal([]byte(body), &made))
	file := filepath.Join(t.TempDir(), "notify.yaml")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `
channels:
  - {name: hook, type: webhook, url: %q, allow_private: true, secrets: [%s]}
deciders:
  - {name: policy, url: %q, allow_private: true, secrets: [%s], token: %s}
  - {name: reader, caller: reader, token: %[6]s}
recipients:
  - {name: me, messages: 0, channels: [{channel: hook}]}
routes:
  - {name: srv, match: {tool: Read}, steps: [{ask: reader, wait: 5s}, {to: me}]}
  - {name: all, steps: [{ask: policy, wait: 5s}, {to: me}]}
`, hook.URL, secret, at, secret, made.Token, made.Token), 0o600))
	start(t, h.env, "banksman-notifier", "--creds", h.creds("notifier.json"), "--config", file)

	// A read-only tool: nobody is told, and the record names the service.
	r = h.run("ask", "--tool", "Read", "--input", `{"file_path":"/srv/readme"}`, "--title", "Read")
	require.Zero(t, r.code, r.stderr)
	require.Contains(t, r.stdout, `"kind":"service"`)
	require.Contains(t, r.stdout, `"id":"token-`+made.ID+`","name":"policy"`)
	require.Contains(t, r.stdout, `"channel":"decider"`)
	require.Contains(t, r.stdout, "rule read-only tools")
	bus.line(`Read: allow`) // over NATS
	// What a rule forbids.
	r = h.run("ask", "--tool", "Bash", "--input", `{"command":"git push --force"}`, "--title", "Push")
	require.Equal(t, 1, r.code, r.stderr)
	require.Contains(t, r.stdout, "open a pull request")
	types, _ := hook.got()
	require.Empty(t, types, "nobody was told of what a service decided")

	// The demo agent asks for what no rule is about: people are told, and decide.
	require.Eventually(t, func() bool { // until the first heartbeat is in
		code, body = in.call("POST", "/api/sessions", token, map[string]any{"runtime": "demo", "prompt": "go"})
		return code == 200
	}, patience, 50*time.Millisecond)
	var ix wire.Interaction
	require.Eventually(t, func() bool {
		for _, x := range in.list(token) {
			if x.ToolName == "Edit" { // the agent's first wish was a look with git
				ix = x
			}
		}
		return ix.ID != ""
	}, patience, 50*time.Millisecond)
	service.line(ix.ID + `.*: pass`)
	require.Eventually(t, func() bool {
		_, bodies := hook.got()
		return len(bodies) == 1 && strings.Contains(bodies[0], ix.ID)
	}, patience, 50*time.Millisecond)
	code, body = in.call("POST", "/api/interactions/"+ix.Key+"/decision", token, map[string]any{"decision": "deny", "digest": ix.Digest})
	require.Equal(t, 200, code, body)

	// Without the service, and with a token that was revoked, people decide as well.
	code, body = in.call("DELETE", "/api/tokens/"+made.ID, token, nil)
	require.Equal(t, 200, code, body)
	asker := h.ask("--tool", "Read", "--input", `{"file_path":"/srv/other"}`, "--title", "Read more")
	find := func() (found wire.Interaction) {
		require.Eventually(t, func() bool {
			for _, x := range in.list(token) {
				if x.Owner == "cli" {
					found = x
				}
			}
			return found.ID != ""
		}, patience, 50*time.Millisecond)
		return found
	}
	ix = find()
	require.Eventually(t, func() bool {
		x := h.run("notify", "explain", ix.Key)
		return x.code == 0 && strings.Contains(x.stdout, "the gateway refused the answer (forbidden)")
	}, patience, 100*time.Millisecond)
	code, body = in.call("GET", "/api/interactions/"+ix.Key+"/alerts", token, nil)
	require.Equal(t, 200, code, body)
	require.Contains(t, body, `"notifier":"answered"`)
	require.Contains(t, body, "the gateway refused the answer (forbidden)", "the page is told what the terminal is told")
	told := func() bool {
		_, bodies := hook.got()
		return strings.Contains(bodies[len(bodies)-1], ix.ID)
	}
	require.Eventually(t, told, patience, 50*time.Millisecond)
	code, body = in.call("POST", "/api/interactions/"+ix.Key+"/decision", token, map[string]any{"decision": "allow", "digest": ix.Digest})
	require.Equal(t, 200, code, body)
	require.Zero(t, asker.wait())
	service.kill()
	bus.kill()
	asker = h.ask("--tool", "Read", "--input", `{"file_path":"/srv/third"}`, "--title", "Read on")
	ix = find()
	require.Eventually(t, told, patience, 50*time.Millisecond)
	code, body = in.call("POST", "/api/interactions/"+ix.Key+"/decision", token, map[string]any{"decision": "deny", "digest": ix.Digest})
	require.Equal(t, 200, code, body)
	require.Equal(t, 1, asker.wait())
}

// The follower of docs/examples, with a NATS account of its own and none of our code.
func TestTheExampleFollower_B48(t *testing.T) {
	t.Parallel()
	program := example(t, "follow")
	h := newHome(t)
	in, _, token := h.upWithLogin()
	r := h.run("creds", "--caller", "bot")
	require.Zero(t, r.code, r.stderr)
	code, body := in.call("POST", "/api/tokens", token, wire.NewAPIToken{
		Name: "bot", Roles: []wire.Grant{{Role: wire.RoleApprover, Projects: []string{wire.AllProjects}}}, ExpiresIn: 3600,
	})
	require.Equal(t, 200, code, body)
	var made wire.CreatedAPIToken
	require.NoError(t, json.Unmarshal([]byte(body), &made))
	first := h.ask("--tool", "Read", "--input", `{"file_path":"/srv/a"}`, "--title", "Read")
	h.waiting(1)
	var bot *process
	require.Eventually(t, func() bool { // until the server has taken the new account over
		bot = start(t, append(h.env, "BANKSMAN_TOKEN="+made.Token), program, "-creds", h.creds("caller-bot.json"))
		select {
		case <-bot.done:
			return false
		case <-time.After(500 * time.Millisecond):
			return true
		}
	}, patience, 100*time.Millisecond)
	require.Zero(t, first.wait(), "what waited before it came")
	first.line(`"id":"token-` + made.ID + `"`)
	first.line(`"channel":"service:bot"`)
	r = h.run("ask", "--tool", "Read", "--input", `{"file_path":"/srv/b"}`, "--title", "Read")
	require.Zero(t, r.code, "what comes while it follows: %s", r.stderr)
	other := h.ask("--tool", "Bash", "--input", `{"command":"make"}`, "--title", "Make")
	ix := h.waiting(1)[0]
	bot.line(ix.ID + " waits for people: Bash")
	code, body = in.call("POST", "/api/interactions/"+ix.Key+"/decision", token, map[string]any{"decision": "deny", "digest": ix.Digest})
	require.Equal(t, 200, code, body)
	require.Equal(t, 1, other.wait())
	bot.line(ix.ID + " is over: denied")
}
