package claude

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// MaxLine bounds one line in either direction, in bytes.
const MaxLine = 32 << 20

var (
	lineSep, lineSepEsc = []byte("\u2028"), []byte(`\u2028`)
	paraSep, paraSepEsc = []byte("\u2029"), []byte(`\u2029`)
)

// lineSafe checks a JSON value given by a caller and makes it fit on one line
// without touching any token. A line that does not parse ends the CLI, so
// nothing unchecked may pass.
func lineSafe(field string, raw []byte, open byte) ([]byte, error) {
	raw = bytes.TrimSpace(raw)
	what := "object"
	if open == '[' {
		what = "array"
	}
	switch {
	case len(raw) == 0 || raw[0] != open:
		return nil, &InputError{field, "not a JSON " + what}
	case !utf8.Valid(raw):
		return nil, &InputError{field, "invalid UTF-8"}
	case !json.Valid(raw):
		return nil, &InputError{field, "invalid JSON"}
	}
	if bytes.ContainsAny(raw, "\r\n\u2028\u2029") {
		// In valid JSON a bare line break only stands between tokens, and the
		// separators only inside strings.
		raw = bytes.Map(func(r rune) rune {
			if r == '\r' || r == '\n' {
				return ' '
			}
			return r
		}, raw)
		raw = bytes.ReplaceAll(raw, lineSep, lineSepEsc)
		raw = bytes.ReplaceAll(raw, paraSep, paraSepEsc)
	}
	return raw, nil
}

// quote writes a string as the CLI itself would, without HTML escapes.
func quote(s string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string always encodes
	return bytes.TrimRight(b.Bytes(), "\n")
}

// answerLine is the reply to a request of the CLI. body is spliced in as it is:
// json.Marshal would rewrite raw values.
func answerLine(requestID string, body []byte) []byte {
	return fmt.Appendf(nil, `{"type":"control_response","response":{"subtype":"success","request_id":%s,"response":%s}}`,
		quote(requestID), body)
}

func refusalLine(r *refusal) []byte {
	return fmt.Appendf(nil, `{"type":"control_response","response":{"subtype":"error","request_id":%s,"error":%s}}`,
		quote(r.requestID), quote(r.message))
}

func allowBody(input, permissions []byte) []byte {
	b := fmt.Appendf(nil, `{"behavior":"allow","updatedInput":%s`, input)
	if len(permissions) > 0 {
		b = fmt.Appendf(b, `,"updatedPermissions":%s`, permissions)
	}
	return append(b, '}')
}

func denyBody(message string, interrupt bool) []byte {
	return fmt.Appendf(nil, `{"behavior":"deny","message":%s,"interrupt":%t}`, quote(message), interrupt)
}
