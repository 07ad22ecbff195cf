package observe

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

func promtool(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command(filepath.Join(root, ".cache", "prometheus", "promtool"), args...)
	cmd.Dir = filepath.Join(root, "deploy", "prometheus")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s\n%s", args, out)
	return string(out)
}

// Every alert fires when it should and is silent when all is well: alerts_test.yml
// has both for each.
func TestAlertsFireWhenTheyShould(t *testing.T) {
	t.Parallel()
	promtool(t, "check", "config", "prometheus.yml")
	promtool(t, "check", "rules", "--lint-fatal", "alerts.yml")
	promtool(t, "test", "rules", "alerts_test.yml")
	tests, err := os.ReadFile(filepath.Join(root, "deploy", "prometheus", "alerts_test.yml"))
	require.NoError(t, err)
	for name := range alerts(t) {
		silent := "alertname: " + name + "}"
		fires := "alertname: " + name + "\n        exp_alerts:\n          - exp_labels:"
		require.Contains(t, string(tests), silent, "no test that it is silent")
		require.Contains(t, string(tests), fires, "no test that it fires")
	}
}

// alerts are the rules' expressions by name.
func alerts(t *testing.T) map[string]string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, "deploy", "prometheus", "alerts.yml"))
	require.NoError(t, err)
	var file struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	require.NoError(t, yaml.Unmarshal(raw, &file))
	out := map[string]string{}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			out[r.Alert] = r.Expr
		}
	}
	require.GreaterOrEqual(t, len(out), 9)
	return out
}

// panels are the dashboard's expressions by title.
func panels(t *testing.T) map[string]string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, "deploy", "grafana", "dashboard.json"))
	require.NoError(t, err)
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	require.NoError(t, json.Unmarshal(raw, &board))
	out := map[string]string{}
	for _, p := range board.Panels {
		for _, q := range p.Targets {
			out[p.Title+": "+q.LegendFormat] = q.Expr
		}
	}
	require.GreaterOrEqual(t, len(out), 20)
	return out
}

var (
	pageRow  = regexp.MustCompile("^\\| `(banksman_\\w+)` \\| (\\w+) \\| (.*?) \\| [^|]+ \\|$")
	pageWord = regexp.MustCompile("`(\\w+)`: ([^;]*)")
	selector = regexp.MustCompile(`(banksman_\w+)(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`(\w+)(=~|!~|!=|=)"([^"]*)"`)
	grouping = regexp.MustCompile(`by \(([^)]*)\)`)
)

// page reads docs/metrics.md, which TestMetricsPage holds to what there is: labels
// and their values by metric.
func page(t *testing.T) map[string]map[string][]string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, "docs", "metrics.md"))
	require.NoError(t, err)
	out := map[string]map[string][]string{}
	for line := range strings.Lines(string(raw)) {
		m := pageRow.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		labels := map[string][]string{}
		for _, w := range pageWord.FindAllStringSubmatch(m[3], -1) {
			labels[w[1]] = strings.Split(w[2], ", ")
		}
		names := []string{m[1]}
		if m[2] == "histogram" {
			names = []string{m[1] + "_bucket", m[1] + "_sum", m[1] + "_count"}
			labels["le"] = nil
		}
		for _, n := range names {
			out[n] = labels
		}
	}
	return out
}

// The rules and the dashboard name only metrics that there are, with labels and
// values that those have.
func TestRulesAndDashboardNameWhatThereIs(t *testing.T) {
	t.Parallel()
	known := page(t)
	require.Greater(t, len(known), 40)
	exprs := alerts(t)
	for title, expr := range panels(t) {
		exprs["dashboard: "+title] = expr
	}
	for where, expr := range exprs {
		require.Empty(t, strangers(known, expr), where)
	}
	// The check itself finds what is wrong.
	for _, bad := range []string{
		`banksman_nothing > 1`, `banksman_ready{part="gatewy"}`, `banksman_ready{role="gateway"}`,
		`max by (colour) (banksman_ready)`, `banksman_stream_bytes{stream=~"HITL_EVENTS|HITL_EVENT"}`,
	} {
		require.NotEmpty(t, strangers(known, bad), bad)
	}
}

// strangers are what an expression names and nothing has.
func strangers(known map[string]map[string][]string, expr string) (out []string) {
	all := []string{"instance", "job"} // every target has them
	for _, m := range selector.FindAllStringSubmatch(expr, -1) {
		labels, ok := known[m[1]]
		if !ok {
			out = append(out, m[1])
			continue
		}
		for l := range labels {
			all = append(all, l)
		}
		for _, w := range matcher.FindAllStringSubmatch(m[2], -1) {
			values, ok := labels[w[1]]
			if !ok {
				out = append(out, m[1]+" "+w[1])
				continue
			}
			for _, one := range strings.Split(w[3], "|") {
				if !slices.Contains(values, one) {
					out = append(out, m[1]+" "+w[1]+" "+one)
				}
			}
		}
	}
	for _, g := range grouping.FindAllStringSubmatch(expr, -1) {
		for _, l := range strings.Split(g[1], ",") {
			if l = strings.TrimSpace(l); !slices.Contains(all, l) {
				out = append(out, "by "+l)
			}
		}
	}
	return out
}
