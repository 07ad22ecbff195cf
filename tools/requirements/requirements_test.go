// Package requirements holds docs/requirements.md, and whatever other page names
// tests as proof, to what the tests are called.
package requirements

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

var (
	row     = regexp.MustCompile(`^\| (invariant \d+|[A-D]\d?-\d\d) \| .+ \| (.+) \|$`)
	goTest  = regexp.MustCompile("^[a-z/0-9]+: `(Test\\w+)`(?:, \"(.+)\")?$")
	named   = regexp.MustCompile("`((?:Test|Fuzz)\\w+)`")
	webTest = regexp.MustCompile(`^(web|browser): "(.+)"$`)
)

// sources are all test files as one text each for Go, and by kind for the web
// app: its own tests and those in a browser.
func sources(t *testing.T) (goText string, webTexts map[string]string) {
	var g, w, inBrowser strings.Builder
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && (name == "node_modules" || name == "dist" || len(name) > 2 && name[0] == '.') {
			return filepath.SkipDir
		}
		var b *strings.Builder
		switch {
		case d.IsDir():
			return nil
		case strings.HasSuffix(name, "_test.go"), strings.HasSuffix(path, "hitltest/conformance.go"):
			b = &g
		case strings.HasSuffix(name, ".test.ts"), strings.HasSuffix(name, ".test.tsx"):
			b = &w
		case strings.HasSuffix(name, ".spec.ts"):
			b = &inBrowser
		default:
			return nil
		}
		raw, err := os.ReadFile(path)
		b.Write(raw)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return g.String(), map[string]string{"web": w.String(), "browser": inBrowser.String()}
}

// names reports whether a test's name carries an id, in any of its spellings.
func names(name, id string) bool {
	spelling := strings.NewReplacer("-", "[-_]?", " ", " ?").Replace(id)
	return regexp.MustCompile(spelling + `(\D|$)`).MatchString(name)
}

// Each test that the table names exists and carries the id of its row, and a
// row without a test says why.
func TestTableNamesTests(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(root, "docs", "requirements.md"))
	if err != nil {
		t.Fatal(err)
	}
	goText, webTexts := sources(t)
	rows := 0
	for line := range strings.Lines(string(raw)) {
		m := row.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		rows++
		id := m[1]
		for proof := range strings.SplitSeq(strings.ReplaceAll(m[2], `\|`, "|"), "<br>") {
			if g := goTest.FindStringSubmatch(proof); g != nil {
				if !strings.Contains(goText, "func "+g[1]+"(") {
					t.Errorf("%s: there is no test %s", id, g[1])
				}
				if g[2] != "" && !strings.Contains(goText, `"`+g[2]) {
					t.Errorf("%s: %s has no row %q", id, g[1], g[2])
				}
				if !names(g[1]+" "+g[2], id) {
					t.Errorf("%s: the name of %s does not carry it", id, proof)
				}
			} else if w := webTest.FindStringSubmatch(proof); w != nil {
				if !strings.Contains(webTexts[w[1]], w[2]) || !names(w[2], id) {
					t.Errorf("%s: no %s test is called %q", id, w[1], w[2])
				}
			} else if strings.Contains(proof, "`Test") && !strings.Contains(proof, "open") {
				t.Errorf("%s: cannot read %q", id, proof)
			}
		}
	}
	if rows < 230 {
		t.Errorf("read %d rows only", rows)
	}
}

// A page that names a test as proof names one that exists; and the threat model
// proves each "cannot", or says that nothing does.
func TestPagesNameTests(t *testing.T) {
	goText, _ := sources(t)
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	decisions, err := filepath.Glob(filepath.Join(root, "docs", "adr", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	security := filepath.Join(root, "SECURITY.md")
	for _, page := range append(append(pages, decisions...), security) {
		raw, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range named.FindAllStringSubmatch(string(raw), -1) {
			if !strings.Contains(goText, "func "+m[1]+"(") {
				t.Errorf("%s: there is no test %s", page, m[1])
			}
		}
		if page == security {
			proved(t, string(raw))
		}
	}
}

// proved reads the tables of the threat model: "| cannot | shown by |".
func proved(t *testing.T, text string) {
	rows, inside := 0, false
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 4 {
			inside = false
			continue
		}
		if strings.TrimSpace(cells[1]) == "cannot" {
			inside = true
			continue
		}
		if !inside || strings.HasPrefix(cells[1], "---") {
			continue
		}
		rows++
		if !named.MatchString(cells[2]) && !strings.Contains(cells[2], "not shown") {
			t.Errorf("SECURITY.md: nothing shows that they cannot%s", cells[1])
		}
	}
	if rows < 60 {
		t.Errorf("read %d rows of the threat model only", rows)
	}
}
