package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
)

// inject makes a running process's system calls fail or wait, as strace words
// it, until lift is called. It needs the right to trace the process: root's, or
// a kernel.yama.ptrace_scope of 0.
func (p *process) inject(call, how string) (lift func()) {
	p.t.Helper()
	cmd := exec.Command("strace", "-f", "-e", "trace="+call, "-e", "inject="+call+":"+how, "-o", os.DevNull,
		"-p", strconv.Itoa(p.cmd.Process.Pid))
	said := &attachment{attached: make(chan struct{})}
	cmd.Stderr = said
	require.NoError(p.t, cmd.Start(), "strace is missing: make setup installs it")
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // by its signal
		close(ended)
	}()
	var once sync.Once
	lift = func() {
		once.Do(func() {
			_ = cmd.Process.Signal(os.Interrupt) // it may have ended with the process
			<-ended
		})
	}
	p.t.Cleanup(lift)
	select {
	case <-said.attached:
	case <-ended:
		require.Fail(p.t, "strace did not attach", "%s", said.String())
	case <-time.After(patience):
		require.Fail(p.t, "strace does not attach", "%s", said.String())
	}
	return lift
}

// attachment is strace's standard error; attached is closed when it says so.
type attachment struct {
	mu       sync.Mutex
	text     bytes.Buffer
	done     bool
	attached chan struct{}
}

func (a *attachment) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.text.Write(p)
	if !a.done && strings.Contains(a.text.String(), "attached") {
		a.done = true
		close(a.attached)
	}
	return len(p), nil
}

func (a *attachment) String() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.text.String()
}

// newPair starts a NATS server and one gateway on it.
func newPair(t *testing.T, h *home) (nats *process, gw *instance, token string) {
	t.Helper()
	r := h.run("creds", "--port", strconv.Itoa(freePort(t)))
	require.Zero(t, r.code, r.stderr)
	nats = h.startServer(t)
	h.provisioned()
	gw, token = h.gateway(t)
	return nats, gw, token
}

// provisioned makes the streams, as soon as the server lets it.
func (h *home) provisioned() {
	h.t.Helper()
	var r result
	require.Eventually(h.t, func() bool {
		r = h.run("creds", "--provision")
		return r.code == 0
	}, patience, 100*time.Millisecond, "%s", r.stderr)
}

// gateway starts a gateway and waits until it is ready.
func (h *home) gateway(t *testing.T) (gw *instance, token string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	p := start(t, h.env, "banksman-gateway", "--creds", h.creds("gateway.json"), "--listen",
		"127.0.0.1:"+strconv.Itoa(freePort(t)), "--test-login", file, "--login")
	m := p.line(`(http://127\.0\.0\.1:\d+)/#login=(\S+)`)
	gw = &instance{process: p, home: h, login: m[0], url: m[1]}
	gw.ready()
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	return gw, strings.TrimSpace(string(raw))
}

func (h *home) startServer(t *testing.T) *process {
	t.Helper()
	p := start(t, h.env, "nats-server", "-c", filepath.Join(h.data, "nats", "server.conf"))
	p.line(`Server is ready`)
	return p
}

// ready waits until the gateway says that it is.
func (i *instance) ready() {
	i.t.Helper()
	require.Eventually(i.t, func() bool {
		code, _ := i.call("GET", "/readyz", "", nil)
		return code == 200
	}, patience, 100*time.Millisecond)
}

// waiting waits until this many interactions are open and returns them.
func (i *instance) waiting(token string, n int) []wire.Interaction {
	i.t.Helper()
	var list []wire.Interaction
	require.Eventually(i.t, func() bool {
		code, body := i.call("GET", "/api/interactions?state=pending", token, nil)
		var l wire.ListReply
		if code != 200 || json.Unmarshal([]byte(body), &l) != nil {
			return false
		}
		list = l.Interactions
		return len(list) == n
	}, patience, 50*time.Millisecond)
	return list
}

func (i *instance) decide(token string, ix *wire.Interaction, verb string) (int, string) {
	i.t.Helper()
	return i.call("POST", "/api/interactions/"+ix.Key+"/decision", token, map[string]string{"decision": verb, "digest": ix.Digest})
}

// The server's disk fails in every way that it can while one request waits and
// another is asked. Who decides and who asks are told that the server does not
// write, the gateway is not ready, and nothing is allowed. What was acknowledged
// is there after the server's restart, and is decided once.
func TestADiskThatFails_B48_invariant3_invariant4_invariant7(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]struct{ call, how string }{
		"full":            {"pwrite64", "error=ENOSPC"},
		"read-only":       {"pwrite64", "error=EROFS"},
		"input or output": {"pwrite64", "error=EIO"},
		"flush":           {"fsync", "error=EIO"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			nats, gw, token := newPair(t, h)
			first := h.ask("--tool", "Bash", "--input", `{"command":"make first"}`, "--key", "first")
			ix := gw.waiting(token, 1)[0]

			lift := nats.inject(fault.call, fault.how)
			asked := h.run("ask", "--tool", "Bash", "--input", `{"command":"make second"}`, "--key", "second", "--timeout", "1s")
			require.Equal(t, 3, asked.code, asked.stderr)
			require.Empty(t, asked.stdout)
			require.Contains(t, asked.stderr, "does not write")
			code, body := gw.decide(token, &ix, hitl.VerbAllow)
			require.Equal(t, 503, code, body)
			require.Contains(t, body, "does not write")
			code, body = gw.call("GET", "/readyz", "", nil)
			require.Equal(t, 503, code)
			require.Contains(t, body, "does not write")
			lift()

			// The server stays broken until it is started again. What it did not
			// acknowledge may be stored all the same, above all where only the
			// flush failed: then the same answer is a duplicate.
			require.NoError(t, nats.cmd.Process.Signal(syscall.SIGTERM))
			nats.wait()
			h.startServer(t)
			require.Eventually(t, func() bool {
				code, body = gw.decide(token, &ix, hitl.VerbAllow)
				return code == 200
			}, patience, 100*time.Millisecond)
			require.Zero(t, first.wait(), first.output())
			gw.ready()
			gw.waiting(token, 0) // the second one's time is up, wherever it is
			third := h.ask("--tool", "Bash", "--input", `{"command":"make third"}`)
			ix = gw.waiting(token, 1)[0]
			code, body = gw.decide(token, &ix, hitl.VerbDeny)
			require.Equal(t, 200, code, body)
			require.Equal(t, 1, third.wait(), third.output())
			gw.waiting(token, 0)
		})
	}
}

// Flushes that take seconds delay decisions and lose or double none.
func TestASlowDisk_B48_invariant1_invariant7(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	nats, gw, token := newPair(t, h)
	lift := nats.inject("fsync", "delay_enter=900000") // us: with what waits behind it longer than one try
	ask := h.ask("--tool", "Bash", "--input", `{"command":"make slow"}`)
	ix := gw.waiting(token, 1)[0]
	require.Eventually(t, func() bool {
		code, _ := gw.decide(token, &ix, hitl.VerbAllow)
		return code == 200
	}, patience, 100*time.Millisecond)
	require.Zero(t, ask.wait(), ask.output())
	lift()
	code, body := gw.decide(token, &ix, hitl.VerbDeny)
	require.Equal(t, 409, code, body)
	gw.ready()
}

// A flush that takes longer than a decision may: who decides is told that nobody
// knows, and the same answer counts once the disk is back.
func TestADiskSlowerThanADecision_B48_invariant4_invariant7(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	nats, gw, token := newPair(t, h)
	ask := h.ask("--tool", "Bash", "--input", `{"command":"make slower"}`)
	ix := gw.waiting(token, 1)[0]
	lift := nats.inject("fsync", "delay_enter=30000000") // us: a decision has 10 s
	code, body := gw.decide(token, &ix, hitl.VerbAllow)
	require.Equal(t, 503, code, body)
	require.Contains(t, body, "it is unknown whether it counts, and trying again is safe")
	select {
	case <-ask.done:
		require.Fail(t, "something was allowed on an unknown answer", "%s", ask.output())
	default:
	}
	lift()
	require.Eventually(t, func() bool {
		code, body = gw.decide(token, &ix, hitl.VerbAllow)
		return code == 200
	}, patience, 100*time.Millisecond)
	require.Zero(t, ask.wait(), ask.output())
	code, body = gw.decide(token, &ix, hitl.VerbDeny)
	require.Equal(t, 409, code, body)
	gw.ready()
}

// The all-in-one ends with a word on what to do when its own server cannot
// write, and goes on where it was when it is started again.
func TestUpEndsWhenItCannotWrite_B48_invariant3_invariant4(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	up := h.up()
	first := h.ask("--tool", "Bash", "--input", `{"command":"make first"}`, "--key", "first")
	require.Eventually(t, func() bool { return len(h.pending()) == 1 }, patience, 100*time.Millisecond)
	up.inject("pwrite64", "error=ENOSPC")
	second := h.ask("--tool", "Bash", "--input", `{"command":"make second"}`, "--key", "second", "--timeout", "30s")
	require.Equal(t, 1, up.wait(), up.output())
	require.Contains(t, up.output(), "no space left on device")
	require.Contains(t, up.output(), "make room and start again")

	h.up()
	require.Eventually(t, func() bool { return len(h.pending()) == 2 }, patience, 100*time.Millisecond)
	for _, ix := range h.pending() {
		require.NotEmpty(t, ix.Key)
	}
	first.kill()
	second.kill()
}
