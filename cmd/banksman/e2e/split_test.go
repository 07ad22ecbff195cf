package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/wire"
)

// freePort returns a port that was free a moment ago.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// team is the product as separate processes on a NATS server of its own.
type team struct {
	home     *home
	nats     *process
	gateways []*instance
	workers  []*process
	tokens   []string
}

func (h *home) creds(name string) string { return filepath.Join(h.data, "creds", name) }

func newTeam(t *testing.T, h *home) *team {
	t.Helper()
	port := freePort(t)
	r := h.run("creds", "--port", strconv.Itoa(port))
	require.Zero(t, r.code, r.stderr)
	tm := &team{home: h}
	tm.startNATS(t)
	require.Eventually(t, func() bool {
		r = h.run("creds", "--provision")
		return r.code == 0
	}, patience, 100*time.Millisecond, "%s", r.stderr)
	for i := range 2 {
		file := filepath.Join(t.TempDir(), "token")
		addr := fmt.Sprintf("127.0.0.1:%d", freePort(t))
		p := start(t, h.env, "banksman-gateway", "--creds", h.creds("gateway.json"), "--listen", addr, "--test-login", file, "--login", "--cwd", h.work)
		m := p.line(`(http://127\.0\.0\.1:\d+)/#login=(\S+)`)
		tm.gateways = append(tm.gateways, &instance{process: p, home: h, login: m[0], url: m[1]})
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		tm.tokens = append(tm.tokens, strings.TrimSpace(string(raw)))
		tm.worker(t, fmt.Sprint("w", i))
	}
	return tm
}

func (tm *team) startNATS(t *testing.T) {
	t.Helper()
	tm.nats = start(t, tm.home.env, "nats-server", "-c", filepath.Join(tm.home.data, "nats", "server.conf"))
	tm.nats.line(`Server is ready`)
}

func (tm *team) worker(t *testing.T, name string) {
	t.Helper()
	tm.workers = append(tm.workers, start(t, tm.home.env, "banksman-agent",
		"--creds", tm.home.creds("owner-agents.json"), "--data", filepath.Join(tm.home.data, name)))
}

// receiver is a real webhook receiver that checks signatures on its own.
type receiver struct {
	*httptest.Server
	secret []byte
	mu     sync.Mutex
	types  []string
	bodies []string
	bad    []string
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{secret: []byte("0123456789abcdef0123456789abcdef")}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		raw, err := io.ReadAll(q.Body)
		r.mu.Lock()
		defer r.mu.Unlock()
		mac := hmac.New(sha256.New, r.secret)
		fmt.Fprintf(mac, "%s.%s.%s", q.Header.Get("webhook-id"), q.Header.Get("webhook-timestamp"), raw)
		want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
		if err != nil || q.Header.Get("webhook-signature") != want {
			r.bad = append(r.bad, string(raw))
		}
		var ev struct{ Type string }
		_ = json.Unmarshal(raw, &ev)
		r.types, r.bodies = append(r.types, ev.Type), append(r.bodies, string(raw))
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(r.Close)
	return r
}

// config writes a notifier configuration with this receiver.
func (r *receiver) config(t *testing.T, after time.Duration) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "notify.json")
	raw, err := json.Marshal(map[string]any{"channels": []any{map[string]any{
		"name": "hook", "type": "webhook", "url": r.URL, "after": after.String(), "allow_private": true, "reminder": false,
		"secrets": []string{"whsec_" + base64.StdEncoding.EncodeToString(r.secret)},
	}}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, raw, 0o600))
	return file
}

func (r *receiver) got() (types, bodies []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.types...), append([]string(nil), r.bodies...)
}

func (i *instance) list(token string) []wire.Interaction {
	i.t.Helper()
	code, body := i.call("GET", "/api/interactions", token, nil)
	require.Equal(i.t, 200, code, body)
	var l wire.ListReply
	require.NoError(i.t, json.Unmarshal([]byte(body), &l))
	return l.Interactions
}

// Two gateways and two workers of one owner, each a process, on a NATS server
// of its own: what is asked through one is answered through the other, and
// nothing is lost when any of them is killed.
func TestSeparateProcesses_B48_B50(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	tm := newTeam(t, h)
	hook := newReceiver(t)
	start(t, h.env, "banksman-notifier", "--creds", h.creds("notifier.json"), "--config", hook.config(t, 0), "--base-url", "https://banksman.example")
	one, two := tm.gateways[0], tm.gateways[1]

	// Sessions start through one gateway and are claimed by a worker each.
	sessions := map[string]bool{}
	for range 4 {
		var code int
		var body string
		require.Eventually(t, func() bool { // until the first heartbeat is in
			code, body = one.call("POST", "/api/sessions", tm.tokens[0], map[string]any{"runtime": "demo", "prompt": "go"})
			return code == 200
		}, patience, 50*time.Millisecond)
		var r struct {
			SessionID string `json:"session_id"`
		}
		require.NoError(t, json.Unmarshal([]byte(body), &r))
		sessions[r.SessionID] = true
	}
	require.Len(t, sessions, 4)
	require.Eventually(t, func() bool { // it may still load what is open
		code, _ := two.call("GET", "/readyz", "", nil)
		return code == 200
	}, patience, 50*time.Millisecond)
	require.Eventually(t, func() bool { return len(two.list(tm.tokens[1])) == 4 }, patience, 50*time.Millisecond)
	// The other gateway shows and decides them; the agents go on.
	p := newBrowser(t).open(two.login)
	first := one.list(tm.tokens[0])[0]
	p.see(testID("card-" + first.ID))
	p.approve(first.ID)
	require.Eventually(t, func() bool {
		code, body := one.call("GET", "/api/interactions/"+first.ID, tm.tokens[0], nil)
		return code == 200 && strings.Contains(body, `"stage":"applied"`)
	}, patience, 50*time.Millisecond, "the person learns that the agent acted on it")

	// A program asks; a gateway, the server and the workers are killed and come
	// back; the answer still reaches the asker.
	asker := h.ask("--tool", "Bash", "--input", `{"command":"make release"}`, "--title", "Release", "--key", "r1")
	var ask wire.Interaction
	find := func(in *instance, token string) bool {
		for _, ix := range in.list(token) {
			if ix.Owner == "cli" {
				ask = ix
				return true
			}
		}
		return false
	}
	require.Eventually(t, func() bool { return find(one, tm.tokens[0]) }, patience, 50*time.Millisecond)
	// The notifier tells of it while it waits.
	require.Eventually(t, func() bool {
		types, bodies := hook.got()
		for i := range types {
			if types[i] == "banksman.interaction.opened" && strings.Contains(bodies[i], ask.ID) {
				return true
			}
		}
		return false
	}, patience, 50*time.Millisecond)
	one.kill()
	tm.nats.kill()
	for _, w := range tm.workers {
		w.kill()
	}
	tm.startNATS(t)
	tm.worker(t, "w0")
	tm.worker(t, "w1")
	before := ask
	require.Eventually(t, func() bool {
		code, _ := two.call("GET", "/readyz", "", nil)
		return code == 200 && find(two, tm.tokens[1])
	}, patience, 50*time.Millisecond)
	require.Equal(t, before.ID, ask.ID)
	require.Equal(t, before.ExpiresAt, ask.ExpiresAt)
	require.Eventually(t, func() bool {
		code, _ := two.call("POST", "/api/interactions/"+ask.ID+"/decision", tm.tokens[1], map[string]any{"decision": "allow", "digest": ask.Digest})
		return code == 200
	}, patience, 50*time.Millisecond)
	require.Zero(t, asker.wait())
	asker.line(`"outcome":"allowed"`)

	// With a good signature, and without the input.
	_, bodies := hook.got()
	for _, b := range bodies {
		require.NotContains(t, b, "make release")
		require.Contains(t, b, "https://banksman.example/")
	}
	hook.mu.Lock()
	require.Empty(t, hook.bad, "every signature holds")
	hook.mu.Unlock()
}

func TestNotifierIsSilentOnceDecided_B68(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	hook := newReceiver(t)
	in, _, token := h.upWithLogin("--notify", hook.config(t, 2*time.Second))
	// The first is decided before its alert is due, the second is not.
	first := h.ask("--tool", "Bash", "--input", `{"command":"one"}`, "--title", "First")
	ix := h.waiting(1)[0]
	code, body := in.call("POST", "/api/interactions/"+ix.ID+"/decision", token, map[string]any{"decision": "deny", "digest": ix.Digest})
	require.Equal(t, 200, code, body)
	require.Equal(t, 1, first.wait())
	h.ask("--tool", "Bash", "--input", `{"command":"two"}`, "--title", "Second")
	second := h.waiting(1)[0]
	require.Eventually(t, func() bool {
		_, bodies := hook.got()
		return len(bodies) == 1
	}, patience, 20*time.Millisecond)
	_, bodies := hook.got()
	require.Contains(t, bodies[0], second.ID, "the later one is due after the first would have been")
	require.NotContains(t, bodies[0], ix.ID)

	// The alert's link leads to the one request, before and after its decision.
	var ev struct{ Data struct{ Link string } }
	require.NoError(t, json.Unmarshal([]byte(bodies[0]), &ev))
	require.True(t, strings.HasPrefix(ev.Data.Link, in.url+"/"), ev.Data.Link)
	b := newBrowser(t)
	b.open(in.login).see(testID("inbox"))
	p := b.open(ev.Data.Link)
	p.click(within(second.ID, "deny"))
	p.reads(testID("receipt-"+second.ID), "Denied by you")
	p.reload()
	p.reads(testID("receipt-"+second.ID), "Denied by")
	b.open(in.url+"/#/i/default.cli.nobody").reads(testID("one"), "no such request")
}

// The all-in-one on a NATS server that runs elsewhere.
func TestUpOnAnOutsideServer(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	port := freePort(t)
	url := fmt.Sprintf("nats://127.0.0.1:%d", port)
	// Without credentials it says what to do.
	r := h.run("up", "--listen", "127.0.0.1:0", "--nats", url)
	require.Equal(t, 1, r.code)
	require.Contains(t, r.stderr, "banksman creds")
	require.Zero(t, h.run("creds", "--port", strconv.Itoa(port)).code)
	tm := &team{home: h}
	tm.startNATS(t)
	in := h.up("--nats", url)
	asker := h.ask("--tool", "Bash", "--input", `{"command":"make"}`, "--title", "Make")
	p := newBrowser(t).open(in.login)
	id := p.card("make")
	p.click(within(id, "deny"))
	require.Equal(t, 1, asker.wait())
	in.interrupt()
	require.Zero(t, in.cmd.ProcessState.ExitCode(), in.output())
}

func TestASecondUpOnTheSameDataIsRefused(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.up()
	r := h.run("up", "--listen", "127.0.0.1:0")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.stderr, "in use")
	// And one whose web address is taken, before anything else is touched.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	other := newHome(t)
	r = other.run("up", "--listen", l.Addr().String())
	require.Equal(t, 1, r.code)
	require.Contains(t, r.stderr, "--listen")
}
