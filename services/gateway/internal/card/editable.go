package card

import (
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/banksman/banksman/pkg/hitl"
)

// editable is raw, a JSON value, as a text that a person can edit: the same value
// to the last byte, with what nobody would see of its strings as JSON escapes.
func editable(raw []byte) string {
	text := string(raw)
	if _, hidden := hitl.Visible(text); hidden == 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if _, hidden := hitl.Visible(string(r)); hidden == 0 || r < utf8.RuneSelf && r != 0x7F {
			b.WriteRune(r) // outside of strings JSON has blanks only
			continue
		}
		if hi, lo := utf16.EncodeRune(r); hi != utf8.RuneError {
			fmt.Fprintf(&b, `\u%04x\u%04x`, hi, lo)
		} else {
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
