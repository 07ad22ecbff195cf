package strictyaml

import (
	"bytes"
	"errors"
	"io"

	"go.yaml.in/yaml/v3"
)

// Field is a named value of a document without nesting.
type Field struct {
	Position
	Name   string
	Values []string // one, or those of a list
	List   bool
}

// Flat reads a document whose fields are single values or lists of them, in the
// order of the document. The error is an *Error.
func Flat(raw []byte) ([]Field, error) {
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	var doc, more yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, syntax(raw, err)
	}
	switch err := dec.Decode(&more); {
	case err == nil:
		return nil, &Error{Position{max(more.Line, 1), max(more.Column, 1)}, "", "there is a second document"}
	case !errors.Is(err, io.EOF):
		return nil, syntax(raw, err)
	}
	if len(doc.Content) == 0 || doc.Content[0].Tag == "!!null" {
		return nil, nil
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, &Error{Position{root.Line, root.Column}, "", "must have named fields"}
	}
	seen := map[string]bool{}
	var out []Field
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		f := Field{Position: Position{key.Line, key.Column}, Name: key.Value}
		switch {
		case !plain(key):
			return nil, &Error{f.Position, "", "names of fields must be plain text"}
		case seen[key.Value]:
			return nil, &Error{f.Position, key.Value, "stands twice"}
		}
		seen[key.Value] = true
		items := []*yaml.Node{value}
		if value.Kind == yaml.SequenceNode {
			f.List, items = true, value.Content
		}
		for _, n := range items {
			if !plain(n) || n.Tag == "!!null" {
				return nil, &Error{Position{n.Line, n.Column}, key.Value, "must be a single value, or a list of them"}
			}
			f.Values = append(f.Values, n.Value)
		}
		out = append(out, f)
	}
	return out, nil
}

func plain(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Anchor == "" && n.Style&yaml.TaggedStyle == 0
}

// Nearest is the known name that an unknown one may have meant; "" if none is
// near.
func Nearest(name string, known []string) string {
	best, least := "", 3
	for _, k := range known {
		if d := distance(name, k); d < least && d < len(k) {
			best, least = k, d
		}
	}
	return best
}
