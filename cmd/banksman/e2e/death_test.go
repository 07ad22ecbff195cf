package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/wire"
)

// Three wait while every part is killed, one after the other: they stay the
// same three with the same deadlines, and each asker gets its own answer.
func TestThreeWaitWhileEachPartIsKilled_B48_B06_B43(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	tm := newTeam(t, h)
	one, two := tm.gateways[0], tm.gateways[1]
	hook := newReceiver(t)
	startNotifier := func() *process {
		return start(t, h.env, "banksman-notifier", "--creds", h.creds("notifier.json"), "--config", hook.config(t, 0), "--base-url", "https://banksman.example")
	}
	notifier := startNotifier()
	ask := func(i int) *process {
		return h.ask("--tool", "Bash", "--input", fmt.Sprintf(`{"command":"step %d"}`, i), "--title", fmt.Sprint("Step ", i), "--key", fmt.Sprint("step-", i), "--session", "one")
	}
	var askers []*process
	for i := range 3 {
		askers = append(askers, ask(i))
	}
	type waiting struct{ key, expires, created string }
	seen := func(in *instance, token string) (out []waiting) {
		code, body := in.call("GET", "/api/interactions", token, nil)
		if code != 200 {
			return nil
		}
		var l wire.ListReply
		require.NoError(t, json.Unmarshal([]byte(body), &l))
		for _, ix := range l.Interactions {
			out = append(out, waiting{ix.Key, ix.ExpiresAt.Format(time.RFC3339Nano), ix.CreatedAt.Format(time.RFC3339Nano)})
		}
		return out
	}
	ready := func(in *instance) {
		t.Helper()
		require.Eventually(t, func() bool {
			code, _ := in.call("GET", "/readyz", "", nil)
			return code == 200
		}, patience, 50*time.Millisecond)
	}
	var before []waiting
	require.Eventually(t, func() bool {
		before = seen(one, tm.tokens[0])
		return len(before) == 3
	}, patience, 50*time.Millisecond)
	same := func(in *instance, token string) {
		t.Helper()
		ready(in)
		require.Eventually(t, func() bool { return fmt.Sprint(seen(in, token)) == fmt.Sprint(before) }, patience, 50*time.Millisecond)
	}

	// Both gateways, and one comes back.
	one.kill()
	two.kill()
	file := filepath.Join(t.TempDir(), "token")
	addr := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	p := start(t, h.env, "banksman-gateway", "--creds", h.creds("gateway.json"), "--listen", addr, "--test-login", file, "--login", "--cwd", h.work)
	m := p.line(`(http://127\.0\.0\.1:\d+)/#login=(\S+)`)
	back := &instance{process: p, home: h, login: m[0], url: m[1]}
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	token := strings.TrimSpace(string(raw))
	same(back, token)

	// The server.
	tm.nats.kill()
	tm.startNATS(t)
	same(back, token)

	// An asker: another process asks again, under the same key.
	askers[1].kill()
	askers[1] = ask(1)
	same(back, token)

	// The notifier, before and while somebody decides.
	notifier.kill()
	startNotifier()

	// Any order of answers.
	byStep := map[string]wire.Interaction{}
	for _, ix := range back.list(token) {
		byStep[ix.Title] = ix
	}
	decisions := []string{"allow", "deny", "allow"}
	for _, i := range []int{2, 0, 1} {
		ix := byStep[fmt.Sprint("Step ", i)]
		code, body := back.call("POST", "/api/interactions/"+ix.Key+"/decision", token, map[string]any{"decision": decisions[i], "digest": ix.Digest})
		require.Equal(t, 200, code, body)
	}
	for i, want := range []int{0, 1, 0} {
		require.Equal(t, want, askers[i].wait(), askers[i].output())
		require.Contains(t, askers[i].output(), byStep[fmt.Sprint("Step ", i)].ID, "its own answer")
	}
	require.Eventually(t, func() bool { return len(back.list(token)) == 0 }, patience, 50*time.Millisecond)

	// Asked once more, by yet another process: the stored decision, no new card.
	require.Equal(t, 1, ask(1).wait())
	require.Empty(t, back.list(token))
	// Everybody who was told of one is told of its end.
	require.Eventually(t, func() bool {
		types, bodies := hook.got()
		ended := map[string]bool{}
		for i := range types {
			for _, w := range before {
				if types[i] == "banksman.interaction.closed" && strings.Contains(bodies[i], w.key) {
					ended[w.key] = true
				}
			}
		}
		return len(ended) == 3
	}, patience, 50*time.Millisecond)
}
