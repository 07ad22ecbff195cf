package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestUndocumentedNamesEachDirectDependencyWithoutARow(t *testing.T) {
	t.Chdir(t.TempDir())
	write := func(name, text string) {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(page, "# Page\n\n| module | why |\n|---|---|\n| `example.org/known` | good |\n| `example.org/tools` | good |\n| `known` | good |\n")
	write("mod/go.mod", `module github.com/banksman/banksman/mod

go 1.26

tool (
	example.org/tools/cmd/one
	example.org/toolsmith/cmd/two
)

require (
	example.org/known v1.0.0
	example.org/new v1.0.0
	example.org/below v1.0.0 // indirect
	github.com/banksman/banksman/pkg v0.0.0
)
`)
	write(npmManifests[0], `{"dependencies":{"known":"1","@banksman/client":"0"},"devDependencies":{"@x/fresh":"1"}}`)

	got, err := undocumented([]string{"mod"})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"mod/go.mod names example.org/new, which has no row in " + page,
		"mod/go.mod names example.org/toolsmith/cmd/two, which has no row in " + page,
		npmManifests[0] + " names @x/fresh, which has no row in " + page,
	}
	if !slices.Equal(got, want) {
		t.Fatalf("got  %q\nwant %q", got, want)
	}
}
