package main

import (
	"slices"
	"strings"
	"testing"
)

const uuid = "github.com/google/uuid"

// sound is a small workspace that keeps every rule.
func sound() []pkg {
	return []pkg{
		{ImportPath: "fmt", Standard: true},
		{ImportPath: uuid, Imports: []string{"fmt"}, Deps: []string{"fmt"}},
		{ImportPath: root + "pkg/run", Imports: []string{"fmt"}, Deps: []string{"fmt"}},
		{ImportPath: root + "pkg/hitl", Imports: []string{"fmt", uuid}, Deps: []string{"fmt", uuid}, XTestImports: []string{root + "pkg/hitltest", "github.com/stretchr/testify/require"}},
		{ImportPath: root + "pkg/wire", Imports: []string{root + "pkg/hitl"}},
		{ImportPath: root + "pkg/bus", Imports: []string{root + "pkg/hitl", root + "pkg/wire", "github.com/nats-io/nats.go"}},
		{ImportPath: root + "pkg/hitltest", Imports: []string{root + "pkg/bus"}},
		{ImportPath: root + "services/agent", Imports: []string{root + "pkg/bus", root + "services/agent/internal/claude"}, TestImports: []string{root + "pkg/hitltest"}},
		{ImportPath: root + "services/agent/internal/claude", Imports: []string{root + "pkg/run"}},
		{ImportPath: root + "services/gateway", Imports: []string{root + "pkg/bus"}},
		{ImportPath: root + "cmd/banksman", Imports: []string{root + "services/agent", root + "services/gateway", root + "cmd/banksman/internal/up"}},
		{ImportPath: root + "cmd/banksman/bench", Imports: []string{root + "pkg/hitltest"}},
	}
}

func TestCheckAcceptsASoundWorkspace(t *testing.T) {
	if bad := check(sound()); len(bad) != 0 {
		t.Fatalf("unexpected violations: %q", bad)
	}
}

func TestCheckNamesEachViolation(t *testing.T) {
	for _, c := range []struct {
		name string
		in   pkg
		want string
	}{
		{"hitl uses NATS", pkg{ImportPath: root + "pkg/hitl", Deps: []string{"github.com/nats-io/nats.go"}}, "pkg/hitl imports github.com/nats-io/nats.go: pkg/hitl stands on"},
		{"hitl reaches NATS through a sub-package", pkg{ImportPath: root + "pkg/hitl/codec", Deps: []string{root + "pkg/hitl", "github.com/nats-io/nats.go"}}, "pkg/hitl/codec imports github.com/nats-io/nats.go"},
		{"hitl uses wire", pkg{ImportPath: root + "pkg/hitl", Imports: []string{root + "pkg/wire"}}, "pkg/hitl imports pkg/wire: hitl <-"},
		{"hitl uses run", pkg{ImportPath: root + "pkg/hitl", Deps: []string{root + "pkg/run"}}, "pkg/hitl imports pkg/run: pkg/hitl stands on"},
		{"wire uses bus", pkg{ImportPath: root + "pkg/wire", Imports: []string{root + "pkg/bus"}}, "pkg/wire imports pkg/bus: hitl <-"},
		{"bus uses an unlisted unit", pkg{ImportPath: root + "pkg/bus", Imports: []string{root + "pkg/natsd"}}, "pkg/bus imports pkg/natsd: hitl <-"},
		{"pkg uses a service", pkg{ImportPath: root + "pkg/natsd", Imports: []string{root + "services/agent"}}, "pkg/natsd imports services/agent: pkg never"},
		{"a test of pkg uses a service", pkg{ImportPath: root + "pkg/natsd", XTestImports: []string{root + "services/agent"}}, "pkg/natsd imports services/agent: pkg never imports a service, in tests too"},
		{"a service uses a service", pkg{ImportPath: root + "services/gateway", Imports: []string{root + "services/agent"}}, "services/gateway imports services/agent: a service never"},
		{"a test of a service uses a service", pkg{ImportPath: root + "services/gateway", TestImports: []string{root + "services/agent"}}, "a service never imports a service, in tests too"},
		{"another command uses a service", pkg{ImportPath: root + "cmd/other", Imports: []string{root + "services/agent"}}, "cmd/other imports services/agent: only cmd/banksman"},
		{"a service uses the command", pkg{ImportPath: root + "services/gateway", Imports: []string{root + "cmd/banksman/internal/up"}}, "nothing imports a command"},
		{"a service ships test code", pkg{ImportPath: root + "services/gateway", Imports: []string{root + "pkg/hitltest"}}, "pkg/hitltest is for tests and commands"},
		{"a library ships test code", pkg{ImportPath: root + "pkg/natsd", Imports: []string{root + "pkg/hitltest"}}, "pkg/hitltest is for tests and commands"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bad := check(append(sound(), c.in))
			if len(bad) != 1 || !strings.Contains(bad[0], c.want) {
				t.Fatalf("got %q, want one sentence with %q", bad, c.want)
			}
		})
	}
}

func TestCheckRefusesAnEmptyListing(t *testing.T) {
	if bad := check([]pkg{{ImportPath: "fmt", Standard: true}}); len(bad) != 1 {
		t.Fatalf("an empty listing proves nothing, got %q", bad)
	}
}

func TestDecodeReadsConcatenatedRecords(t *testing.T) {
	got, err := decode(strings.NewReader(`{"ImportPath":"fmt","Standard":true}` + "\n" + `{"ImportPath":"a/b","Imports":["fmt"]}`))
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || !got[0].Standard || !slices.Equal(got[1].Imports, []string{"fmt"}) {
		t.Fatalf("got %+v", got)
	}
	if _, err := decode(strings.NewReader(`{"ImportPath":`)); err == nil {
		t.Fatal("a cut listing was accepted")
	}
}
