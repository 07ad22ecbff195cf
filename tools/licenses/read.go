package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// programs are what is shipped as binaries.
var programs = []string{
	"./cmd/banksman", "./cmd/banksman/health", "./services/agent/cmd/banksman-agent",
	"./services/gateway/cmd/banksman-gateway", "./services/notifier/cmd/banksman-notifier",
}

// web is the app; besides what it depends on, the tools of inside leave code of
// theirs in the bundle.
const web = "services/gateway/web"

var inside = []string{"tailwindcss", "vite"}

func goParts() ([]part, error) {
	format := "{{with .Module}}{{if not .Main}}{{.Path}} {{with .Replace}}{{.Version}} {{.Dir}}{{else}}{{.Version}} {{.Dir}}{{end}}{{end}}{{end}}"
	// What is built for other systems than this one is shipped as well.
	lines := map[string]bool{}
	for _, system := range []string{"linux", "darwin", "windows"} {
		cmd := exec.Command("go", append([]string{"list", "-deps", "-f", format}, programs...)...)
		cmd.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
		cmd.Stderr = os.Stderr
		raw, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("go list -deps for %s: %w", system, err)
		}
		for line := range strings.Lines(string(raw)) {
			lines[strings.TrimSpace(line)] = true
		}
	}
	root, err := exec.Command("go", "env", "GOROOT", "GOVERSION").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	goRoot, _, _ := strings.Cut(string(root), "\n")
	standard, err := read("Go standard library", "as built with", goRoot)
	if err != nil {
		return nil, err
	}
	parts := []part{standard}
	for line := range lines {
		f := strings.Fields(line)
		if len(f) != 3 || strings.HasPrefix(f[0], "github.com/banksman/") {
			continue
		}
		p, err := read(f[0], f[1], f[2])
		if err != nil {
			return nil, err
		}
		parts = append(parts, p)
	}
	slices.SortFunc(parts[1:], func(a, b part) int { return strings.Compare(a.name, b.name) })
	return parts, nil
}

var (
	licenseFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying)([-.].*)?$`)
	noticeFile  = regexp.MustCompile(`(?i)^(notice|patents)([-.].*)?$`)
)

// read finds the licence and the notices in the directory of a part.
func read(name, version, dir string) (part, error) {
	p := part{name: name, version: version}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return p, err
	}
	for _, e := range entries {
		is := licenseFile.MatchString(e.Name())
		if e.IsDir() || !is && !noticeFile.MatchString(e.Name()) || strings.HasSuffix(e.Name(), ".go") {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return p, err
		}
		text := strings.TrimSpace(strings.ReplaceAll(string(raw), "\r\n", "\n"))
		p.texts = append(p.texts, text)
		if is {
			switch l := classify(text); {
			case p.license == "":
				p.license = l
			case l != p.license: // two licences: a person has to look
				p.license += " and " + l
			}
		}
	}
	return p, nil
}

// lock is the part of package-lock.json that is read.
type lock struct {
	Packages map[string]struct {
		Version      string
		License      string
		Resolved     string
		Link         bool
		Dependencies map[string]string
	}
}

func npmParts() ([]part, error) {
	raw, err := os.ReadFile(filepath.Join(web, "package-lock.json"))
	if err != nil {
		return nil, err
	}
	var l lock
	if err := json.Unmarshal(raw, &l); err != nil {
		return nil, fmt.Errorf("package-lock.json: %w", err)
	}
	var parts []part
	for _, at := range shipped(&l) {
		e := l.Packages[at]
		p, err := read(strings.TrimPrefix(at, "node_modules/"), e.Version, filepath.Join(web, at))
		if err != nil {
			return nil, fmt.Errorf("%w (npm ci first)", err)
		}
		// The manifest's word counts; the file is a text that has to be there.
		p.license = e.License
		parts = append(parts, p)
	}
	return parts, nil
}

// shipped are the places in the lock file of what the app needs when it runs, and of
// the tools that leave code in it.
func shipped(l *lock) []string {
	seen := map[string]bool{}
	var visit func(from, name string)
	visit = func(from, name string) {
		for dir := from; ; dir = path.Dir(path.Dir(dir)) {
			at := path.Join(dir, "node_modules", name)
			if e, ok := l.Packages[at]; ok {
				if e.Link {
					at = e.Resolved
				}
				if seen[at] {
					return
				}
				seen[at] = true
				for dep := range l.Packages[at].Dependencies {
					visit(at, dep)
				}
				return
			}
			if dir == "." || dir == "" || dir == "/" {
				return
			}
		}
	}
	for name := range l.Packages[""].Dependencies {
		visit("", name)
	}
	for _, name := range inside {
		seen[path.Join("node_modules", name)] = true
	}
	var list []string
	for at := range seen {
		if strings.HasPrefix(at, "node_modules/") { // the others are our own
			list = append(list, at)
		}
	}
	slices.Sort(list)
	return list
}
