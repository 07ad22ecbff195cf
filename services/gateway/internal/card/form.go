package card

import (
	"bytes"
	"encoding/json"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
)

type property struct {
	Type        string            `json:"type"`
	Title       string            `json:"title"`
	Description string            `json:"description"`
	Format      string            `json:"format"`
	Enum        []json.RawMessage `json:"enum"`
	EnumNames   []string          `json:"enumNames"`
	OneOf       []constant        `json:"oneOf"`
	AnyOf       []constant        `json:"anyOf"`
	Items       *property         `json:"items"`
	Minimum     json.Number       `json:"minimum"`
	Maximum     json.Number       `json:"maximum"`
	MinLength   int               `json:"minLength"`
	MaxLength   int               `json:"maxLength"`
	Default     json.RawMessage   `json:"default"`
}

type constant struct {
	Const json.RawMessage `json:"const"`
	Title string          `json:"title"`
}

// fields are the fields of a form in the order they are written in. Without
// any, or where one cannot be shown as a field, the form is filled in as JSON.
func fields(schema json.RawMessage) []wire.FormField {
	var s struct {
		Properties json.RawMessage `json:"properties"`
		Required   []string        `json:"required"`
	}
	if json.Unmarshal(schema, &s) != nil {
		return nil
	}
	required := map[string]bool{}
	for _, name := range s.Required {
		required[name] = true
	}
	dec := json.NewDecoder(bytes.NewReader(s.Properties))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return nil
	}
	var out []wire.FormField
	for dec.More() {
		tok, err := dec.Token()
		name, ok := tok.(string)
		var p property
		if err != nil || !ok || dec.Decode(&p) != nil {
			return nil
		}
		f, ok := field(name, &p)
		if !ok {
			return nil
		}
		f.Required = required[name]
		out = append(out, f)
	}
	return out
}

func field(name string, p *property) (wire.FormField, bool) {
	f := wire.FormField{
		Name: name, Label: Visible(p.Title), Description: Visible(p.Description), Type: p.Type, Format: Line(p.Format),
		Minimum: string(p.Minimum), Maximum: string(p.Maximum), MinLength: p.MinLength, MaxLength: p.MaxLength,
	}
	if f.Label == "" {
		f.Label = Visible(name)
	}
	if len(p.Default) > 0 {
		f.Suggested, _ = hitl.DisplayJSON(p.Default)
	}
	switch p.Type {
	case "string", "number", "integer", "boolean":
		f.Choices = choices(p)
	case "array":
		// A list of anything has no end; one of known values is a choice.
		if p.Items == nil {
			return f, false
		}
		f.Choices = choices(p.Items)
		if len(f.Choices) == 0 {
			return f, false
		}
	default:
		return f, false
	}
	return f, true
}

func choices(p *property) []wire.Choice {
	var out []wire.Choice
	for i, v := range p.Enum {
		label := ""
		if i < len(p.EnumNames) {
			label = p.EnumNames[i]
		}
		out = append(out, choice(v, label))
	}
	for _, c := range append(p.OneOf, p.AnyOf...) {
		if len(c.Const) > 0 {
			out = append(out, choice(c.Const, c.Title))
		}
	}
	return out
}

func choice(v json.RawMessage, label string) wire.Choice {
	if label == "" {
		if text, _, ok := hitl.DisplayString(v); ok {
			return wire.Choice{JSON: string(v), Label: text}
		}
		label, _ = hitl.DisplayJSON(v)
		return wire.Choice{JSON: string(v), Label: label}
	}
	return wire.Choice{JSON: string(v), Label: Visible(label)}
}
