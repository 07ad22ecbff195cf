// Package strictyaml reads a YAML document into Go values and tells where in the
// file something is wrong. Unknown and doubled keys are errors, anchors and tags
// are not known, and no error quotes a value, because values may be secret.
//
// JSON is YAML; such files are read as well. The names of fields are those of
// their json tags.
package strictyaml

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Position is a place in a file, from 1.
type Position struct{ Line, Column int }

// Positions are the places of the values that were read, by path: for example
// "routes[0].steps[1].after".
type Positions map[string]Position

// At is the place of the path, or of what is nearest above it.
func (p Positions) At(path string) Position {
	for {
		if at, ok := p[path]; ok || path == "" {
			return at
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
}

// Error is what is wrong at a place.
type Error struct {
	Position
	Path    string // empty: the document as a whole
	Problem string
}

func (e *Error) Error() string {
	if e.Path == "" {
		return e.Problem
	}
	return e.Path + ": " + e.Problem
}

// maxDepth bounds how deep values are nested.
const maxDepth = 32

// Decode reads raw into out, a pointer to a struct. The error is an *Error.
func Decode(raw []byte, out any) (Positions, error) {
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	d := decoder{Positions{}}
	var doc, more yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return d.at, nil
	case err != nil:
		return nil, syntax(raw, err)
	}
	switch err := dec.Decode(&more); {
	case err == nil:
		return nil, &Error{Position{max(more.Line, 1), max(more.Column, 1)}, "", "there is a second document"}
	case !errors.Is(err, io.EOF):
		return nil, syntax(raw, err)
	}
	if len(doc.Content) == 0 {
		return d.at, nil
	}
	if err := d.value(doc.Content[0], reflect.ValueOf(out).Elem(), "", 0); err != nil {
		return nil, err
	}
	return d.at, nil
}

var syntaxError = regexp.MustCompile(`^yaml: line (\d+): ([a-z ,]+)$`)

// syntax takes the line from the library's error, and its words where they
// cannot quote anything. The column is that of the line's first character.
func syntax(raw []byte, err error) error {
	e := &Error{Position{1, 1}, "", "not YAML"}
	m := syntaxError.FindStringSubmatch(err.Error())
	if m == nil {
		return e
	}
	e.Line, _ = strconv.Atoi(m[1]) // digits
	e.Problem += ": " + m[2]
	if lines := bytes.Split(raw, []byte("\n")); e.Line <= len(lines) {
		line := lines[e.Line-1]
		e.Column = 1 + len(line) - len(bytes.TrimLeft(line, " "))
	}
	return e
}

type decoder struct{ at Positions }

func (d *decoder) value(n *yaml.Node, v reflect.Value, path string, depth int) error {
	fail := func(format string, args ...any) error {
		return &Error{Position{n.Line, n.Column}, path, fmt.Sprintf(format, args...)}
	}
	d.at[path] = Position{n.Line, n.Column}
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		return fail("anchors and aliases are not supported")
	case n.Style&yaml.TaggedStyle != 0:
		return fail("tags are not supported")
	case depth > maxDepth:
		return fail("nested too deep")
	case n.Tag == "!!null":
		return nil
	}
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		return d.value(n, v.Elem(), path, depth+1)
	}
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		if n.Kind != yaml.ScalarNode {
			return fail("must be a single value")
		}
		if err := u.UnmarshalText([]byte(n.Value)); err != nil {
			return fail("%s", strings.TrimSuffix(err.Error(), ": "+strconv.Quote(n.Value)))
		}
		return nil
	}
	switch v.Kind() {
	case reflect.Struct:
		return d.fields(n, v, path, depth)
	case reflect.Slice:
		if n.Kind == yaml.ScalarNode && v.Type().Elem().Kind() == reflect.String {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1)) // one value without brackets
			return d.value(n, v.Index(0), path, depth+1)
		}
		if n.Kind != yaml.SequenceNode {
			return fail("must be a list")
		}
		v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
		for i, item := range n.Content {
			if err := d.value(item, v.Index(i), fmt.Sprintf("%s[%d]", path, i), depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	if n.Kind != yaml.ScalarNode {
		return fail("must be a single value")
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(n.Value)
	case reflect.Bool:
		if n.Tag != "!!bool" {
			return fail("must be true or false")
		}
		v.SetBool(strings.EqualFold(n.Value, "true"))
	case reflect.Int:
		i, err := strconv.Atoi(n.Value)
		if n.Tag != "!!int" || err != nil {
			return fail("must be a whole number")
		}
		v.SetInt(int64(i))
	default:
		panic("strictyaml: no way to read a " + v.Type().String())
	}
	return nil
}

func (d *decoder) fields(n *yaml.Node, v reflect.Value, path string, depth int) error {
	if n.Kind != yaml.MappingNode {
		return &Error{Position{n.Line, n.Column}, path, "must have named fields"}
	}
	index := map[string]int{}
	var known []string
	for i := range v.NumField() {
		if name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ","); name != "" && name != "-" {
			index[name] = i
			known = append(known, name)
		}
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		fail := func(format string, args ...any) error {
			return &Error{Position{key.Line, key.Column}, path, fmt.Sprintf(format, args...)}
		}
		field, ok := index[key.Value]
		switch {
		case key.Kind != yaml.ScalarNode || key.Anchor != "" || key.Style&yaml.TaggedStyle != 0:
			return fail("names of fields must be plain text")
		case !ok:
			return fail("%s", unknown(key.Value, known))
		case seen[key.Value]:
			return fail("the field %q stands twice", key.Value)
		}
		seen[key.Value] = true
		name := key.Value
		if path != "" {
			name = path + "." + name
		}
		if err := d.value(n.Content[i+1], v.Field(field), name, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// maxShown is how much of an unknown name is repeated.
const maxShown = 40

func unknown(name string, known []string) string {
	best := Nearest(name, known)
	if len(name) > maxShown {
		return "there is an unknown field; known are " + strings.Join(known, ", ")
	}
	if best != "" {
		return fmt.Sprintf("unknown field %q: is %q meant?", name, best)
	}
	return fmt.Sprintf("unknown field %q; known are %s", name, strings.Join(known, ", "))
}

// distance counts the letters to change, add or take away.
func distance(a, b string) int {
	if len(a) > maxShown {
		return len(a)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
