// Command limits fails when a Go or TypeScript file, or the shipped part of a
// Go package, has outgrown the size at which it still holds one idea. Generated
// code, bundles and other people's code are not counted. Run it at the root of
// the work tree.
package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
)

const (
	maxFile    = 600  // lines, tests included
	maxPackage = 1800 // lines, tests apart
)

// skipDirs hold nothing that is written by hand here.
var skipDirs = []string{"node_modules", "dist", "testdata", "vendor", "bin"}

var generated = regexp.MustCompile(`(?m)^(//|/\*) ?Code generated .* DO NOT EDIT\.( \*/)?\r?$`)

func main() {
	bad, files, err := check(os.DirFS("."))
	if err != nil {
		fmt.Fprintln(os.Stderr, "limits:", err)
		os.Exit(1)
	}
	for _, b := range bad {
		fmt.Fprintln(os.Stderr, "limits:", b)
	}
	if len(bad) > 0 {
		os.Exit(1)
	}
	fmt.Printf("limits: %d files under %d lines, each package under %d\n", files, maxFile, maxPackage)
}

// check walks the tree and returns a sentence for each breach, sorted, and the
// number of files it counted.
func check(tree fs.FS) (bad []string, files int, err error) {
	packages := map[string]int{}
	err = fs.WalkDir(tree, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if p != "." && (strings.HasPrefix(d.Name(), ".") || slices.Contains(skipDirs, d.Name())) {
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() || !slices.Contains([]string{".go", ".ts", ".tsx", ".mts"}, path.Ext(p)) {
			return nil
		}
		raw, err := fs.ReadFile(tree, p)
		if err != nil {
			return err
		}
		if generated.Match(raw) {
			return nil
		}
		n := lines(raw)
		files++
		if n > maxFile {
			bad = append(bad, fmt.Sprintf("%s has %d lines, over %d", p, n, maxFile))
		}
		if strings.HasSuffix(p, ".go") && !strings.HasSuffix(p, "_test.go") {
			packages[path.Dir(p)] += n
		}
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	for dir, n := range packages {
		if n > maxPackage {
			bad = append(bad, fmt.Sprintf("package %s has %d lines without its tests, over %d", dir, n, maxPackage))
		}
	}
	slices.Sort(bad)
	return bad, files, nil
}

func lines(raw []byte) int {
	n := bytes.Count(raw, []byte("\n"))
	if len(raw) > 0 && raw[len(raw)-1] != '\n' {
		n++
	}
	return n
}
