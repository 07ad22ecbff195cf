package observe

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/banksman/banksman/pkg/hitl"
)

// prometheus is a real one that reads the services by the configuration in deploy/.
type prometheus struct {
	t     *testing.T
	url   string
	began time.Time
}

func startPrometheus(t *testing.T, services ...*part) *prometheus {
	t.Helper()
	dir := filepath.Join(root, "deploy", "prometheus")
	raw, err := os.ReadFile(filepath.Join(dir, "prometheus.yml"))
	require.NoError(t, err)
	var config map[string]any
	require.NoError(t, yaml.Unmarshal(raw, &config))
	// It looks often, and its targets have addresses in place of Docker's names.
	config["global"] = map[string]any{"scrape_interval": "500ms", "evaluation_interval": "500ms"}
	config["rule_files"] = []string{filepath.Join(dir, "alerts.yml")}
	var targets []string
	for _, s := range services {
		targets = append(targets, strings.TrimPrefix(s.status, "http://"))
	}
	jobs := config["scrape_configs"].([]any)
	require.Len(t, jobs, 1)
	job := jobs[0].(map[string]any)
	delete(job, "dns_sd_configs")
	job["static_configs"] = []any{map[string]any{"targets": targets}}
	raw, err = yaml.Marshal(config)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "prometheus.yml")
	require.NoError(t, os.WriteFile(file, raw, 0o600))
	p := &prometheus{t: t, url: fmt.Sprint("http://127.0.0.1:", freePort(t)), began: time.Now()}
	start(t, nil, filepath.Join(root, ".cache", "prometheus", "prometheus"), "--config.file="+file,
		"--storage.tsdb.path="+t.TempDir(), "--web.listen-address="+strings.TrimPrefix(p.url, "http://")).
		line("Server is ready to receive web requests")
	return p
}

func (p *prometheus) get(path string, into any) {
	p.t.Helper()
	res, err := http.Get(p.url + path)
	require.NoError(p.t, err)
	defer func() { _ = res.Body.Close() }()
	var reply struct {
		Status, Error string
		Data          json.RawMessage
	}
	require.NoError(p.t, json.NewDecoder(res.Body).Decode(&reply))
	require.Equal(p.t, "success", reply.Status, "%s: %s", path, reply.Error)
	require.NoError(p.t, json.Unmarshal(reply.Data, into))
}

// drawn is what a panel would draw of a query since the start: how many points that are
// numbers, and the largest.
func (p *prometheus) drawn(query string) (points int, most float64) {
	p.t.Helper()
	now := time.Now()
	var data struct {
		Result []struct{ Values [][2]any }
	}
	p.get("/api/v1/query_range?"+url.Values{
		"query": {query}, "step": {"1"},
		"start": {strconv.FormatInt(p.began.Unix(), 10)}, "end": {strconv.FormatInt(now.Unix()+1, 10)},
	}.Encode(), &data)
	for _, series := range data.Result {
		for _, v := range series.Values {
			if f, err := strconv.ParseFloat(v[1].(string), 64); err == nil && !math.IsNaN(f) {
				points++
				most = max(most, f)
			}
		}
	}
	return points, most
}

// sees waits until there is more than nothing to draw.
func (p *prometheus) sees(query string) {
	p.t.Helper()
	require.Eventually(p.t, func() bool {
		_, most := p.drawn(query)
		return most > 0
	}, patience, 100*time.Millisecond, query)
}

// rules are the alerts as Prometheus has them: state by name. None has an error.
func (p *prometheus) rules() map[string]string {
	p.t.Helper()
	var data struct {
		Groups []struct {
			Rules []struct{ Name, State, Health, LastError string }
		}
	}
	p.get("/api/v1/rules", &data)
	out := map[string]string{}
	for _, g := range data.Groups {
		for _, r := range g.Rules {
			require.NotEqual(p.t, "err", r.Health, "%s: %s", r.Name, r.LastError)
			out[r.Name] = r.State
		}
	}
	return out
}

// bound is what makes a value an alert.
var bound = regexp.MustCompile(` (>|<|==) [\d.e]+`)

// level is what an alert watches, without its bound: it has a value in good times, too.
func level(expr string) string { return bound.ReplaceAllString(expr, "") }

// quiet are panels whose lines lie at zero when all is well, and here: what they show is
// hard to bring about, and other tests do (a disk that fails, a reader that is slow, a
// message that comes again, a clock that is wrong, an approval that was used before). They have their line.
var quiet = []string{
	"Failed writes: {{stream}}", "Slow readers cut: cut", "Redelivered: {{consumer}}", "Clock offset: {{instance}}",
	"Bytes waiting for readers: {{instance}}", "What became of decisions: claim {{result}}",
}

// lost are panels that have something to show when a part is gone.
var lost = []string{"Consumer lag: {{consumer}}", "Workers silent: "}

// Every query of the dashboard and of the alerts is put to a real Prometheus that reads
// running services, while people, agents and receivers do what there is to see, mistakes
// included. Each has something to draw, and more than zero but for those named above.
func TestDashboardAndAlertsOnARealPrometheus(t *testing.T) {
	t.Parallel()
	tm := newTeam(t)
	hook := newHook(t)
	g, n, w := tm.gateway("--quota-open", "2"), tm.notifier(hook.config(t)), tm.agent()
	p := startPrometheus(t, g.part, n, w)
	queries := panels(t)
	for name, expr := range alerts(t) {
		queries["alert "+name] = level(expr)
		require.NotEqual(t, expr, level(expr), "%s has a bound", name)
	}
	for _, name := range slices.Concat(quiet, lost) {
		require.Contains(t, queries, name)
	}
	// A rate needs two looks: every series was seen before anything happens.
	require.Eventually(t, func() bool {
		points, _ := p.drawn(`sum(banksman_requests_admitted_total) and sum(banksman_notifier_untold_total) and sum(banksman_agent_asks_open)`)
		return points >= 2
	}, patience, 100*time.Millisecond)

	conn, _, err := websocket.Dial(t.Context(), g.url+"/api/ws", nil) // somebody's page
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.CloseNow() })
	stream, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.url+"/api/events", nil)
	require.NoError(t, err)
	stream.Header.Set("Authorization", "Bearer "+g.token)
	res, err := http.DefaultClient.Do(stream)
	require.NoError(t, err)
	t.Cleanup(func() { _ = res.Body.Close() })
	require.Equal(t, http.StatusOK, res.StatusCode)
	c := tm.client("owner-cli.json")
	got := ask(t, c, request("k1"))
	ix := g.waiting(1)[0]
	ask(t, c, request("k2"))
	g.waiting(2)
	require.Equal(t, hitl.InvalidIX, (<-ask(t, c, request("k3"))).Decision.Outcome, "over the quota")
	code, _ := g.call("POST", "/api/interactions/"+ix.ID+"/decision", map[string]any{"decision": "allow", "digest": hitl.Digest([]byte("another"))})
	require.Equal(t, http.StatusBadRequest, code)
	g.decide(ix, "allow")
	require.Equal(t, hitl.Allowed, (<-got).Decision.Outcome)
	var body string
	require.Eventually(t, func() bool { // until the worker's first heartbeat is in
		code, body = g.call("POST", "/api/sessions", map[string]any{"runtime": "demo", "prompt": "go"})
		return code == http.StatusOK
	}, patience, tick, "%s", body)
	for _, one := range g.waiting(2) {
		if one.SessionID != "session-k2" {
			g.decide(one, "allow")
		}
	}
	w.shows(`banksman_agent_receipts_total{stage="applied"}`, 1)
	hook.status.Store(http.StatusInternalServerError)
	ask(t, c, request("k4"))
	n.shows(`banksman_notifier_channels{channel="webhook",state="failing"}`, 1)
	p.sees(queries["Nobody told: planned"]) // it is tried again
	hook.status.Store(http.StatusGone)
	n.shows(`banksman_notifier_channels{channel="webhook",state="gone"}`, 1)
	for _, one := range g.waiting(3) {
		if one.SessionID == "session-k2" {
			g.decide(one, "deny") // makes room
		}
	}
	ask(t, c, request("k5"))
	n.shows(`banksman_notifier_untold_total`, 1)
	tm.nats.kill() // everybody connects again
	g.shows(`banksman_ready{part="gateway"}`, 0)
	tm.startNATS()
	g.shows(`banksman_ready{part="gateway"}`, 1)

	// What has happened is told, by those that wait for nothing.
	require.Eventually(t, func() bool {
		state := p.rules()
		return state["BanksmanChannelGone"] == "firing" && state["BanksmanNobodyTold"] == "firing"
	}, patience, 100*time.Millisecond)
	require.Len(t, p.rules(), len(alerts(t)))
	look := func(gone bool) {
		t.Helper()
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			for name, query := range queries {
				if slices.Contains(lost, name) != gone {
					continue
				}
				points, most := p.drawn(query)
				assert.Positive(c, points, "%s: %s", name, query)
				if !slices.Contains(quiet, name) && !strings.HasPrefix(name, "alert ") {
					assert.Positive(c, most, "%s: %s", name, query)
				}
			}
		}, patience, time.Second)
	}
	look(false)
	n.kill() // what comes now waits for it
	w.kill()
	ask(t, c, request("k6")) // refused or not, it is told
	look(true)
}
