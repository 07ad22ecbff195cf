// Package schema checks forms: the flat part of JSON Schema that they are
// written in, and what people fill in.
package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/mail"
	"net/url"
	"sort"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/banksman/banksman/pkg/hitl/internal/strictjson"
)

// Schema is the flat part of JSON Schema that forms use: an object whose
// properties are strings, numbers, integers, booleans or lists of enum values.
type Schema struct {
	Type       string                `json:"type"`
	Properties map[string]*formField `json:"properties"`
	Required   []string              `json:"required"`
}

// Problem is what is wrong with one field.
type Problem struct{ Field, Problem string }

type formField struct {
	Type      string            `json:"type"`
	Enum      []json.RawMessage `json:"enum"`
	OneOf     []constant        `json:"oneOf"`
	Items     *formField        `json:"items"`
	AnyOf     []constant        `json:"anyOf"`
	Minimum   json.Number       `json:"minimum"`
	Maximum   json.Number       `json:"maximum"`
	MinLength *int              `json:"minLength"`
	MaxLength *int              `json:"maxLength"`
	MinItems  *int              `json:"minItems"`
	MaxItems  *int              `json:"maxItems"`
	Format    string            `json:"format"`
}

type constant struct {
	Const json.RawMessage `json:"const"`
}

// Parse reads a schema and refuses what forms do not support.
func Parse(raw json.RawMessage) (*Schema, error) {
	var s Schema
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, fmt.Errorf("is not a JSON Schema: %w", err)
	}
	if s.Type != "object" {
		return nil, errors.New(`must have type "object"`)
	}
	for name, f := range s.Properties {
		if f == nil {
			return nil, fmt.Errorf("property %q is null", name)
		}
		switch f.Type {
		case "string", "number", "integer", "boolean":
		case "array":
			if f.Items == nil {
				return nil, fmt.Errorf("property %q has no items", name)
			}
			switch f.Items.Type {
			case "", "string", "number", "integer", "boolean":
			default:
				return nil, fmt.Errorf("property %q has items of the unsupported type %q", name, f.Items.Type)
			}
			if err := f.Items.checkLimits(); err != nil {
				return nil, fmt.Errorf("property %q: %w", name, err)
			}
		default:
			return nil, fmt.Errorf("property %q has the unsupported type %q", name, f.Type)
		}
		if err := f.checkLimits(); err != nil {
			return nil, fmt.Errorf("property %q: %w", name, err)
		}
	}
	for _, name := range s.Required {
		if s.Properties[name] == nil {
			return nil, fmt.Errorf("requires %q, which has no property", name)
		}
	}
	return &s, nil
}

// Check lists what is wrong with a filled-in form, by field.
func (s *Schema) Check(content json.RawMessage) []Problem {
	var values map[string]json.RawMessage
	if err := json.Unmarshal(content, &values); err != nil || values == nil {
		return []Problem{{"content", "must be a JSON object"}}
	}
	var problems []Problem
	add := func(name, problem string) { problems = append(problems, Problem{"content." + name, problem}) }
	for _, name := range s.Required {
		if v, ok := values[name]; !ok || string(v) == "null" || string(v) == `""` {
			add(name, "is missing")
		}
	}
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		f := s.Properties[name]
		if f == nil {
			add(name, "is not a field of the form")
			continue
		}
		if problem := f.check(values[name]); problem != "" {
			add(name, problem)
		}
	}
	return problems
}

func (f *formField) check(raw json.RawMessage) string {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return "is not valid JSON"
	}
	switch f.Type {
	case "string":
		s, ok := v.(string)
		if !ok {
			return "must be text"
		}
		if p := f.checkString(s); p != "" {
			return p
		}
	case "number", "integer":
		n, ok := v.(json.Number)
		if !ok {
			return "must be a number"
		}
		if p := f.checkNumber(n); p != "" {
			return p
		}
	case "boolean":
		if _, ok := v.(bool); !ok {
			return "must be true or false"
		}
	case "array":
		var items []json.RawMessage
		if json.Unmarshal(raw, &items) != nil {
			return "must be a list"
		}
		if f.MinItems != nil && len(items) < *f.MinItems {
			return fmt.Sprintf("needs at least %d entries", *f.MinItems)
		}
		if f.MaxItems != nil && len(items) > *f.MaxItems {
			return fmt.Sprintf("takes at most %d entries", *f.MaxItems)
		}
		item := *f.Items
		if item.Type == "" {
			item.Type = "string"
		}
		item.OneOf = append(item.OneOf, item.AnyOf...)
		for _, it := range items {
			if p := item.check(it); p != "" {
				return "an entry " + p
			}
		}
	}
	return f.checkEnum(raw)
}

func (f *formField) checkEnum(raw json.RawMessage) string {
	choices := f.Enum
	for _, o := range f.OneOf {
		if o.Const != nil {
			choices = append(choices, o.Const)
		}
	}
	if len(choices) == 0 {
		return ""
	}
	got, err := strictjson.Canonical(raw)
	if err != nil {
		return "is not valid JSON"
	}
	var names []string
	for _, e := range choices {
		want, err := strictjson.Canonical(e)
		if err == nil && bytes.Equal(got, want) {
			return ""
		}
		names = append(names, string(e))
	}
	return "must be one of " + strings.Join(names, ", ")
}

func (f *formField) checkString(s string) string {
	n := utf8.RuneCountInString(s)
	if f.MinLength != nil && n < *f.MinLength {
		return fmt.Sprintf("needs at least %d characters", *f.MinLength)
	}
	if f.MaxLength != nil && n > *f.MaxLength {
		return fmt.Sprintf("takes at most %d characters", *f.MaxLength)
	}
	switch f.Format {
	case "email":
		if a, err := mail.ParseAddress(s); err != nil || a.Address != s {
			return "must be a mail address"
		}
	case "uri":
		if u, err := url.Parse(s); err != nil || !u.IsAbs() {
			return "must be a full address such as https://example.org/"
		}
	case "date":
		if _, err := time.Parse("2006-01-02", s); err != nil {
			return "must be a date such as 2026-11-27"
		}
	case "date-time":
		if _, err := time.Parse(time.RFC3339, s); err != nil {
			return "must be a time such as 2026-11-27T14:00:00Z"
		}
	}
	return ""
}

func (f *formField) checkNumber(n json.Number) string {
	v, ok := rational(n)
	if !ok {
		return "is out of range"
	}
	if f.Type == "integer" && !v.IsInt() {
		return "must be a whole number"
	}
	if limit, ok := rational(f.Minimum); ok && v.Cmp(limit) < 0 {
		return "must be at least " + f.Minimum.String()
	}
	if limit, ok := rational(f.Maximum); ok && v.Cmp(limit) > 0 {
		return "must be at most " + f.Maximum.String()
	}
	return ""
}

// rational is n exactly. Long numbers are refused before they are computed:
// 1e999999999 would take all memory.
func rational(n json.Number) (*big.Rat, bool) {
	s := n.String()
	if i := strings.IndexAny(s, "eE"); len(s) > 400 || i >= 0 && len(s)-i > 5 {
		return nil, false
	}
	return new(big.Rat).SetString(s)
}

// checkLimits refuses limits that could not be applied.
func (f *formField) checkLimits() error {
	for _, n := range []json.Number{f.Minimum, f.Maximum} {
		if _, ok := rational(n); n != "" && !ok {
			return errors.New("has a limit that is out of range")
		}
	}
	return nil
}
