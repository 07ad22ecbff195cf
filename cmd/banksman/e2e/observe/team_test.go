package observe

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
)

const (
	patience = 60 * time.Second // bounds every wait for something that must happen
	tick     = 20 * time.Millisecond
)

// process is a started program whose output is kept.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended

	mu    sync.Mutex
	lines []string
}

// start runs a program until the test ends or kill is called.
func start(t *testing.T, env []string, name string, args ...string) *process {
	t.Helper()
	if !filepath.IsAbs(name) {
		name = filepath.Join(bin, name)
	}
	p := &process{t: t, cmd: exec.Command(name, args...), done: make(chan struct{})}
	p.cmd.Env = env
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	r, w := io.Pipe()
	p.cmd.Stdout, p.cmd.Stderr = w, w
	require.NoError(t, p.cmd.Start())
	read := make(chan struct{})
	go func() {
		defer close(read)
		s := bufio.NewScanner(r)
		s.Buffer(nil, 8<<20)
		for s.Scan() {
			p.mu.Lock()
			p.lines = append(p.lines, s.Text())
			p.mu.Unlock()
		}
		_, _ = io.Copy(io.Discard, r)
	}()
	go func() {
		_ = p.cmd.Wait() // the state is in cmd.ProcessState
		_ = w.Close()
		<-read
		close(p.done)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() && filepath.Base(name) != "nats-server" {
			t.Logf("output of %s:\n%s", name, strings.Join(p.lines, "\n"))
		}
	})
	return p
}

// line waits for a line of output that matches and returns its submatches.
func (p *process) line(re string) []string {
	p.t.Helper()
	rx := regexp.MustCompile(re)
	var m []string
	require.Eventually(p.t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, l := range p.lines {
			if m = rx.FindStringSubmatch(l); m != nil {
				return true
			}
		}
		return false
	}, patience, tick, "no line like %s", re)
	return m
}

func (p *process) kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // gone is fine
	<-p.done
}

// part is a service with its status.
type part struct {
	*process
	status string // address
}

func service(t *testing.T, env []string, name string, args ...string) *part {
	t.Helper()
	p := start(t, env, name, append(args, "--status", "127.0.0.1:0", "--log", "info")...)
	return &part{p, "http://" + p.line(`status is served.*[ "]addr"?[=:]"?([0-9.:]+)`)[1]}
}

// get reads a page of the status.
func (p *part) get(path string) (int, string) {
	p.t.Helper()
	res, err := http.Get(p.status + path)
	require.NoError(p.t, err)
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	require.NoError(p.t, err)
	return res.StatusCode, string(raw)
}

// scrape reads the metrics: value by name with labels, as they are written.
func (p *part) scrape() map[string]float64 {
	p.t.Helper()
	code, text := p.get("/metrics")
	require.Equal(p.t, http.StatusOK, code, text)
	out := map[string]float64{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		v, err := strconv.ParseFloat(line[at+1:], 64)
		require.NoError(p.t, err, line)
		out[line[:at]] = v
	}
	return out
}

// shows waits until a metric has a value.
func (p *part) shows(name string, want float64) {
	p.t.Helper()
	var got map[string]float64
	require.Eventually(p.t, func() bool {
		got = p.scrape()
		v, ok := got[name]
		return ok && v == want
	}, patience, tick, "%s is not %v", name, want)
}

// team is the product as processes.
type team struct {
	t    *testing.T
	env  []string
	data string // of banksman creds
	nats *process
	port int
	more []string // environment of the services
}

func newTeam(t *testing.T, more ...string) *team {
	t.Helper()
	dir := t.TempDir()
	tm := &team{t: t, data: filepath.Join(dir, "data"), port: freePort(t), more: more}
	tm.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
	out, code := tm.run("creds", "--data", tm.data, "--port", fmt.Sprint(tm.port))
	require.Zero(t, code, out)
	tm.startNATS()
	require.Eventually(t, func() bool {
		out, code = tm.run("creds", "--data", tm.data, "--provision")
		return code == 0
	}, patience, 100*time.Millisecond, out)
	return tm
}

func (tm *team) startNATS() {
	tm.nats = start(tm.t, tm.env, "nats-server", "-c", filepath.Join(tm.data, "nats", "server.conf"))
	tm.nats.line("Server is ready")
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

// run is the command line.
func (tm *team) run(args ...string) (out string, code int) {
	tm.t.Helper()
	cmd := exec.Command(filepath.Join(bin, "banksman"), args...)
	cmd.Env = tm.env
	var b bytes.Buffer
	cmd.Stdout, cmd.Stderr = &b, &b
	late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	_ = cmd.Run() // the code says it
	return b.String(), cmd.ProcessState.ExitCode()
}

func (tm *team) creds(name string) string { return filepath.Join(tm.data, "creds", name) }

// gateway is one with a person who signed in.
type gateway struct {
	*part
	url, token string
}

func (tm *team) gateway(args ...string) *gateway {
	tm.t.Helper()
	file := filepath.Join(tm.t.TempDir(), "token")
	p := service(tm.t, append(tm.env, tm.more...), "banksman-gateway", append([]string{
		"--creds", tm.creds("gateway.json"), "--listen", "127.0.0.1:0", "--test-login", file,
	}, args...)...)
	g := &gateway{part: p, url: "http://" + p.line(`msg"?[=:]"?serving\W.*[ "]addr"?[=:]"?([0-9.:]+)`)[1]}
	require.Eventually(tm.t, func() bool {
		code, _ := p.get("/readyz")
		return code == http.StatusOK
	}, patience, tick)
	raw, err := os.ReadFile(file)
	require.NoError(tm.t, err)
	g.token = strings.TrimSpace(string(raw))
	return g
}

func (tm *team) notifier(config string) *part {
	tm.t.Helper()
	return service(tm.t, append(tm.env, tm.more...), "banksman-notifier", "--creds", tm.creds("notifier.json"), "--config", config, "--base-url", "https://banksman.example")
}

func (tm *team) agent() *part {
	tm.t.Helper()
	return service(tm.t, append(tm.env, tm.more...), "banksman-agent", "--creds", tm.creds("owner-agents.json"), "--data", filepath.Join(tm.t.TempDir(), "worker"))
}

func (tm *team) client(name string) *bus.Client {
	tm.t.Helper()
	cred, err := bus.LoadCredentials(tm.creds(name))
	require.NoError(tm.t, err)
	c, err := bus.Connect(tm.t.Context(), cred, bus.Options{})
	require.NoError(tm.t, err)
	tm.t.Cleanup(c.Close)
	return c
}

// call is a call of the gateway by the person.
func (g *gateway) call(method, path string, body any) (int, string) {
	g.t.Helper()
	raw, err := json.Marshal(body)
	require.NoError(g.t, err)
	req, err := http.NewRequestWithContext(g.t.Context(), method, g.url+path, bytes.NewReader(raw))
	require.NoError(g.t, err)
	req.Header.Set("Authorization", "Bearer "+g.token)
	res, err := http.DefaultClient.Do(req)
	require.NoError(g.t, err)
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	require.NoError(g.t, err)
	return res.StatusCode, string(text)
}

// waiting waits until so many wait for people.
func (g *gateway) waiting(n int) []wire.Interaction {
	g.t.Helper()
	var l wire.ListReply
	require.Eventually(g.t, func() bool {
		code, body := g.call("GET", "/api/interactions", nil)
		l = wire.ListReply{}
		return code == http.StatusOK && json.Unmarshal([]byte(body), &l) == nil && len(l.Interactions) == n
	}, patience, tick)
	return l.Interactions
}

func (g *gateway) decide(ix wire.Interaction, decision string) {
	g.t.Helper()
	code, body := g.call("POST", "/api/interactions/"+ix.ID+"/decision", map[string]any{"decision": decision, "digest": ix.Digest})
	require.Equal(g.t, http.StatusOK, code, body)
}

// secret stands in the tool input of every request here, and nowhere else.
const secret = "swordfish"

func request(key string) *hitl.Request {
	return &hitl.Request{
		Key: key, Kind: hitl.KindApproval, SessionID: "session-" + key, Title: "Run make test", ToolCallID: "call-" + key,
		Tool: &hitl.Tool{Name: "Bash", Input: json.RawMessage(`{"command":"make test ` + secret + `"}`)},
	}
}

// ask asks in the background and hands over the answer, nil where there is none.
func ask(t *testing.T, c *bus.Client, r *hitl.Request) <-chan *bus.Answer {
	t.Helper()
	got := make(chan *bus.Answer, 1)
	go func() {
		a, err := c.Ask(t.Context(), r)
		if err != nil {
			a = nil
		}
		got <- a
	}()
	return got
}

// hook is a receiver of webhooks that can refuse.
type hook struct {
	*httptest.Server
	status atomic.Int64
	got    atomic.Int64
}

func newHook(t *testing.T) *hook {
	t.Helper()
	h := &hook{}
	h.status.Store(http.StatusNoContent)
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		h.got.Add(1)
		w.WriteHeader(int(h.status.Load()))
	}))
	t.Cleanup(h.Close)
	return h
}

// config is the notifier's, with this receiver told at once.
func (h *hook) config(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "notify.json")
	raw := fmt.Sprintf(`{"channels":[{"name":"ada","type":"webhook","url":%q,"after":"0s","reminder":false,"allow_private":true,
		"secrets":["whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="]}]}`, h.URL)
	require.NoError(t, os.WriteFile(file, []byte(raw), 0o600))
	return file
}
