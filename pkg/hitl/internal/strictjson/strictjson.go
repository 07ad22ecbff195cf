// Package strictjson reads JSON documents the way that everybody who decodes
// them afterwards does: nothing in them may be read in two ways.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth bounds the nesting of any document that is accepted.
const maxDepth = 200

// opaque names the fields whose content belongs to somebody else: below them
// keys that differ only in case are legitimate.
var opaque = map[string]bool{
	"input": true, "input_schema": true, "schema": true, "content": true,
	"updated_input": true, "suggestions": true, "diff": true, "answers": true,
}

// Check reports why raw is not one well-formed JSON value in valid UTF-8
// without duplicate keys. Outside opaque fields, keys that differ only in case
// count as duplicates, because Go would decode both into one field.
func Check(raw []byte) error { return check(raw, 0, true) }

// CheckExact is Check for documents whose keys are somebody else's: those that
// differ in case are different keys.
func CheckExact(raw []byte) error { return check(raw, 0, false) }

// CheckMember is CheckExact for what becomes a member of a record. The record as
// a whole has to pass Check again, so this one nests a level less.
func CheckMember(raw []byte) error { return check(raw, 1, false) }

func check(raw []byte, depth int, fold bool) error {
	if !utf8.Valid(raw) {
		return errors.New("invalid UTF-8")
	}
	if plain(raw, depth, fold) {
		return nil
	}
	return walk(raw, depth, fold)
}

// walk is check for whatever is valid UTF-8. It tells what is wrong, and where.
func walk(raw []byte, depth int, fold bool) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := checkValue(dec, depth, fold); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("data after the JSON value")
	}
	return nil
}

// maxPath is about how long the place in an error gets, in bytes.
const maxPath = 500

// duplicate is a key that stands twice; at is where, put together on the way
// up, because a path for every key would cost the square of the document.
type duplicate struct{ at string }

func (d *duplicate) Error() string { return fmt.Sprintf("duplicate key %q", d.at) }

func (d *duplicate) below(parent string) {
	switch {
	case len(d.at) > maxPath: // enough to find it
	case strings.HasPrefix(d.at, "["):
		d.at = parent + d.at
	default:
		d.at = parent + "." + d.at
	}
}

func checkValue(dec *json.Decoder, depth int, fold bool) error {
	if depth > maxDepth {
		return fmt.Errorf("nested deeper than %d", maxDepth)
	}
	tok, err := dec.Token()
	if err != nil {
		return jsonErr(err)
	}
	d, ok := tok.(json.Delim)
	if !ok {
		return nil
	}
	if d == '[' {
		for i := 0; dec.More(); i++ {
			if err := checkValue(dec, depth+1, fold); err != nil {
				return within(err, "["+strconv.Itoa(i)+"]")
			}
		}
		_, err = dec.Token()
		return jsonErr(err)
	}
	seen := map[string]bool{}
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return jsonErr(err)
		}
		key, _ := tok.(string)
		id := key
		if fold {
			id = foldKey(key)
		}
		if seen[id] {
			return &duplicate{key}
		}
		seen[id] = true
		if err := checkValue(dec, depth+1, fold && !opaque[key]); err != nil {
			return within(err, key)
		}
	}
	_, err = dec.Token()
	return jsonErr(err)
}

func within(err error, parent string) error {
	if d, ok := err.(*duplicate); ok {
		d.below(parent)
	}
	return err
}

// foldKey maps the keys that Go decodes into one field to one text: letters in
// either case, and those that Unicode folds to them, such as the long s.
func foldKey(key string) string {
	return strings.Map(func(r rune) rune {
		lowest := r
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			lowest = min(lowest, f)
		}
		return lowest
	}, key)
}

func jsonErr(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Canonical returns raw with sorted keys, without insignificant white space
// and with every string written in one way; numbers stay as they were written,
// so 1 and 1.0 differ, and so do a lone surrogate and the character that stands
// for it. Two documents are the same content exactly when their canonical forms
// are equal.
func Canonical(raw []byte) ([]byte, error) {
	if err := CheckExact(raw); err != nil {
		return nil, err
	}
	c := canonicalizer{dec: json.NewDecoder(bytes.NewReader(raw)), raw: raw}
	c.dec.UseNumber()
	return c.value()
}

type canonicalizer struct {
	dec *json.Decoder
	raw []byte
}

// token returns the next token and how it is written.
func (c *canonicalizer) token() (json.Token, []byte, error) {
	from := c.dec.InputOffset()
	tok, err := c.dec.Token()
	if err != nil {
		return nil, nil, jsonErr(err)
	}
	return tok, bytes.TrimLeft(c.raw[from:c.dec.InputOffset()], " \t\r\n,:"), nil
}

func (c *canonicalizer) value() ([]byte, error) {
	tok, lit, err := c.token()
	if err != nil {
		return nil, err
	}
	switch tok {
	case json.Delim('{'):
		return c.members()
	case json.Delim('['):
		parts := [][]byte{}
		for c.dec.More() {
			v, err := c.value()
			if err != nil {
				return nil, err
			}
			parts = append(parts, v)
		}
		_, _, err := c.token()
		return enclose('[', parts, ']'), err
	}
	if s, ok := tok.(string); ok {
		return canonicalString(s, lit)
	}
	return lit, nil
}

func (c *canonicalizer) members() ([]byte, error) {
	var parts [][]byte
	for c.dec.More() {
		tok, lit, err := c.token()
		if err != nil {
			return nil, err
		}
		key, err := canonicalString(tok.(string), lit)
		if err != nil {
			return nil, err
		}
		v, err := c.value()
		if err != nil {
			return nil, err
		}
		parts = append(parts, slices.Concat(key, []byte{':'}, v))
	}
	slices.SortFunc(parts, bytes.Compare)
	_, _, err := c.token()
	return enclose('{', parts, '}'), err
}

func enclose(open byte, parts [][]byte, end byte) []byte {
	return slices.Concat([]byte{open}, bytes.Join(parts, []byte{','}), []byte{end})
}

// canonicalString writes s, whose literal is lit, the way Marshal does, with
// lone surrogates as escapes.
func canonicalString(s string, lit []byte) ([]byte, error) {
	if !bytes.Contains(lit, []byte(`\u`)) {
		return Marshal(s)
	}
	parts, lone := SplitLone(lit)
	out := []byte{'"'}
	for i, part := range parts {
		if err := json.Unmarshal(part, &s); err != nil {
			return nil, err
		}
		enc, err := Marshal(s)
		if err != nil {
			return nil, err
		}
		out = append(out, enc[1:len(enc)-1]...)
		if i < len(lone) {
			out = fmt.Appendf(out, `\u%04x`, lone[i])
		}
	}
	return append(out, '"'), nil
}

// SplitLone cuts a string literal at its unpaired surrogate escapes, which decoding
// would silently replace: parts are literals around them.
func SplitLone(raw []byte) (parts [][]byte, lone []rune) {
	body := bytes.TrimSpace(raw)
	body = body[1 : len(body)-1]
	start := 0
	for i := 0; i < len(body); {
		if body[i] != '\\' {
			i++
			continue
		}
		if body[i+1] != 'u' {
			i += 2
			continue
		}
		r := escape(body[i:])
		if !utf16.IsSurrogate(r) {
			i += 6
			continue
		}
		if i+12 <= len(body) && body[i+6] == '\\' && body[i+7] == 'u' &&
			utf16.DecodeRune(r, escape(body[i+6:])) != unicode.ReplacementChar {
			i += 12
			continue
		}
		parts = append(parts, quoted(body[start:i]))
		lone = append(lone, r)
		i += 6
		start = i
	}
	return append(parts, quoted(body[start:])), lone
}

func escape(b []byte) rune {
	var r rune
	for _, c := range b[2:6] {
		r <<= 4
		switch {
		case c >= '0' && c <= '9':
			r |= rune(c - '0')
		case c >= 'a' && c <= 'f':
			r |= rune(c-'a') + 10
		case c >= 'A' && c <= 'F':
			r |= rune(c-'A') + 10
		}
	}
	return r
}

func quoted(b []byte) []byte { return append(append([]byte{'"'}, b...), '"') }

// Marshal encodes v without HTML escaping: a megabyte of "<" stays a megabyte.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
