package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const goodGo = `{"Action":"start","Package":"github.com/banksman/banksman/pkg/hitl"}
{"Action":"run","Package":"github.com/banksman/banksman/pkg/hitl","Test":"TestA"}
{"Action":"run","Package":"github.com/banksman/banksman/pkg/hitl","Test":"TestA/sub"}
{"Action":"pass","Package":"github.com/banksman/banksman/pkg/hitl","Test":"TestA/sub","Elapsed":0}
{"Action":"pass","Package":"github.com/banksman/banksman/pkg/hitl","Test":"TestA","Elapsed":0}
{"Action":"pass","Package":"github.com/banksman/banksman/pkg/hitl","Elapsed":0.1}
{"Action":"skip","Package":"github.com/banksman/banksman/pkg/empty","Elapsed":0}
`

const skipGo = `{"Action":"run","Package":"github.com/banksman/banksman/pkg/hitl","Test":"TestS"}
{"Action":"output","Package":"github.com/banksman/banksman/pkg/hitl","Test":"TestS","Output":"=== RUN   TestS\n"}
{"Action":"output","Package":"github.com/banksman/banksman/pkg/hitl","Test":"TestS","Output":"    a_test.go:7: no such hardware\n"}
{"Action":"output","Package":"github.com/banksman/banksman/pkg/hitl","Test":"TestS","Output":"--- SKIP: TestS (0.00s)\n"}
{"Action":"skip","Package":"github.com/banksman/banksman/pkg/hitl","Test":"TestS","Elapsed":0}
`

const goodVitest = `{"testResults":[{"name":"/x/src/card.test.tsx","status":"passed","message":"","assertionResults":[{"fullName":"card shows text","status":"passed"}]}]}`

// record lays out a run's directory and returns what the summary says of it.
func record(t *testing.T, allow string, strict bool, files map[string]string) (string, bool) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	allowFile := filepath.Join(dir, "allow.txt")
	if err := os.WriteFile(allowFile, []byte(allow), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	ok, err := run(&out, dir, allowFile, strict)
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), ok
}

func wantAll(t *testing.T, out string, wants ...string) {
	t.Helper()
	for _, w := range wants {
		if !strings.Contains(out, w) {
			t.Errorf("missing %q in:\n%s", w, out)
		}
	}
}

func lastLine(out string) string {
	out = strings.TrimRight(out, "\n")
	return out[strings.LastIndex(out, "\n")+1:]
}

func TestSummaryOfAGoodRun(t *testing.T) {
	out, ok := record(t, "# nothing\n\n", true, map[string]string{
		"stages.tsv": "lint\tstep\t0\t9\nweb\tvitest\t0\t5\ngo\tgotest\t0\t60\n",
		"go.json":    goodGo,
		"go.log":     "ok\n\x1b[32mDONE\x1b[0m 2 tests in 60.000s\n",
		"web.json":   goodVitest,
		"web.log":    " \x1b[2m Test Files \x1b[22m 1 passed (1)\n      Tests  1 passed (1)\n   Duration  1s\n",
	})
	if !ok {
		t.Errorf("a good run was refused:\n%s", out)
	}
	wantAll(t, out, "\nDONE 2 tests in 60.000s\n", "Test Files  1 passed (1)\n", "Tests  1 passed (1)\n")
	if got := lastLine(out); got != "3 passed, 0 failed, 0 skipped" {
		t.Errorf("last line %q", got)
	}
	if strings.Contains(out, "SKIPPED") {
		t.Error("a package without tests is not a skipped test")
	}
}

func TestSummaryRefusals(t *testing.T) {
	e2eSkip := strings.ReplaceAll(skipGo, "pkg/hitl", "cmd/banksman/e2e")
	for _, c := range []struct {
		name, allow string
		strict      bool
		files       map[string]string
		want        []string
		last        string
	}{
		{
			name:  "a skip that is not listed",
			files: map[string]string{"stages.tsv": "go\tgotest\t0\t1\n", "go.json": goodGo + skipGo},
			want:  []string{"SKIPPED  go: pkg/hitl.TestS (a_test.go:7: no such hardware); not on the list"},
			last:  "2 passed, 0 failed, 1 skipped",
		},
		{
			name: "an end-to-end skip, listed or not", allow: "cmd/banksman/e2e.TestS\tfor a reason\n",
			files: map[string]string{"stages.tsv": "e2e\tgotest\t0\t1\n", "e2e.json": goodGo + e2eSkip},
			want:  []string{"cmd/banksman/e2e.TestS (a_test.go:7: no such hardware); an end-to-end test is never skipped"},
			last:  "2 passed, 0 failed, 1 skipped",
		},
		{
			name: "a skip in the web suite",
			files: map[string]string{"stages.tsv": "web\tvitest\t0\t1\n", "web.json": `{"testResults":[{"name":"/x/a.test.ts","status":"passed","assertionResults":[
				{"fullName":"one","status":"passed"},{"fullName":"two","status":"todo"}]}]}`},
			want: []string{"SKIPPED  web: a.test.ts: two (todo); not on the list"},
			last: "1 passed, 0 failed, 1 skipped",
		},
		{
			name:  "a failed test",
			files: map[string]string{"stages.tsv": "go\tgotest\t1\t1\n", "go.json": goodGo + `{"Action":"fail","Package":"p/q","Test":"TestF"}` + "\n" + `{"Action":"fail","Package":"p/q"}`},
			want:  []string{"FAILED   go: p/q.TestF\n"},
			last:  "2 passed, 1 failed, 0 skipped",
		},
		{
			name:  "a package that does not build",
			files: map[string]string{"stages.tsv": "go\tgotest\t1\t1\n", "go.json": `{"ImportPath":"p/q","Action":"build-fail"}` + "\n" + goodGo + `{"Action":"fail","Package":"p/q","FailedBuild":"p/q"}`},
			want:  []string{"FAILED   go: p/q (the package failed outside its tests)"},
			last:  "2 passed, 1 failed, 0 skipped",
		},
		{
			name:  "a test that never ended",
			files: map[string]string{"stages.tsv": "go\tgotest\t1\t1\n", "go.json": goodGo + `{"Action":"run","Package":"p/q","Test":"TestH"}` + "\n" + `{"Action":"fail","Package":"p/q"}`},
			want:  []string{"FAILED   go: p/q.TestH (began and never ended)"},
			last:  "2 passed, 1 failed, 0 skipped",
		},
		{
			name:  "a failed web test and a file that does not load",
			files: map[string]string{"stages.tsv": "web\tvitest\t1\t1\n", "web.json": `{"testResults":[{"name":"/x/a.test.ts","status":"failed","assertionResults":[{"fullName":"one","status":"failed"}]},{"name":"/x/b.test.ts","status":"failed","message":"cannot find module\nmore"}]}`},
			want:  []string{"FAILED   web: a.test.ts: one\n", "FAILED   web: b.test.ts (cannot find module)"},
			last:  "0 passed, 2 failed, 0 skipped",
		},
		{
			name:  "a suite that executed nothing",
			files: map[string]string{"stages.tsv": "go\tgotest\t0\t1\nweb\tvitest\t0\t1\n", "go.json": goodGo, "web.json": `{"testResults":[]}`},
			want:  []string{"FAILED   stage web: no test was executed"},
			last:  "2 passed, 1 failed, 0 skipped",
		},
		{
			name:  "nothing executed at all",
			files: map[string]string{"stages.tsv": "lint\tstep\t0\t1\n"},
			want:  []string{"FAILED   nothing was executed"},
			last:  "0 passed, 0 failed, 0 skipped",
		},
		{
			name:  "a runner that failed without a failed test",
			files: map[string]string{"stages.tsv": "web\tvitest\t2\t1\n", "web.json": goodVitest},
			want:  []string{"FAILED   stage web: exit code 2"},
			last:  "1 passed, 1 failed, 0 skipped",
		},
		{
			name:  "a failed step",
			files: map[string]string{"stages.tsv": "go\tgotest\t0\t1\nclean\tstep\t1\t0\n", "go.json": goodGo},
			want:  []string{"FAILED   stage clean: exit code 1"},
			last:  "2 passed, 1 failed, 0 skipped",
		},
		{
			name:  "a record that was never written",
			files: map[string]string{"stages.tsv": "go\tgotest\t0\t1\n"},
			want:  []string{"FAILED   stage go: no record"},
			last:  "0 passed, 1 failed, 0 skipped",
		},
		{
			name:  "a record that is cut",
			files: map[string]string{"stages.tsv": "go\tgotest\t0\t1\n", "go.json": goodGo + `{"Action":`},
			want:  []string{"FAILED   stage go: unreadable record"},
			last:  "0 passed, 1 failed, 0 skipped",
		},
		{
			name: "an absent suite, when strict", strict: true,
			files: map[string]string{"stages.tsv": "go\tgotest\t0\t1\ne2e\tgotest\t-1\t0\n", "go.json": goodGo},
			want:  []string{"FAILED   stage e2e: the suite is not in the tree"},
			last:  "2 passed, 1 failed, 0 skipped",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, ok := record(t, c.allow, c.strict, c.files)
			if ok {
				t.Errorf("accepted:\n%s", out)
			}
			wantAll(t, out, c.want...)
			if got := lastLine(out); got != c.last {
				t.Errorf("last line %q, want %q", got, c.last)
			}
		})
	}
}

func TestSummaryAllowsListedSkipsAndAbsentSuites(t *testing.T) {
	out, ok := record(t, "pkg/hitl.TestS\tneeds a device\nold.Test\tgone\n", false, map[string]string{
		"stages.tsv": "go\tgotest\t0\t1\ne2e\tgotest\t-1\t0\n", "go.json": goodGo + skipGo,
	})
	if !ok {
		t.Errorf("refused:\n%s", out)
	}
	wantAll(t, out, "no such hardware); allowed: needs a device", "note     allowed skip old.Test was not used", "absent", "2 passed, 0 failed, 1 skipped")
}

const playwright = `{"suites":[{"title":"a.spec.ts","file":"a.spec.ts","specs":[
	{"title":"one D0-01","tests":[{"status":"expected"}]},
	{"title":"two","tests":[{"status":"flaky"}]}],
	"suites":[{"title":"group","file":"a.spec.ts","specs":[{"title":"three","tests":[{"status":"%s","annotations":[{"type":"fixme","description":"later"}]}]}]}]}],"errors":[%s]}`

func TestSummaryOfBrowserTests(t *testing.T) {
	stages := "browser\tplaywright\t%d\t9\n"
	out, ok := record(t, "", true, map[string]string{
		"stages.tsv": fmt.Sprintf(stages, 0), "browser.json": fmt.Sprintf(playwright, "expected", ""), "browser.log": "  1 flaky\n    [x] two\n  2 passed (1.2m)\n",
	})
	if !ok {
		t.Errorf("refused:\n%s", out)
	}
	wantAll(t, out, "  1 flaky", "  2 passed (1.2m)", "3 passed, 0 failed, 0 skipped")

	for _, c := range []struct{ status, errors, want string }{
		{"unexpected", "", "FAILED   browser: a.spec.ts: group: three"},
		{"skipped", "", "SKIPPED  browser: a.spec.ts: group: three (later); an end-to-end test is never skipped"},
		{"expected", `{"message":"the product does not build\nmore"}`, "FAILED   browser: outside of the tests (the product does not build)"},
	} {
		out, ok := record(t, "", true, map[string]string{
			"stages.tsv": fmt.Sprintf(stages, 1), "browser.json": fmt.Sprintf(playwright, c.status, c.errors),
		})
		if ok {
			t.Errorf("accepted:\n%s", out)
		}
		wantAll(t, out, c.want)
	}
	if _, ok := record(t, "", true, map[string]string{"stages.tsv": fmt.Sprintf(stages, 0), "browser.json": `{"suites":[]}`}); ok {
		t.Error("a run without a test was accepted")
	}
	if _, ok := record(t, "", true, map[string]string{"stages.tsv": fmt.Sprintf(stages, 0), "browser.json": `{}`}); ok {
		t.Error("a record without suites was accepted")
	}
}

func TestAllowedSkipNeedsAReason(t *testing.T) {
	path := filepath.Join(t.TempDir(), "allow.txt")
	for _, text := range []string{"pkg/x.TestA\n", "pkg/x.TestA\t \n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readAllowed(path); err == nil || !strings.Contains(err.Error(), ":1:") {
			t.Errorf("%q: got error %v, want one that names the line", text, err)
		}
	}
	if _, err := readAllowed(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a missing list was taken for an empty one")
	}
}

func TestStagesThatCannotBeRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stages.tsv")
	for _, text := range []string{"", "go\tgotest\t0\n", "go\tgotest\tx\t1\n", "go\tgotest\t0\tx\n", "go\tjunit\t0\t1\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := readStages(path); err == nil {
			t.Errorf("%q: accepted as %+v", text, got)
		}
	}
}
