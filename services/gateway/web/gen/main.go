// Command gen writes src/client/wire.gen.ts: the frames of package wire as
// TypeScript, so that the web app and the gateway cannot drift apart. Run it
// from the module root of the gateway.
//
// Embedded structs are flattened as JSON does it. A slice or map without
// omitempty may be null, because a nil one encodes so.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
)

const target = "web/src/client/wire.gen.ts"

// serverFrames are the frames by the value of their type field.
var serverFrames = []struct {
	name  string
	frame any
}{
	{wire.TypeHello, wire.Hello{}},
	{wire.TypeActiveProcesses, wire.ActiveProcesses{}},
	{wire.TypeProcessState, wire.ProcessState{}},
	{wire.TypeEvent, wire.Events{}},
	{wire.TypeDelivery, wire.Delivery{}},
	{wire.TypeReceipt, wire.Receipt{}},
	{wire.TypePing, wire.Ping{}},
}

var clientFrames = []string{
	wire.TypeAuth, wire.TypeSubscribe, wire.TypeUnsubscribe, wire.TypeResponse, wire.TypeSendMessage,
	wire.TypeStartSession, wire.TypeInterrupt, wire.TypeStopSession, wire.TypeSetMode, wire.TypePong,
}

// others are reachable from no frame: bodies of HTTP answers.
var others = []any{wire.Interaction{}, wire.Error{}, hitl.Answer{}}

// unions are the named strings with their values.
var unions = map[reflect.Type][]string{
	reflect.TypeFor[hitl.Outcome](): words(
		hitl.Allowed, hitl.Denied, hitl.Answered, hitl.Clarify, hitl.Dismissed,
		hitl.Expired, hitl.Cancelled, hitl.Orphaned, hitl.InvalidIX),
	reflect.TypeFor[hitl.Status](): words(
		hitl.Accepted, hitl.Duplicate, hitl.AlreadyDecided, hitl.TooLate, hitl.NotFound,
		hitl.BadInput, hitl.Forbidden, hitl.DigestMismatch, hitl.Unavailable),
}

func main() {
	if err := os.WriteFile(target, generate(), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func generate() []byte {
	g := &generator{names: map[string]reflect.Type{}, frameType: map[reflect.Type]string{}}
	fmt.Fprintln(&g.out, "// Code generated from the Go package wire by web/gen. DO NOT EDIT.")
	fmt.Fprintln(&g.out, "\n/** RFC 3339 in UTC, by the server's clock. */\nexport type Time = string;")
	var frames []string
	for _, f := range serverFrames {
		g.frameType[reflect.TypeOf(f.frame)] = f.name
		frames = append(frames, g.name(reflect.TypeOf(f.frame)))
	}
	for _, o := range others {
		g.name(reflect.TypeOf(o))
	}
	client := g.name(reflect.TypeFor[wire.Client]())
	for len(g.queue) > 0 {
		t := g.queue[0]
		g.queue = g.queue[1:]
		g.write(t)
	}
	fmt.Fprintf(&g.out, "\nexport type ServerFrame = %s;\n", strings.Join(frames, " | "))
	fmt.Fprintf(&g.out, "\nexport type ClientType = %s;\n", union(clientFrames))
	fmt.Fprintf(&g.out, "\nexport type ClientFrame = Omit<%s, \"type\"> & { type: ClientType };\n", client)
	fmt.Fprintf(&g.out, "\nexport const PROTOCOL = %d;\n", wire.Protocol)
	for _, c := range []struct {
		name string
		code int
	}{
		{"CLOSE_SLOW", wire.CloseSlow},
		{"CLOSE_RESTART", wire.CloseRestart},
		{"CLOSE_STALE", wire.CloseStale},
		{"CLOSE_BAD_AUTH", wire.CloseBadAuth},
		{"CLOSE_BAD_FRAME", wire.CloseBadFrame},
		{"CLOSE_TOO_MANY", wire.CloseTooMany},
		{"CLOSE_NO_AUTH", wire.CloseNoAuth},
		{"CLOSE_RECONNECT_MAX", wire.CloseReconnectX},
	} {
		fmt.Fprintf(&g.out, "export const %s = %d;\n", c.name, c.code)
	}
	return g.out.Bytes()
}

type generator struct {
	out       bytes.Buffer
	names     map[string]reflect.Type
	frameType map[reflect.Type]string
	queue     []reflect.Type
}

// name returns the TypeScript name of a struct and sees to its definition.
func (g *generator) name(t reflect.Type) string {
	name := t.Name()
	if seen, ok := g.names[name]; ok && seen != t {
		pkg := t.PkgPath()[strings.LastIndexByte(t.PkgPath(), '/')+1:]
		name = strings.ToUpper(pkg[:1]) + pkg[1:] + name
	}
	if _, ok := g.names[name]; !ok {
		g.names[name] = t
		g.queue = append(g.queue, t)
	}
	return name
}

func (g *generator) write(t reflect.Type) {
	var name string
	for n, o := range g.names {
		if o == t {
			name = n
		}
	}
	if values, ok := unions[t]; ok {
		fmt.Fprintf(&g.out, "\nexport type %s = %s;\n", name, union(values))
		return
	}
	fmt.Fprintf(&g.out, "\nexport interface %s {\n", name)
	for _, f := range fields(t) {
		optional := ""
		if f.optional {
			optional = "?"
		}
		kind := g.kind(f.typ, f.optional)
		if f.name == "type" && g.frameType[t] != "" {
			kind = fmt.Sprintf("%q", g.frameType[t])
		}
		fmt.Fprintf(&g.out, "  %s%s: %s;\n", f.name, optional, kind)
	}
	fmt.Fprintln(&g.out, "}")
}

func (g *generator) kind(t reflect.Type, optional bool) string {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return "Time"
	case t == reflect.TypeFor[json.RawMessage]():
		return "unknown"
	case unions[t] != nil:
		return g.name(t)
	}
	null := " | null"
	if optional {
		null = ""
	}
	switch t.Kind() {
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return "number"
	case reflect.Pointer:
		return g.kind(t.Elem(), true) + null
	case reflect.Slice:
		return g.kind(t.Elem(), true) + "[]" + null
	case reflect.Struct:
		return g.name(t)
	}
	panic("gen: no TypeScript for " + t.String())
}

type field struct {
	name     string
	typ      reflect.Type
	optional bool
	depth    int
}

// fields flattens embedded structs; the shallower of two equal names wins.
func fields(t reflect.Type) []field {
	var out []field
	at := map[string]int{}
	var walk func(t reflect.Type, depth int)
	walk = func(t reflect.Type, depth int) {
		for i := range t.NumField() {
			f := t.Field(i)
			tag, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.Anonymous && tag == "" {
				walk(f.Type, depth+1)
				continue
			}
			if tag == "-" || !f.IsExported() {
				continue
			}
			n := field{cmp.Or(tag, f.Name), f.Type, strings.Contains(opts, "omitempty"), depth}
			if j, ok := at[n.name]; ok {
				if out[j].depth > depth {
					out[j] = n
				}
				continue
			}
			at[n.name] = len(out)
			out = append(out, n)
		}
	}
	walk(t, 0)
	return out
}

func words[S ~string](values ...S) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}

func union(values []string) string {
	return `"` + strings.Join(values, `" | "`) + `"`
}
