package observe

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/hitltest/collector"
	"github.com/banksman/banksman/pkg/trace"
)

// logged waits for a line of the log, as JSON, with this message.
func (p *process) logged(msg string) map[string]any {
	p.t.Helper()
	var out map[string]any
	require.Eventually(p.t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, l := range p.lines {
			out = nil
			if strings.Contains(l, msg) && json.Unmarshal([]byte(l), &out) == nil && out["msg"] == msg {
				return true
			}
		}
		return false
	}, patience, tick, "nothing was logged as %q", msg)
	return out
}

// From a line of a service's log one finds the trace, and the span in it: a request
// that is refused, a message that is not sent, a decision, and what became of it.
func TestALogLineLeadsToItsTrace(t *testing.T) {
	t.Parallel()
	otlp := collector.New(t)
	json := []string{"BANKSMAN_GATEWAY_LOG_FORMAT=json", "BANKSMAN_AGENT_LOG_FORMAT=json", "BANKSMAN_NOTIFIER_LOG_FORMAT=json"}
	tm := newTeam(t, append(inEnv(otlp.URL), json...)...)
	hook := newHook(t)
	hook.status.Store(http.StatusInternalServerError)
	g := tm.gateway("--quota-open", "1")
	n, w := tm.notifier(hook.config(t)), tm.agent()
	g.shows(`banksman_workers{state="reachable"}`, 1)
	require.NotContains(t, g.logged("serving"), "trace_id", "the start is in nobody's trace")

	code, body := g.call("POST", "/api/sessions", map[string]any{"runtime": "demo", "prompt": "go"})
	require.Equal(t, http.StatusOK, code, body)
	ix := g.waiting(1)[0]
	failed := n.logged("not sent yet, trying again")
	g.decide(ix, "allow")
	all := otlp.Wait(t, patience, "ask", "intake", "notify", "decide", "deliver")
	for name, c := range map[string]struct {
		line map[string]any
		span collector.Span
	}{
		"gateway":  {g.logged("decided"), all["decide"]},
		"notifier": {failed, all["notify"]},
		"agent":    {w.logged("settled"), all["deliver"]},
	} {
		require.Equal(t, all["ask"].Trace, c.line["trace_id"], name)
		require.Equal(t, c.span.ID, c.line["span_id"], name)
		require.Contains(t, c.line["interaction"], ix.ID, name)
	}

	// What a program asks within a trace of its own.
	const caller = "4bf92f3577b34da6a3ce929d0e0e4736"
	within := trace.Parse("00-"+caller+"-00f067aa0ba902b7-01", "").In(t.Context())
	c := tm.client("owner-cli.json")
	ask(t, c, request("k1"))
	g.waiting(2)
	a, err := c.Ask(within, request("k2"))
	require.NoError(t, err)
	require.Equal(t, hitl.InvalidIX, a.Decision.Outcome)
	refused := g.logged("refused a request")
	require.Equal(t, caller, refused["trace_id"])
	require.Equal(t, 16, len(refused["span_id"].(string)))
	require.NotEqual(t, "00f067aa0ba902b7", refused["span_id"], "it is the gateway's span")
}
