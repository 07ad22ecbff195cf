package observe

import (
	"net/http"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// says waits until /readyz answers with a code and a text.
func (p *part) says(code int, text string) {
	p.t.Helper()
	got, body := 0, ""
	require.Eventually(p.t, func() bool {
		got, body = p.get("/readyz")
		return got == code && strings.Contains(body, text)
	}, patience, tick, "%d %q", code, text)
	live, _ := p.get("/healthz")
	require.Equal(p.t, http.StatusOK, live, "who is not ready lives all the same")
}

// /readyz of each part turns when what it needs is not there, says what, and turns
// back. A wrong clock is in the engine's own tests.
func TestReadinessTellsTheTruth(t *testing.T) {
	t.Parallel()
	tm := newTeam(t)
	g, n, w := tm.gateway(), tm.notifier(newHook(t).config(t)), tm.agent()
	all := []*part{g.part, n, w}
	ready := func() {
		t.Helper()
		for _, p := range all {
			p.says(http.StatusOK, "ok")
		}
	}
	ready()

	// The bus.
	tm.nats.kill()
	g.says(http.StatusServiceUnavailable, "not connected to NATS")
	n.says(http.StatusServiceUnavailable, "NATS server cannot be reached")
	w.says(http.StatusServiceUnavailable, "NATS server cannot be reached")
	tm.startNATS()
	ready()

	// A write that finds no room, and one that does.
	var was int64
	tm.alter("HITL_DECISIONS", func(c *jetstream.StreamConfig) { was, c.MaxBytes = c.MaxBytes, 100 })
	ask(t, tm.client("owner-cli.json"), request("k1"))
	ix := g.waiting(1)[0]
	decide := func() int {
		code, _ := g.call("POST", "/api/interactions/"+ix.ID+"/decision", map[string]any{"decision": "deny", "digest": ix.Digest})
		return code
	}
	require.Equal(t, http.StatusServiceUnavailable, decide())
	g.says(http.StatusServiceUnavailable, "HITL_DECISIONS")
	require.Positive(t, g.scrape()[`banksman_store_errors_total{stream="HITL_DECISIONS"}`])
	tm.alter("HITL_DECISIONS", func(c *jetstream.StreamConfig) { c.MaxBytes = was })
	require.Equal(t, http.StatusOK, decide())
	g.says(http.StatusOK, "ok")

	// Consumers, and then a whole stream, that somebody deleted.
	js := tm.provisioner()
	require.NoError(t, js.DeleteConsumer(t.Context(), "HITL_REQUESTS", "intake"))
	require.NoError(t, js.DeleteConsumer(t.Context(), "HITL_EVENTS", "notifier"))
	g.says(http.StatusServiceUnavailable, "consumer is not there")
	n.says(http.StatusServiceUnavailable, "events cannot be read")
	out, code := tm.run("creds", "--data", tm.data, "--provision")
	require.Zero(t, code, out)
	ready()
	require.NoError(t, js.DeleteStream(t.Context(), "HITL_REQUESTS"))
	g.says(http.StatusServiceUnavailable, "a stream or its consumer is not there")
	// Without its log a gateway ends, and does not start again until there is one.
	require.NoError(t, js.DeleteStream(t.Context(), "HITL_EVENTS"))
	n.says(http.StatusServiceUnavailable, "events cannot be read")
	g.line("HITL_EVENTS is gone")
	<-g.done
}
