package hitl

import "github.com/banksman/banksman/pkg/hitl/internal/strictjson"

// CheckJSON reports why raw is not one well-formed JSON value in valid UTF-8
// without duplicate keys. Outside fields whose content belongs to somebody else
// (tool input and the like), keys that Go would decode into one field count as
// duplicates too, whatever their case.
func CheckJSON(raw []byte) error { return strictjson.Check(raw) }

// Canonical returns raw with sorted keys, without insignificant white space
// and with every string written in one way; numbers stay as they were written,
// so 1 and 1.0 differ. Two documents are the same content exactly when their
// canonical forms are equal.
func Canonical(raw []byte) ([]byte, error) { return strictjson.Canonical(raw) }

// Marshal encodes v without HTML escaping: a megabyte of "<" stays a megabyte.
func Marshal(v any) ([]byte, error) { return strictjson.Marshal(v) }
