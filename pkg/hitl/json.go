package hitl

import (
	"encoding/json"

	"github.com/banksman/banksman/pkg/hitl/internal/strictjson"
)

// CheckJSON reports why raw is not one well-formed JSON value in valid UTF-8
// without duplicate keys. Outside fields whose content belongs to somebody else
// (tool input and the like), keys that Go would decode into one field count as
// duplicates too, whatever their case.
func CheckJSON(raw []byte) error { return strictjson.Check(raw) }

// Decode reads a record that has no parser of its own; what names it where the
// whole is wrong. The error, if any, is an *InvalidError: like [CheckJSON] it
// refuses what two readers could read in two ways.
func Decode(raw []byte, what string, v any) error {
	if err := CheckJSON(raw); err != nil {
		return Invalid(what, "%v", err)
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return decodeErr(what, err)
	}
	return nil
}

// Member is the value of an object's member, nil where it has none of exactly
// this name; object is valid JSON. Decoding into a struct would take a member whose
// name differs in case for it, and that is not the one that a tool reads.
func Member(object json.RawMessage, name string) json.RawMessage {
	return strictjson.Member(object, name)
}

// MemberText is a member's text, empty where it is no text.
func MemberText(object json.RawMessage, name string) (text string) {
	text, _ = strictjson.Text(strictjson.Member(object, name))
	return text
}

// Canonical returns raw with sorted keys, without insignificant white space
// and with every string written in one way; numbers stay as they were written,
// so 1 and 1.0 differ. Two documents are the same content exactly when their
// canonical forms are equal.
func Canonical(raw []byte) ([]byte, error) { return strictjson.Canonical(raw) }

// Marshal encodes v without HTML escaping: a megabyte of "<" stays a megabyte.
func Marshal(v any) ([]byte, error) { return strictjson.Marshal(v) }
