// Package guide holds the code of docs/interactive-tools.md to the tests that
// run it.
package guide

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

var (
	block = regexp.MustCompile("(?ms)^```(\\w+)(?: (\\S+))?\n(.*?)^```$")
	path  = regexp.MustCompile("`((?:pkg|services|cmd)/[\\w./-]+)`")
)

// flat is a text whose lines have no indentation: a block of the guide may stand
// deeper in its file.
func flat(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		b.WriteString(strings.TrimSpace(line) + "\n")
	}
	return b.String()
}

// Every block of code in the guide stands in the file that it names, and what
// the guide names is there.
func TestGuidesCodeIsWhatTheTestsRun_D0_50(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(root, "docs", "interactive-tools.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := block.FindAllStringSubmatch(string(raw), -1)
	if fences := strings.Count(string(raw), "\n```"); len(blocks) < 10 || fences != 2*len(blocks) {
		t.Fatalf("read %d blocks between %d fences", len(blocks), fences)
	}
	for _, b := range blocks {
		lang, file, code := b[1], b[2], b[3]
		first, _, _ := strings.Cut(code, "\n")
		if file == "" {
			t.Errorf("the %s block that begins with %q names no file", lang, first)
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
		if err != nil {
			t.Error(err)
			continue
		}
		if !strings.HasSuffix(file, "_test.go") && !strings.Contains(file, ".test.ts") {
			t.Errorf("%s is no test", file)
		}
		if !strings.Contains(flat(string(text)), strings.TrimSpace(flat(code))) {
			t.Errorf("%s does not have the block that begins with %q", file, first)
		}
	}
	steps := regexp.MustCompile(`(?m)^\*\*(\d)\. `).FindAllStringSubmatch(string(raw), -1)
	if len(steps) == 0 || len(steps) > 7 {
		t.Errorf("the recipe has %d steps, at most 7 are promised (D2-10)", len(steps))
	}
	planned := map[string]bool{"pkg/hitl/rating.go": true, "pkg/hitl/rating_test.go": true} // the reader writes them
	for _, m := range path.FindAllStringSubmatch(string(raw), -1) {
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(m[1]))); err != nil && !planned[m[1]] {
			t.Errorf("the guide names %s: %v", m[1], err)
		}
	}
}
