package requirements

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	fence   = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	span    = regexp.MustCompile("`[^`\n]*`")
	heading = regexp.MustCompile(`(?m)^#+ +(.+?) *$`)
	noSlug  = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// anchors are the fragments of a page's headings, as the hosting sites make them.
func anchors(text string) map[string]bool {
	out := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		name := link.ReplaceAllString(strings.ReplaceAll(m[1], "[", ""), "")
		out[strings.ReplaceAll(noSlug.ReplaceAllString(strings.ToLower(name), ""), " ", "-")] = true
	}
	return out
}

// Each link of a page within the project leads to a file that is there, and to a
// heading that it has.
func TestPagesLinkToWhatIsThere(t *testing.T) {
	var pages []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || d.Name() == "dist" || d.Name() == "testdata" || len(d.Name()) > 2 && d.Name()[0] == '.'):
			return filepath.SkipDir
		case strings.HasSuffix(path, ".md") && d.Name() != "THIRD_PARTY.md":
			pages = append(pages, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	links := 0
	for _, page := range pages {
		raw, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(span.ReplaceAllString(fence.ReplaceAllString(string(raw), ""), ""), -1) {
			target, fragment, _ := strings.Cut(m[1], "#")
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			links++
			file := page
			if target != "" {
				file = filepath.Join(filepath.Dir(page), target)
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s: %s leads nowhere", page, m[1])
				continue
			}
			if fragment == "" {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !anchors(string(text))[fragment] {
				t.Errorf("%s: %s has no heading #%s", page, m[1], fragment)
			}
		}
	}
	if links < 200 {
		t.Errorf("read %d links only", links)
	}
}
