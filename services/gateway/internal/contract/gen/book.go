package main

import (
	"encoding/json"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
)

type schema = jsonschema.Schema

// book is the definitions of one document. What a field may not be left out of
// is required; what is required and a list may be null, because a nil one
// encodes so.
type book struct {
	prefix string // of references to the definitions
	docs   map[string]string
	defs   map[string]*schema
}

func newBook(prefix string, docs map[string]string) *book {
	b := &book{prefix: prefix, docs: docs, defs: map[string]*schema{}}
	b.defs["Time"] = &schema{Type: "string", Format: "date-time", Description: "RFC 3339 in UTC, by the server's clock."}
	b.defs["Duration"] = &schema{Type: "string", Description: docs["hitl.Duration"]}
	b.defs["Outcome"] = enum(docs["hitl.Outcome"],
		hitl.Allowed, hitl.Denied, hitl.Answered, hitl.Clarify, hitl.Dismissed, hitl.Expired, hitl.Cancelled, hitl.Orphaned, hitl.InvalidIX)
	b.defs["Status"] = enum(docs["hitl.Status"],
		hitl.Accepted, hitl.Duplicate, hitl.AlreadyDecided, hitl.TooLate, hitl.NotFound, hitl.BadInput, hitl.Forbidden,
		hitl.DigestMismatch, hitl.Unavailable)
	return b
}

func enum[S ~string](doc string, values ...S) *schema {
	s := &schema{Type: "string", Description: doc}
	for _, v := range values {
		s.Enum = append(s.Enum, string(v))
	}
	return s
}

func oneOf(list ...*schema) *schema { return &schema{OneOf: list} }

// names are for types whose own name another type has.
var names = map[reflect.Type]string{
	reflect.TypeFor[hitl.Question](): "RequestQuestion",
	reflect.TypeFor[hitl.Option]():   "RequestOption",
}

// words are the fields that take some values only. Where a gateway may one day
// say another word the comment tells the words, and clients pass over others.
var words = map[string][]string{
	"hitl.Response.Decision": {hitl.VerbAllow, hitl.VerbDeny},
	"hitl.Response.Action":   {hitl.VerbClarify, hitl.VerbDismiss},
	"hitl.Response.Scope":    {"once", "session"},
	"hitl.Attachment.Kind":   {"image", "document"},
	"wire.Body.Scopes":       {"once", "session"},
	"wire.Interaction.State": {wire.StatePending, wire.StateClosed},
	"wire.Closed.State":      {wire.StateClosed},
	"wire.Alerts.Notifier":   {wire.NotifierAnswered, wire.NotifierSilent},
	"wire.AskReply.Status":   {wire.AskDecided, wire.AskPending},
	"wire.Error.Code":        codes(),
	"wire.NewRule.Effect":    {wire.RuleAllow, wire.RuleDeny},
	"wire.NewRule.Scope":     {wire.RuleSession, wire.RuleProject, wire.RuleOwner},
}

func ref(b *book, name string) *schema { return &schema{Ref: b.prefix + name} }

// of is a reference to the definition of T.
func of[T any](b *book) *schema { return b.of(reflect.TypeFor[T]()) }

func (b *book) of(t reflect.Type) *schema {
	name := t.Name()
	if other, ok := names[t]; ok {
		name = other
	}
	if b.defs[name] == nil {
		b.defs[name] = &schema{} // for what refers to it meanwhile
		b.defs[name] = b.define(t)
	}
	return ref(b, name)
}

func (b *book) define(t reflect.Type) *schema {
	known := map[reflect.Type]*schema{
		reflect.TypeFor[time.Time]():       ref(b, "Time"),
		reflect.TypeFor[hitl.Duration]():   ref(b, "Duration"),
		reflect.TypeFor[hitl.Outcome]():    ref(b, "Outcome"),
		reflect.TypeFor[hitl.Status]():     ref(b, "Status"),
		reflect.TypeFor[json.RawMessage](): {},
	}
	b.nested(t, known)
	s, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: known})
	if err != nil {
		panic(err)
	}
	s.AdditionalProperties = nil // what is not listed may come and is to be ignored
	s.Description = b.docs[path.Base(t.PkgPath())+"."+t.Name()]
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		p := s.Properties[name]
		if f.Anonymous || p == nil {
			continue
		}
		owner := t
		if len(f.Index) > 1 {
			owner = t.FieldByIndex(f.Index[:len(f.Index)-1]).Type
		}
		key := path.Base(owner.PkgPath()) + "." + owner.Name() + "." + f.Name
		p.Description = b.docs[key]
		limited := p
		if p.Items != nil {
			limited = p.Items
		}
		for _, w := range words[key] {
			limited.Enum = append(limited.Enum, w)
		}
		b.narrow(p, slices.Contains(s.Required, name), key)
	}
	b.shadowed(t, s)
	return s
}

// shadowed adds the fields of what is embedded that Go hides behind the name of
// an embedded type, and JSON does not: content of the Content in a Decision.
func (b *book) shadowed(t reflect.Type, s *schema) {
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.Anonymous {
			continue
		}
		hidden, ok := f.Type.FieldByName(f.Name)
		name, _, _ := strings.Cut(hidden.Tag.Get("json"), ",")
		if !ok || s.Properties[name] != nil {
			continue
		}
		s.Properties[name] = b.define(f.Type).Properties[name]
		s.PropertyOrder = append(s.PropertyOrder, name)
	}
}

// narrow takes out the null that this field never has.
func (b *book) narrow(p *schema, required bool, key string) {
	switch {
	case p.Ref != "":
		if required && len(p.Types) > 0 {
			panic("gen: " + key + " is a required pointer")
		}
		p.Types = nil
	case !required || key == "wire.CLIAnswer.Allow":
		p.Types = slices.DeleteFunc(p.Types, func(t string) bool { return t == "null" })
		if len(p.Types) == 1 {
			p.Type, p.Types = p.Types[0], nil
		}
	}
}

// nested notes what the fields of t refer to. What is embedded is a part of t.
func (b *book) nested(t reflect.Type, known map[reflect.Type]*schema) {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			b.nested(f.Type, known)
			continue
		}
		e := f.Type
		for e.Kind() == reflect.Pointer || e.Kind() == reflect.Slice && e != reflect.TypeFor[json.RawMessage]() {
			e = e.Elem()
		}
		if e.Kind() == reflect.Struct && known[e] == nil {
			known[e] = b.of(e)
		}
	}
}

// frame is a definition of T whose type field has one value.
func frame[T any](b *book, typ string) *schema {
	s := of[T](b)
	constant(b.defs[strings.TrimPrefix(s.Ref, b.prefix)], typ)
	return s
}

func constant(s *schema, typ string) {
	s.Properties["type"] = &schema{Const: jsonschema.Ptr(any(typ))}
}

// pick defines name as a part of the fields of T.
func pick[T any](b *book, name, doc string, required, optional []string) *schema {
	whole := b.define(reflect.TypeFor[T]())
	s := &schema{Type: "object", Description: doc, Properties: map[string]*schema{}, Required: required}
	for _, field := range slices.Concat(required, optional) {
		p := whole.Properties[field]
		if p == nil {
			panic(fmt.Sprintf("gen: %s has no %s", name, field))
		}
		s.Properties[field] = p.CloneSchemas()
		s.PropertyOrder = append(s.PropertyOrder, field)
	}
	b.defs[name] = s
	return ref(b, name)
}
