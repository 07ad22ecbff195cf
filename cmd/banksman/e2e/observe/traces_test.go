package observe

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/hitltest/collector"
	"github.com/banksman/banksman/pkg/trace"
)

// inEnv switches traces on for every service of a team.
func inEnv(to string) []string {
	return []string{
		"BANKSMAN_GATEWAY_TRACES=" + to, "BANKSMAN_AGENT_TRACES=" + to, "BANKSMAN_NOTIFIER_TRACES=" + to,
		"OTEL_BSP_SCHEDULE_DELAY=100",
	}
}

// One trace from an agent's ask to the run of its tool, over four processes, and nothing
// in it of what the tool is given and what people write. A receiver over OTLP says so.
func TestOneTraceFromAskToRun(t *testing.T) {
	t.Parallel()
	otlp := collector.New(t)
	tm := newTeam(t, append(inEnv("env"), "OTEL_EXPORTER_OTLP_ENDPOINT="+otlp.URL, "OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20letmein")...)
	heard := make(chan string, 64)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		heard <- r.Header.Get("Traceparent")
	}))
	t.Cleanup(receiver.Close)
	h := &hook{Server: receiver}
	g := tm.gateway()
	tm.notifier(h.config(t))
	tm.agent()
	g.shows(`banksman_workers{state="reachable"}`, 1)
	code, body := g.call("POST", "/api/sessions", map[string]any{"runtime": "demo", "prompt": "go " + secret})
	require.Equal(t, http.StatusOK, code, body)
	ix := g.waiting(1)[0]
	told := <-heard
	const words = "because-I-say-so"
	code, body = g.call("POST", "/api/interactions/"+ix.ID+"/decision", map[string]any{"decision": "allow", "digest": ix.Digest, "message": words})
	require.Equal(t, http.StatusOK, code, body)
	next := g.waiting(1)[0] // the tool has run, and the demo asks again
	require.NotEqual(t, ix.ID, next.ID)

	all := otlp.Wait(t, patience, "ask", "intake", "notify", "decide", "close", "deliver", "run")
	ask := all["ask"]
	require.Empty(t, ask.Parent, "the demo has no caller with a trace")
	for name, parent := range map[string]collector.Span{
		"intake": ask, "notify": ask, "decide": ask, "close": all["decide"], "deliver": all["decide"], "run": all["deliver"],
	} {
		require.Equal(t, ask.Trace, all[name].Trace, name)
		require.Equal(t, parent.ID, all[name].Parent, name)
		require.Equal(t, ix.ID, all[name].Attributes["banksman.interaction.id"], name)
		require.False(t, all[name].Failed, name)
	}
	require.Equal(t, map[string]string{
		"ask": "banksman-agent", "intake": "banksman-gateway", "decide": "banksman-gateway", "notify": "banksman-notifier", "run": "banksman-agent",
	}, map[string]string{
		"ask": ask.Service, "intake": all["intake"].Service, "decide": all["decide"].Service, "notify": all["notify"].Service, "run": all["run"].Service,
	})
	require.Equal(t, tracev1.Span_SPAN_KIND_PRODUCER, ask.Kind)
	require.Equal(t, tracev1.Span_SPAN_KIND_CONSUMER, all["intake"].Kind)
	require.Equal(t, "approval", ask.Attributes["banksman.kind"])
	require.Equal(t, "Bash", ask.Attributes["gen_ai.tool.name"])
	require.Equal(t, "allowed", ask.Attributes["banksman.outcome"])
	require.Equal(t, "web", all["decide"].Attributes["banksman.channel"])
	require.Equal(t, "applied", all["deliver"].Attributes["banksman.stage"])
	require.Equal(t, "webhook", all["notify"].Attributes["banksman.channel"])
	require.Contains(t, told, ask.Trace, "a webhook can go on with it")
	require.Contains(t, told, all["notify"].ID)
	for _, auth := range otlp.Auth() {
		require.Equal(t, "Bearer letmein", auth)
	}
	raw := string(otlp.Raw())
	for _, private := range []string{"git status", "Show changed files", words, secret, ix.Title, "Ada", "letmein"} {
		require.NotContains(t, raw, private)
	}
}

// The trace holds when the gateway that took a request in is gone before the decision,
// and when the asker is another process by then: what counts is stored.
func TestATraceOutlivesGatewayAndAsker(t *testing.T) {
	t.Parallel()
	otlp := collector.New(t)
	tm := newTeam(t, inEnv(otlp.URL)...)
	g := tm.gateway()
	const first, second = "4bf92f3577b34da6a3ce929d0e0e4736", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	asking := func(id string) *process {
		env := append(tm.env, "TRACEPARENT=00-"+id+"-00f067aa0ba902b7-01")
		return start(t, env, "banksman", "ask", "--data", tm.data, "--key", "k", "--tool", "Bash", "--input", `{"command":"`+secret+`"}`, "--title", "Run")
	}
	lost := asking(first)
	g.waiting(1)
	lost.kill()
	g.kill()
	g = tm.gateway()
	again := asking(second)
	again.line("Waiting for a decision \\(asked again\\)")
	g.decide(g.waiting(1)[0], "allow")
	<-again.done
	require.Zero(t, again.cmd.ProcessState.ExitCode())
	all := otlp.Wait(t, patience, "decide", "close")
	require.Equal(t, first, all["decide"].Trace)
	require.Equal(t, "00f067aa0ba902b7", all["decide"].Parent)
	require.Equal(t, all["decide"].ID, all["close"].Parent)
	require.NotContains(t, string(otlp.Raw()), secret)
}

// Who is not sampled sends nothing, in no process, and hands that on.
func TestAnUnsampledTraceIsNotExported(t *testing.T) {
	t.Parallel()
	otlp := collector.New(t)
	tm := newTeam(t, inEnv(otlp.URL)...)
	g := tm.gateway()
	for i, flags := range []string{"00", "01"} {
		at := trace.Parse("00-4bf92f3577b34da6a3ce929d0e0e473"+string(rune('a'+i))+"-00f067aa0ba902b7-"+flags, "")
		c := tm.client("owner-cli.json")
		got := make(chan *bus.Answer, 1)
		go func() {
			a, err := c.Ask(at.In(t.Context()), request("k"+flags))
			if err != nil {
				a = nil
			}
			got <- a
		}()
		g.decide(g.waiting(1)[0], "deny")
		require.Equal(t, hitl.Denied, (<-got).Decision.Outcome)
	}
	otlp.Wait(t, patience, "decide", "close")
	for _, s := range otlp.Spans() {
		require.Equal(t, "4bf92f3577b34da6a3ce929d0e0e473b", s.Trace, s.Name)
	}
}

// A receiver that is not there, and one that never answers, hold nobody up: it is said
// once, and everything else works.
func TestADeadReceiverOfTracesHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	for name, to := range map[string]string{"gone": "http://127.0.0.1:1", "silent": "http://" + silent.Addr().String()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tm := newTeam(t, inEnv(to)...)
			g := tm.gateway()
			c := tm.client("owner-cli.json")
			for _, key := range []string{"k1", "k2", "k3"} {
				got := make(chan *bus.Answer, 1)
				go func() {
					a, err := c.Ask(trace.Parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "").In(t.Context()), request(key))
					if err != nil {
						a = nil
					}
					got <- a
				}()
				g.decide(g.waiting(1)[0], "allow")
				require.Equal(t, hitl.Allowed, (<-got).Decision.Outcome)
			}
			g.line("traces cannot be sent")
			require.NoError(t, g.cmd.Process.Signal(os.Interrupt))
			<-g.done
			require.Zero(t, g.cmd.ProcessState.ExitCode(), "its end does not wait for them")
			said := 0
			for _, l := range g.lines {
				if strings.Contains(l, "traces cannot be sent") {
					said++
				}
			}
			require.Equal(t, 1, said)
		})
	}
}

// banksman up does the same in one process.
func TestTracesOfTheWholeInOneProcess(t *testing.T) {
	t.Parallel()
	otlp := collector.New(t)
	dir := t.TempDir()
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "OTEL_BSP_SCHEDULE_DELAY=100", "OTEL_SERVICE_NAME=mine"}
	token := filepath.Join(dir, "token")
	p := start(t, env, "banksman", "up", "--listen", "127.0.0.1:0", "--data", filepath.Join(dir, "data"), "--demo", "--test-login", token, "--traces", otlp.URL)
	at := p.line(`(http://127\.0\.0\.1:\d+)/`)[1]
	raw, err := os.ReadFile(token)
	require.NoError(t, err)
	g := &gateway{part: &part{process: p}, url: at, token: strings.TrimSpace(string(raw))}
	g.decide(g.waiting(1)[0], "allow")
	all := otlp.Wait(t, patience, "ask", "intake", "decide", "close", "deliver", "run")
	for name, s := range all {
		require.Equal(t, all["ask"].Trace, s.Trace, name)
		require.Equal(t, "mine", s.Service, "as OpenTelemetry's own variable has it")
	}
}

// What cannot be meant ends the start, by its name and without what it holds.
func TestWrongSettingsOfTracesAreRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, c := range []struct{ to, env, want string }{
		{"http://ada:swordfish@127.0.0.1:4318", "", "-traces"},
		{"grpc://127.0.0.1:4317", "", "-traces"},
		{"env", "", "OTEL_EXPORTER_OTLP_ENDPOINT"},
		{"http://127.0.0.1:4318", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "OTEL_EXPORTER_OTLP_PROTOCOL"},
		{"http://127.0.0.1:4318", "OTEL_EXPORTER_OTLP_HEADERS=swordfish", "OTEL_EXPORTER_OTLP_HEADERS"},
		{"http://127.0.0.1:4318", "OTEL_TRACES_EXPORTER=console", "OTEL_TRACES_EXPORTER"},
	} {
		p := start(t, []string{"HOME=" + dir, c.env}, "banksman", "up", "--listen", "127.0.0.1:0", "--data", filepath.Join(dir, "data"), "--traces", c.to)
		<-p.done
		require.NotZero(t, p.cmd.ProcessState.ExitCode())
		out, err := json.Marshal(p.lines)
		require.NoError(t, err)
		require.Contains(t, string(out), c.want)
		require.NotContains(t, string(out), secret)
	}
}
