package hitl

import (
	"encoding/json"

	"github.com/banksman/banksman/pkg/hitl/internal/display"
)

// Visible returns s with everything a reader could not see written as a token
// such as ⟦U+202E⟧: controls (but line feed and tab), direction marks,
// zero-width and padding characters, tags, private and unassigned ones, and the
// token brackets themselves, so that no text can pretend to be a token. hidden
// counts the tokens.
func Visible(s string) (text string, hidden int) { return display.Visible(s) }

// DisplayString decodes a JSON string literal for people. Lone surrogates,
// which decoding would silently replace, become tokens. ok is false for
// anything but a string.
func DisplayString(raw json.RawMessage) (text string, hidden int, ok bool) {
	return display.String(raw)
}

// DisplayJSON indents a JSON value for people: keys in their order, numbers
// verbatim, invisible characters as tokens.
func DisplayJSON(raw json.RawMessage) (text string, hidden int) { return display.JSON(raw) }
