// Command licenses writes THIRD_PARTY.md: what others made of what is shipped, in
// the programs and in the web app, each with its licence and its notices. It refuses
// a licence that it does not know or that asks more of who ships it than a notice.
// With -check it compares instead of writing. Run it at the root of the work tree.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
)

const page = "THIRD_PARTY.md"

// allowed are the licences that ask for no more than their text and notices.
var allowed = []string{"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT"}

// part is something that somebody else made.
type part struct {
	name, version string
	license       string // SPDX
	texts         []string
}

func main() {
	check := flag.Bool("check", false, "compare with the page instead of writing it")
	flag.Parse()
	if err := run(*check); err != nil {
		fmt.Fprintln(os.Stderr, "licenses:", err)
		os.Exit(1)
	}
}

func run(check bool) error {
	programs, err := goParts()
	if err != nil {
		return err
	}
	web, err := npmParts()
	if err != nil {
		return err
	}
	if err := refused(append(slices.Clone(programs), web...)); err != nil {
		return err
	}
	text := render(programs, web)
	if !check {
		return os.WriteFile(page, text, 0o644)
	}
	have, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	if !bytes.Equal(have, text) {
		return errors.New(page + " is not what is shipped now: run make generate")
	}
	fmt.Printf("licenses: %d modules and %d packages, all under %s\n", len(programs), len(web), strings.Join(allowed, ", "))
	return nil
}

func refused(parts []part) error {
	var errs []error
	for _, p := range parts {
		switch {
		case !slices.Contains(allowed, p.license):
			errs = append(errs, fmt.Errorf("%s %s: licence %q is none of %s", p.name, p.version, p.license, strings.Join(allowed, ", ")))
		case len(p.texts) == 0:
			errs = append(errs, fmt.Errorf("%s %s: no licence file", p.name, p.version))
		}
	}
	return errors.Join(errs...)
}

// classify names a licence by its text, empty for what it does not know.
func classify(text string) string {
	t := strings.Join(strings.Fields(strings.ToLower(text)), " ")
	has := func(s string) bool { return strings.Contains(t, s) }
	switch {
	case has("gnu general public license"), has("gnu lesser"), has("gnu affero"), has("mozilla public license"), has("eclipse public license"), has("server side public"), has("business source"):
		return ""
	case has("apache license version 2.0"), has("apache license, version 2.0"):
		return "Apache-2.0"
	case has("redistribution and use in source and binary forms"):
		if has("neither the name") || has("may not be used to endorse") || has("name of the copyright holder") {
			return "BSD-3-Clause"
		}
		return "BSD-2-Clause"
	case has("permission is hereby granted, free of charge"):
		return "MIT"
	case has("permission to use, copy, modify, and/or distribute this software") && has("copyright notice"),
		has("permission to use, copy, modify, and distribute this software") && has("copyright notice"):
		return "ISC"
	case has("permission to use, copy, modify, and/or distribute this software"):
		return "0BSD"
	}
	return ""
}

func render(programs, web []part) []byte {
	var b bytes.Buffer
	b.WriteString("# Third-party software\n\n<!-- Written by tools/licenses: make generate. -->\n\n" +
		"What Banksman ships that others made, with its licences. Tools that only build or test it\nare in [docs/dependencies.md](docs/dependencies.md).\n")
	table := func(title string, parts []part) {
		fmt.Fprintf(&b, "\n## %s\n\n| part | version | licence |\n|---|---|---|\n", title)
		for _, p := range parts {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", p.name, p.version, p.license)
		}
	}
	table("In the programs", programs)
	table("In the web app", web)
	b.WriteString("\n## Texts\n")
	type group struct {
		text string
		of   []string
	}
	var groups []*group
	for _, p := range append(slices.Clone(programs), web...) {
		for _, text := range p.texts {
			i := slices.IndexFunc(groups, func(g *group) bool { return g.text == text })
			if i < 0 {
				groups = append(groups, &group{text: text})
				i = len(groups) - 1
			}
			if !slices.Contains(groups[i].of, p.name) {
				groups[i].of = append(groups[i].of, p.name)
			}
		}
	}
	for _, g := range groups {
		fmt.Fprintf(&b, "\n### %s\n\n```\n%s\n```\n", strings.Join(g.of, ", "), g.text)
	}
	return b.Bytes()
}
