package observe

import (
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
)

var write = flag.Bool("write", false, "write docs/metrics.md anew")

// One question goes its whole way, and every part counts what it did.
func TestMetricsOfARealRun(t *testing.T) {
	t.Parallel()
	tm := newTeam(t)
	hook := newHook(t)
	g, n, w := tm.gateway("--quota-open", "2"), tm.notifier(hook.config(t)), tm.agent()
	waiting := `banksman_pending_interactions{kind="approval",risk="medium",state="waiting"}`
	before := g.scrape()
	require.Zero(t, before["banksman_oldest_pending_age_seconds"])
	require.Zero(t, before[`banksman_decision_latency_seconds_count{outcome="allowed"}`], "a series is there before anything happened")
	require.EqualValues(t, 1, before[`banksman_ready{part="gateway"}`])
	require.EqualValues(t, 1, n.scrape()[`banksman_ready{part="notifier"}`])
	require.EqualValues(t, 1, w.scrape()[`banksman_ready{part="agent"}`])
	g.shows(`banksman_workers{state="reachable"}`, 1)

	// A program asks.
	c := tm.client("owner-cli.json")
	got := ask(t, c, request("k1"))
	ix := g.waiting(1)[0]
	open := 0.0
	for name, v := range g.scrape() {
		if strings.HasPrefix(name, "banksman_pending_interactions{") {
			open += v
		}
	}
	require.EqualValues(t, 1, open)
	waiting = strings.Replace(waiting, "medium", ix.Risk, 1)
	g.shows(waiting, 1)
	require.Positive(t, g.scrape()["banksman_oldest_pending_age_seconds"])
	g.shows(`banksman_requests_admitted_total{kind="approval"}`, 1)
	n.shows(`banksman_notifier_attempts_total{channel="webhook",result="sent"}`, 1)

	// Somebody has the page open.
	conn, _, err := websocket.Dial(t.Context(), g.url+"/api/ws", nil)
	require.NoError(t, err)
	g.shows("banksman_sockets", 1)
	require.NoError(t, conn.CloseNow())
	g.shows("banksman_sockets", 0)

	// The quota refuses a third one.
	got2 := ask(t, c, request("k2"))
	g.waiting(2)
	require.Equal(t, hitl.InvalidIX, (<-ask(t, c, request("k3"))).Decision.Outcome)
	g.shows(`banksman_requests_refused_total{reason="quota.open"}`, 1)
	g.shows(`banksman_decision_latency_seconds_count{outcome="invalid"}`, 1)

	// A wrong digest, then the decision, then another one that comes too late.
	code, _ := g.call("POST", "/api/interactions/"+ix.ID+"/decision", map[string]any{"decision": "allow", "digest": hitl.Digest([]byte("another"))})
	require.Equal(t, http.StatusBadRequest, code)
	g.decide(ix, "allow")
	require.Equal(t, hitl.Allowed, (<-got).Decision.Outcome)
	code, _ = g.call("POST", "/api/interactions/"+ix.ID+"/decision", map[string]any{"decision": "deny", "digest": ix.Digest})
	require.Equal(t, http.StatusConflict, code)
	for name, want := range map[string]float64{
		`banksman_decision_receipts_total{status="digest_mismatch"}`: 1,
		`banksman_decision_receipts_total{status="accepted"}`:        1,
		`banksman_decision_receipts_total{status="already_decided"}`: 1,
		`banksman_decision_latency_seconds_count{outcome="allowed"}`: 1,
		`banksman_decisions_total{by="person"}`:                      1,
		waiting:                                                      1, // the other one
	} {
		g.shows(name, want)
	}
	require.Positive(t, g.scrape()[`banksman_decision_latency_seconds_sum{outcome="allowed"}`])
	require.GreaterOrEqual(t, g.scrape()[`banksman_stores_total{stream="HITL_DECISIONS"}`], 2.0)

	// The receiver fails, and then wants nothing any more.
	hook.status.Store(http.StatusInternalServerError)
	code, body := g.call("POST", "/api/interactions/"+g.waiting(1)[0].ID+"/decision", map[string]any{"decision": "deny", "digest": g.waiting(1)[0].Digest})
	require.Equal(t, http.StatusOK, code, body)
	<-got2
	n.shows(`banksman_notifier_channels{channel="webhook",state="failing"}`, 1)
	require.Positive(t, n.scrape()[`banksman_notifier_attempts_total{channel="webhook",result="failed"}`])
	hook.status.Store(http.StatusGone)
	n.shows(`banksman_notifier_channels{channel="webhook",state="gone"}`, 1)
	ask(t, c, request("k4"))
	n.shows(`banksman_notifier_untold_total`, 1)

	// An agent's session asks, is allowed, and says what became of it.
	g.decide(g.waiting(1)[0], "deny")
	var session string
	require.Eventually(t, func() bool { // until the first heartbeat is in
		code, session = g.call("POST", "/api/sessions", map[string]any{"runtime": "demo", "prompt": "go"})
		return code == http.StatusOK
	}, patience, tick)
	demo := g.waiting(1)[0]
	w.shows(`banksman_agent_asks_open`, 1)
	w.shows(`banksman_agent_sessions`, 1)
	g.decide(demo, "allow")
	w.shows(`banksman_agent_claims_total{result="won"}`, 1)
	w.shows(`banksman_agent_receipts_total{stage="applied"}`, 1)
	w.shows(`banksman_agent_ask_seconds_count{outcome="allowed"}`, 1)

	// A stopped worker is missed, a stopped server is told.
	w.kill()
	g.shows(`banksman_workers{state="unreachable"}`, 1)
	g.shows(`banksman_streams_readable`, 1)
	lag := g.scrape()
	require.Contains(t, lag, `banksman_consumer_lag_messages{consumer="intake",stream="HITL_REQUESTS"}`)
	require.Positive(t, lag[`banksman_stream_bytes{stream="HITL_DECISIONS"}`])
	require.Positive(t, lag[`banksman_stream_limit_bytes{stream="HITL_DECISIONS"}`])
	tm.nats.kill()
	g.shows(`banksman_nats_connected{connection="records",part="gateway"}`, 0)
	g.shows(`banksman_ready{part="gateway"}`, 0)
	g.shows(`banksman_streams_readable`, 0)
	tm.startNATS()
	g.shows(`banksman_ready{part="gateway"}`, 1)
	require.Positive(t, g.scrape()[`banksman_nats_reconnects_total{connection="records",part="gateway"}`])

	// Labels are few and known: nothing of what was asked, and nobody's name.
	for _, p := range []*part{g.part, n} {
		_, text := p.get("/metrics")
		for _, private := range []string{secret, "make test", "session-k1", ix.ID, "owner-cli", `"cli"`, `"agents"`, `"ada"`, `"owner"`, session} {
			require.NotContains(t, text, private)
		}
		require.Less(t, strings.Count(text, "\n"), 1500, "a few hundred series")
	}
}

// What the notifier has not read is seen while no notifier runs.
func TestNotifierLagIsSeen(t *testing.T) {
	t.Parallel()
	tm := newTeam(t)
	g := tm.gateway()
	c := tm.client("owner-cli.json")
	for i := range 3 {
		ask(t, c, request(fmt.Sprint("k", i)))
	}
	g.waiting(3)
	lag := `banksman_consumer_lag_messages{consumer="notifier",stream="HITL_EVENTS"}`
	g.shows(lag, 3) // nobody reads
	tm.notifier(newHook(t).config(t))
	g.shows(lag, 0)
}

var (
	helpLine = regexp.MustCompile(`^# HELP (\S+) (.+)$`)
	typeLine = regexp.MustCompile(`^# TYPE (\S+) (\S+)$`)
	labelSet = regexp.MustCompile(`(\w+)="([^"]*)"`)
	sample   = regexp.MustCompile(`^(\w+)(?:\{(.*)\})? `)
)

// family is what a scrape says of a metric.
type family struct {
	name, kind, help, part string
	labels                 map[string][]string // the values that were seen
}

// families reads the product's own metrics.
func families(part, text string) map[string]*family {
	out := map[string]*family{}
	of := func(name string) *family {
		if !strings.HasPrefix(name, "banksman_") {
			return nil
		}
		if out[name] == nil {
			out[name] = &family{name: name, part: part, labels: map[string][]string{}}
		}
		return out[name]
	}
	var last *family
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if m := helpLine.FindStringSubmatch(line); m != nil {
			if last = of(m[1]); last != nil {
				last.help = m[2]
			}
			continue
		}
		if m := typeLine.FindStringSubmatch(line); m != nil {
			if last != nil {
				last.kind = m[2]
			}
			continue
		}
		m := sample.FindStringSubmatch(line)
		if m == nil || last == nil || !strings.HasPrefix(m[1], last.name) {
			continue
		}
		for _, l := range labelSet.FindAllStringSubmatch(m[2], -1) {
			if l[1] != "le" && !slices.Contains(last.labels[l[1]], l[2]) {
				last.labels[l[1]] = append(last.labels[l[1]], l[2])
			}
		}
	}
	return out
}

// allFamilies are those of every part, in a run, with the values that "up" adds.
func allFamilies(t *testing.T) []*family {
	t.Helper()
	tm := newTeam(t)
	all := map[string]*family{}
	address := fmt.Sprint("127.0.0.1:", freePort(t))
	one := start(t, tm.env, "banksman", "up", "--data", filepath.Join(t.TempDir(), "data"), "--listen", "127.0.0.1:0", "--status", address)
	one.line("Ctrl-C stops it")
	parts := map[string]*part{
		"gateway": tm.gateway().part, "notifier": tm.notifier(newHook(t).config(t)), "agent": tm.agent(),
		"up": {one, "http://" + address},
	}
	for _, name := range slices.Sorted(maps.Keys(parts)) { // "up" is the last: it has what the others have
		code, text := parts[name].get("/metrics")
		require.Equal(t, http.StatusOK, code)
		for key, f := range families(name, text) {
			if have := all[key]; have != nil {
				if name != "up" {
					have.part = "all"
				}
				for l, values := range f.labels {
					have.labels[l] = slices.Compact(slices.Sorted(slices.Values(append(have.labels[l], values...))))
				}
				continue
			}
			all[key] = f
		}
	}
	// A type of channel is a value as soon as somebody configures it. What counts
	// attempts has all of them, and what is no channel besides.
	all["banksman_notifier_channels"].labels["channel"] = slices.DeleteFunc(
		slices.Clone(all["banksman_notifier_attempts_total"].labels["channel"]),
		func(typ string) bool { return typ == "decider" || typ == "other" })
	var out []*family
	for _, f := range all {
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b *family) int { return strings.Compare(a.part+a.name, b.part+b.name) })
	return out
}

const metricsHead = `# Metrics

What ` + "`/metrics`" + ` of the status listener (` + "`-status`" + `) says, for Prometheus. The page is made
from a running gateway, notifier, agent worker and ` + "`banksman up`" + `, and a test holds it to them:
` + "`go test ./cmd/banksman/e2e/observe -run TestMetricsPage -write`" + ` writes it anew.
How to use them is in [observability.md](observability.md).

Labels have only the values below. Ids, names of people, owners or sessions, and what
agents write are never labels. Go's and the process's own figures (` + "`go_*`, `process_*`" + `)
come beside these.
`

// docs/metrics.md has every metric that there is, and no other.
func TestMetricsPage(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString(metricsHead)
	part := ""
	for _, f := range allFamilies(t) {
		require.NotEmpty(t, f.help, f.name)
		require.Equal(t, f.kind == "counter", strings.HasSuffix(f.name, "_total"), "%s: counters end in _total", f.name)
		if f.part != part {
			part = f.part
			title := map[string]string{"all": "Every part", "agent": "Agent worker", "gateway": "Gateway", "notifier": "Notifier", "up": "All in one"}[part]
			fmt.Fprintf(&b, "\n## %s\n\n| metric | type | labels | |\n|---|---|---|---|\n", title)
		}
		var labels []string
		for l, values := range f.labels {
			slices.Sort(values)
			text := strings.Join(values, ", ")
			switch l {
			case "version", "revision", "goversion":
				text = "..."
			}
			labels = append(labels, fmt.Sprintf("`%s`: %s", l, text))
		}
		slices.Sort(labels)
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.name, f.kind, strings.Join(labels, "; "), f.help)
	}
	file := filepath.Join(root, "docs", "metrics.md")
	if *write {
		require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o644))
		return
	}
	page, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, b.String(), string(page), "write the page anew, see its head")
}
