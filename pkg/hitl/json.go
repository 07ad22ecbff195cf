package hitl

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sort"
	"strconv"
	"strings"
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

// CheckJSON reports why raw is not one well-formed JSON value in valid UTF-8
// without duplicate keys. Outside opaque fields, keys that differ only in case
// count as duplicates, because Go would decode both into one field.
func CheckJSON(raw []byte) error {
	if !utf8.Valid(raw) {
		return errors.New("invalid UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := checkValue(dec, "", 0, true); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("data after the JSON value")
	}
	return nil
}

func checkValue(dec *json.Decoder, path string, depth int, fold bool) error {
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
			if err := checkValue(dec, path+"["+strconv.Itoa(i)+"]", depth+1, fold); err != nil {
				return err
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
			id = strings.ToLower(key)
		}
		at := strings.TrimPrefix(path+"."+key, ".")
		if seen[id] {
			return fmt.Errorf("duplicate key %q", at)
		}
		seen[id] = true
		if err := checkValue(dec, at, depth+1, fold && !opaque[key]); err != nil {
			return err
		}
	}
	_, err = dec.Token()
	return jsonErr(err)
}

func jsonErr(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Canonical returns raw with sorted keys and without insignificant white
// space; numbers stay as they were written, so 1 and 1.0 differ. Two documents
// are the same content exactly when their canonical forms are equal.
func Canonical(raw []byte) ([]byte, error) {
	if err := CheckJSON(raw); err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := writeCanonical(&b, v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func writeCanonical(b *bytes.Buffer, v any) error {
	switch v := v.(type) {
	case map[string]any:
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		sort.Strings(keys)
		b.WriteByte('{')
		for i, k := range keys {
			if i > 0 {
				b.WriteByte(',')
			}
			s, err := Marshal(k)
			if err != nil {
				return err
			}
			b.Write(s)
			b.WriteByte(':')
			if err := writeCanonical(b, v[k]); err != nil {
				return err
			}
		}
		b.WriteByte('}')
	case []any:
		b.WriteByte('[')
		for i, e := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := writeCanonical(b, e); err != nil {
				return err
			}
		}
		b.WriteByte(']')
	default:
		s, err := Marshal(v)
		if err != nil {
			return err
		}
		b.Write(s)
	}
	return nil
}

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
