// Package contracttest holds what a gateway says and takes against the
// documents of package contract. What a gateway says must be named there to the
// last field; what it takes must be valid there. It is for tests.
package contracttest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/banksman/banksman/services/gateway/internal/contract"
)

type schema = jsonschema.Schema

// shelf is the definitions of a document, compiled when they are asked for.
type shelf struct {
	defs map[string]*schema

	mu       sync.Mutex
	compiled map[string]*jsonschema.Resolved
}

// check holds value against s, which may refer to the shelf's definitions;
// strict also refuses fields that are not named.
func (l *shelf) check(s *schema, value any, strict bool) error {
	id := fmt.Sprint(strict, s.Ref)
	if s.Ref == "" {
		id += fmt.Sprintf("%p", s) // a part of the document, which stays
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.compiled[id]
	if r == nil {
		root := s.CloneSchemas()
		root.Defs = (&schema{Defs: l.defs}).CloneSchemas().Defs
		if strict {
			tighten(root)
		}
		var err error
		if r, err = root.Resolve(nil); err != nil {
			return fmt.Errorf("the document is no schema: %w", err)
		}
		l.compiled[id] = r
	}
	return r.Validate(value)
}

// tighten refuses in s and below what is not named.
func tighten(s *schema) {
	if s == nil {
		return
	}
	if len(s.Properties) > 0 && s.AdditionalProperties == nil {
		s.AdditionalProperties = &schema{Not: &schema{}}
	}
	for _, m := range []map[string]*schema{s.Defs, s.Properties} {
		for _, c := range m {
			tighten(c)
		}
	}
	for _, c := range append(append([]*schema{s.Items}, s.OneOf...), s.AnyOf...) {
		tighten(c)
	}
}

func decode(raw []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // an agent may write numbers that no machine type holds
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return plain(v), nil
}

// plain makes machine numbers of v's, as large as they get.
func plain(v any) any {
	switch v := v.(type) {
	case json.Number:
		f, _ := v.Float64() // out of range it is an infinity
		return min(max(f, -math.MaxFloat64), math.MaxFloat64)
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = plain(v[k])
		}
	}
	return v
}

// Contract is both documents. Its methods are safe for concurrent use.
type Contract struct {
	frames shelf
	bodies shelf
	ops    map[string]map[string]*operation // by path and method
}

// Load reads the documents.
func Load() (*Contract, error) {
	c := &Contract{}
	var doc schema
	if err := json.Unmarshal(contract.Frames, &doc); err != nil {
		return nil, fmt.Errorf("frames: %w", err)
	}
	c.frames = shelf{defs: doc.Defs, compiled: map[string]*jsonschema.Resolved{}}
	if err := c.loadRoutes(bytes.ReplaceAll(contract.OpenAPI, []byte("#/components/schemas/"), []byte("#/$defs/"))); err != nil {
		return nil, fmt.Errorf("OpenAPI: %w", err)
	}
	return c, nil
}

// ServerMessage checks a message of a gateway and returns its frames.
func (c *Contract) ServerMessage(raw []byte) ([]json.RawMessage, error) {
	var list []json.RawMessage
	if !bytes.HasPrefix(bytes.TrimSpace(raw), []byte("[")) {
		list = append(list, raw)
	} else if err := json.Unmarshal(raw, &list); err != nil {
		return nil, err
	}
	for _, f := range list {
		if err := c.frame("ServerFrame", f, true); err != nil {
			return nil, fmt.Errorf("%w\nin %.1000s", err, f)
		}
	}
	return list, nil
}

// ClientFrame checks a frame of a client.
func (c *Contract) ClientFrame(raw []byte) error { return c.frame("ClientFrame", raw, false) }

func (c *Contract) frame(side string, raw []byte, strict bool) error {
	v, err := decode(raw)
	if err != nil {
		return err
	}
	m, ok := v.(map[string]any)
	if !ok {
		return fmt.Errorf("a frame that is no object: %.100s", raw)
	}
	if events, ok := m["events"].([]any); ok && m["type"] == "event" {
		for i, ev := range events {
			step, ok := ev.(map[string]any)
			if !ok {
				return fmt.Errorf("events[%d] is no object", i)
			}
			if err := c.typed("Event", step, strict); err != nil {
				return fmt.Errorf("events[%d]: %w", i, err)
			}
		}
		m["events"] = []any{}
	}
	return c.typed(side, m, strict)
}

// typed picks the definition by the type of what it has, so that the error says
// what is wrong and not that nothing fits, and soon.
func (c *Contract) typed(side string, m map[string]any, strict bool) error {
	for _, alt := range c.frames.defs[side].OneOf {
		def := c.frames.defs[strings.TrimPrefix(alt.Ref, "#/$defs/")]
		if typ := def.Properties["type"].Const; typ != nil && *typ == m["type"] {
			return c.frames.check(alt, m, strict)
		}
	}
	return fmt.Errorf("%s has no type %v", side, m["type"])
}

// Socket follows one connection. It is not safe for concurrent use.
type Socket struct {
	*Contract
	refused map[string]error // frames that were sent and the schema refuses, by ref
}

// Sent notes a frame of the client.
func (s *Socket) Sent(raw []byte) {
	var head struct{ Ref string }
	_ = json.Unmarshal(raw, &head) // what cannot be read has no ref
	if s.refused == nil {
		s.refused = map[string]error{}
	}
	s.refused[head.Ref] = s.ClientFrame(raw)
}

// Received checks a message of the gateway, and that it took nothing that the
// schema refuses.
func (s *Socket) Received(raw []byte) error {
	list, err := s.ServerMessage(raw)
	if err != nil {
		return err
	}
	for _, f := range list {
		var head struct{ Type, Ref, Status string }
		if err := json.Unmarshal(f, &head); err != nil {
			return err
		}
		if bad := s.refused[head.Ref]; head.Type == "receipt" && bad != nil && (head.Status == "accepted" || head.Status == "duplicate") {
			return fmt.Errorf("the gateway took what the schema refuses: %w", bad)
		}
	}
	return nil
}
