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

	"github.com/banksman/banksman/pkg/journal"
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

// Grafana has to find everything that it needs in the dashboard: a data source to choose
// and no other one, panels that do not lie on each other, queries with a letter each, and
// units. What they mean stands with each panel.
func TestDashboardIsWhole(t *testing.T) {
	t.Parallel()
	type source struct{ Type, UID string }
	var board struct {
		UID, Title    string
		SchemaVersion int
		Templating    struct {
			List []struct{ Name, Type, Query string }
		}
		Panels []struct {
			ID                       int
			Type, Title, Description string
			Datasource               *source
			GridPos                  struct{ X, Y, W, H int }
			FieldConfig              struct {
				Defaults struct{ Unit string }
			}
			Targets []struct{ RefID, Expr string }
		}
	}
	raw, err := os.ReadFile(filepath.Join(root, "deploy", "grafana", "dashboard.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &board))
	require.NotEmpty(t, board.UID)
	require.NotEmpty(t, board.Title)
	require.Positive(t, board.SchemaVersion)
	require.Len(t, board.Templating.List, 1)
	v := board.Templating.List[0]
	require.Equal(t, [2]string{"datasource", "prometheus"}, [2]string{v.Type, v.Query})
	ids, titles, taken := map[int]bool{}, map[string]bool{}, map[[2]int]string{}
	for _, p := range board.Panels {
		require.False(t, ids[p.ID], "%s: its id is another panel's", p.Title)
		require.False(t, titles[p.Title], "%s: twice", p.Title)
		ids[p.ID], titles[p.Title] = true, true
		require.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, p.Title)
		require.Positive(t, p.GridPos.W*p.GridPos.H, p.Title)
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				require.Empty(t, taken[at], "%s lies on it", p.Title)
				taken[at] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		require.NotEmpty(t, p.Description, p.Title)
		require.Equal(t, &source{"prometheus", "${" + v.Name + "}"}, p.Datasource, p.Title)
		require.True(t, p.FieldConfig.Defaults.Unit != "" || p.Type == "table", "%s has no unit", p.Title)
		letters := map[string]bool{}
		for _, q := range p.Targets {
			require.False(t, q.RefID == "" || letters[q.RefID], "%s: its queries need a letter each", p.Title)
			letters[q.RefID] = true
			require.NotContains(t, q.Expr, "$", "%s: there is no such variable", p.Title)
		}
		require.NotEmpty(t, letters, p.Title)
	}
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

// Whatever refuses when it is full is looked at before, and nothing else, which makes
// room for itself.
func TestEveryStreamThatRefusesIsWatched(t *testing.T) {
	t.Parallel()
	m := regexp.MustCompile(`stream=~"([^"]*)"`).FindStringSubmatch(alerts(t)["BanksmanStreamNearlyFull"])
	require.NotNil(t, m)
	require.ElementsMatch(t, journal.Refusing(), strings.Split(m[1], "|"))
	require.Contains(t, journal.Refusing(), "HITL_MAILBOX")
	require.Contains(t, journal.Refusing(), "KV_hitl_push")
	require.NotContains(t, journal.Refusing(), "KV_hitl_tickets")
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
