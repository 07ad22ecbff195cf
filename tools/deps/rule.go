package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

const root = "github.com/banksman/banksman/"

// pkg is what the rules need of a `go list -json` record.
type pkg struct {
	ImportPath   string
	Standard     bool
	Imports      []string
	TestImports  []string
	XTestImports []string
	Deps         []string
}

// top is the layer of a package of pkg that layers does not name: as high as a
// library may be, so that the core can never come to rest on it.
const top = 3

// layers orders the units of pkg. A package imports its own unit, its own
// layer and lower ones. hitl and run are on the same floor and still strangers:
// onlyThird keeps hitl alone, and run imports nothing of ours.
var layers = map[string]int{
	"pkg/run":     0,
	"pkg/hitl":    0,
	"pkg/subject": 1,
	"pkg/wire":    1,
	"pkg/trace":   1,
	"pkg/bus":     2,
	"pkg/journal": 2,
}

// onlyThird lists the units whose whole closure may leave the standard library
// only for these packages.
var onlyThird = map[string][]string{
	"pkg/hitl": {"github.com/google/uuid"},
	"pkg/run":  {},
}

// testOnly may be imported by tests and by commands, never by what ships as a
// library or a service.
const testOnly = "pkg/hitltest"

func decode(r io.Reader) ([]pkg, error) {
	var pkgs []pkg
	dec := json.NewDecoder(r)
	for {
		var p pkg
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return pkgs, nil
		}
		if err != nil {
			return nil, fmt.Errorf("decode go list output: %w", err)
		}
		pkgs = append(pkgs, p)
	}
}

// project keeps the packages of this repository.
func project(pkgs []pkg) []pkg {
	var own []pkg
	for _, p := range pkgs {
		if strings.HasPrefix(p.ImportPath, root) {
			own = append(own, p)
		}
	}
	return own
}

// check returns one sentence for each import that breaks a rule, sorted.
func check(pkgs []pkg) []string {
	standard := map[string]bool{}
	for _, p := range pkgs {
		if p.Standard {
			standard[p.ImportPath] = true
		}
	}
	var bad []string
	own := project(pkgs)
	if len(own) == 0 {
		return []string{"no package of " + root + " was listed"}
	}
	for _, p := range own {
		from := unit(p.ImportPath)
		for _, imp := range p.Imports {
			if why := direction(from, unit(imp)); why != "" {
				bad = append(bad, sentence(p.ImportPath, imp, why))
			}
			if why := layering(from, unit(imp)); why != "" {
				bad = append(bad, sentence(p.ImportPath, imp, why))
			}
		}
		for _, imp := range slices.Concat(p.TestImports, p.XTestImports) {
			if why := direction(from, unit(imp)); why != "" {
				bad = append(bad, sentence(p.ImportPath, imp, why+", in tests too"))
			}
		}
		if allowed, ok := onlyThird[from]; ok {
			for _, dep := range p.Deps {
				if !standard[dep] && unit(dep) != from && !slices.Contains(allowed, dep) {
					bad = append(bad, sentence(p.ImportPath, dep, fmt.Sprintf("%s stands on the standard library and %q alone", from, allowed)))
				}
			}
		}
	}
	slices.Sort(bad)
	return slices.Compact(bad)
}

// direction holds for every import, of tests too: it keeps the modules apart.
func direction(from, to string) string {
	switch {
	case to == "" || from == to:
		return ""
	case strings.HasPrefix(to, "cmd/"):
		return "nothing imports a command"
	case !strings.HasPrefix(to, "services/"):
		return ""
	case strings.HasPrefix(from, "pkg/"):
		return "pkg never imports a service"
	case strings.HasPrefix(from, "services/"):
		return "a service never imports a service"
	case from != "cmd/banksman":
		return "only cmd/banksman imports services"
	}
	return ""
}

// layering holds for what ships.
func layering(from, to string) string {
	if to == "" || from == to || !strings.HasPrefix(to, "pkg/") {
		return ""
	}
	if to == testOnly && !strings.HasPrefix(from, "cmd/") {
		return testOnly + " is for tests and commands"
	}
	if strings.HasPrefix(from, "pkg/") && layer(to) > layer(from) {
		return "hitl <- subject, wire <- bus, journal <- the rest of pkg"
	}
	return ""
}

func layer(u string) int {
	if n, ok := layers[u]; ok {
		return n
	}
	return top
}

// unit names the part that an import path belongs to by its first two path
// elements below the root: pkg/hitl, services/agent, cmd/banksman. It is empty
// for what is not ours.
func unit(path string) string {
	rest, ok := strings.CutPrefix(path, root)
	if !ok {
		return ""
	}
	parts := strings.SplitN(rest, "/", 3)
	if len(parts) < 2 {
		return rest
	}
	return parts[0] + "/" + parts[1]
}

func sentence(from, to, why string) string {
	return fmt.Sprintf("%s imports %s: %s", strings.TrimPrefix(from, root), strings.TrimPrefix(to, root), why)
}
