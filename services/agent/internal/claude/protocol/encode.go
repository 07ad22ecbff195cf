package protocol

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
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

// AllowLine lets a tool run with input, a JSON object. permissions is a JSON
// array of permission updates, or nil.
func AllowLine(requestID string, input, permissions json.RawMessage) ([]byte, error) {
	in, err := lineSafe("updatedInput", input, '{')
	if err != nil {
		return nil, err
	}
	b := fmt.Appendf(nil, `{"behavior":"allow","updatedInput":%s`, in)
	if permissions != nil {
		perms, err := lineSafe("updatedPermissions", permissions, '[')
		if err != nil {
			return nil, err
		}
		b = fmt.Appendf(b, `,"updatedPermissions":%s`, perms)
	}
	line := answerLine(requestID, append(b, '}'))
	if len(line) > MaxLine {
		return nil, &InputError{"updatedInput", "too large for one line"}
	}
	return line, nil
}

// DenyLine refuses a tool call with the words the model will read.
func DenyLine(requestID, message string, interrupt bool) ([]byte, error) {
	if strings.TrimSpace(message) == "" {
		return nil, &InputError{"message", "empty: the CLI would make up its own"}
	}
	return answerLine(requestID, fmt.Appendf(nil, `{"behavior":"deny","message":%s,"interrupt":%t}`, quote(message), interrupt)), nil
}

// The actions of an answer to an Elicitation.
const (
	Accept  = "accept"
	Decline = "decline"
	Cancel  = "cancel"
)

// ElicitationLine answers a form. content is a JSON object, for Accept only.
func ElicitationLine(requestID, action string, content json.RawMessage) ([]byte, error) {
	switch {
	case action != Accept && action != Decline && action != Cancel:
		return nil, &InputError{"action", "must be accept, decline or cancel"}
	case content == nil:
		return answerLine(requestID, fmt.Appendf(nil, `{"action":%s}`, quote(action))), nil
	case action != Accept:
		return nil, &InputError{"content", "only goes with accept"}
	}
	c, err := lineSafe("content", content, '{')
	if err != nil {
		return nil, err
	}
	return answerLine(requestID, fmt.Appendf(nil, `{"action":"accept","content":%s}`, c)), nil
}

// RefusalLine answers a request with an error.
func RefusalLine(r *Refusal) []byte {
	return fmt.Appendf(nil, `{"type":"control_response","response":{"subtype":"error","request_id":%s,"error":%s}}`,
		quote(r.RequestID), quote(r.Message))
}

// InitializeLine asks the CLI for what it is, and for the requests that wait.
func InitializeLine(id string) []byte { return requestLine(id, `"subtype":"initialize"`) }

// InterruptLine stops the turn.
func InterruptLine(id string) []byte { return requestLine(id, `"subtype":"interrupt"`) }

// SetModeLine changes the permission mode.
func SetModeLine(id, mode string) []byte {
	return requestLine(id, `"subtype":"set_permission_mode","mode":`+string(quote(mode)))
}

func requestLine(id, fields string) []byte {
	return fmt.Appendf(nil, `{"type":"control_request","request_id":%s,"request":{%s}}`, quote(id), fields)
}
