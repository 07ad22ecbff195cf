package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const page = "docs/dependencies.md"

// manifests of npm packages; one that is not there has no dependencies.
var npmManifests = []string{"services/gateway/web/package.json", "services/gateway/web/e2e/package.json", "tools/claude/package.json"}

var row = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|")

// undocumented returns a sentence for each direct dependency, of the module
// directories and the npm manifests, that has no row on the page.
func undocumented(goDirs []string) ([]string, error) {
	raw, err := os.ReadFile(page)
	if err != nil {
		return nil, err
	}
	var known []string
	for _, m := range row.FindAllStringSubmatch(string(raw), -1) {
		known = append(known, m[1])
	}
	var bad []string
	for _, dir := range goDirs {
		cmd := exec.Command("go", "mod", "edit", "-json")
		cmd.Dir = dir
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("go mod edit -json in %s: %w", dir, err)
		}
		names, err := goDirect(out)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
		bad = append(bad, missing(filepath.Join(filepath.Base(dir), "go.mod"), names, known)...)
	}
	for _, file := range npmManifests {
		raw, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		names, err := npmDirect(raw)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		bad = append(bad, missing(file, names, known)...)
	}
	return bad, nil
}

// goDirect reads what `go mod edit -json` prints. A tool counts as direct: its
// module is only required indirectly.
func goDirect(raw []byte) ([]string, error) {
	var mod struct {
		Require []struct {
			Path     string
			Indirect bool
		}
		Tool []struct{ Path string }
	}
	if err := json.Unmarshal(raw, &mod); err != nil {
		return nil, err
	}
	var names []string
	for _, r := range mod.Require {
		if !r.Indirect && !strings.HasPrefix(r.Path, root) {
			names = append(names, r.Path)
		}
	}
	for _, t := range mod.Tool {
		names = append(names, t.Path)
	}
	return names, nil
}

// npmDirect leaves the project's own packages out.
func npmDirect(raw []byte) ([]string, error) {
	var manifest struct {
		Dependencies, DevDependencies, OptionalDependencies map[string]string
	}
	if err := json.Unmarshal(raw, &manifest); err != nil {
		return nil, err
	}
	var names []string
	for _, deps := range []map[string]string{manifest.Dependencies, manifest.DevDependencies, manifest.OptionalDependencies} {
		for name := range deps {
			if !strings.HasPrefix(name, "@banksman/") {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names, nil
}

// missing compares names with the rows; a tool is a package below its row's
// module.
func missing(file string, names, known []string) []string {
	var bad []string
	for _, name := range names {
		if !slices.ContainsFunc(known, func(k string) bool { return name == k || strings.HasPrefix(name, k+"/cmd/") }) {
			bad = append(bad, fmt.Sprintf("%s names %s, which has no row in %s", file, name, page))
		}
	}
	return bad
}
