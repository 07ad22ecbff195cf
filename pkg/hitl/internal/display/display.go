// Package display writes what an agent sent so that a person sees all of it.
package display

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/banksman/banksman/pkg/hitl/internal/strictjson"
)

// Visible returns s with everything a reader could not see written as a token
// such as ⟦U+202E⟧: controls (but line feed and tab), direction marks,
// zero-width and padding characters, tags, private and unassigned ones, and the
// token brackets themselves, so that no text can pretend to be a token. hidden
// counts the tokens.
func Visible(s string) (text string, hidden int) {
	if plain(s) || utf8.ValidString(s) && !strings.ContainsFunc(s, suspect) {
		return s, 0
	}
	var b strings.Builder
	var before rune
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, "⟦0x%02X⟧", s[i])
			hidden++
		case invisible(r), r == emojiForm && !symbol(before):
			fmt.Fprintf(&b, "⟦U+%04X⟧", r)
			hidden++
		default:
			b.WriteString(s[i : i+n])
		}
		i += n
		before = r
	}
	return b.String(), hidden
}

// plain reports whether s is printable ASCII, as nearly everything is: that
// needs no table of Unicode.
func plain(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; (c < ' ' || c > '~') && c != '\n' && c != '\t' {
			return false
		}
	}
	return true
}

// emojiForm asks for the coloured form of the symbol before it: everyday text
// there, and as invisible as the others anywhere else.
const emojiForm = 0xFE0F

func symbol(r rune) bool {
	return r > 0x7F && unicode.In(r, unicode.So, unicode.Sm) || r == 0x203C || r == 0x2049 || r == 0x3030
}

func suspect(r rune) bool { return invisible(r) || r == emojiForm }

func invisible(r rune) bool {
	switch {
	case r == '\n' || r == '\t' || r == ' ':
		return false
	case r == '⟦' || r == '⟧':
		return true
	case !unicode.IsGraphic(r): // controls, marks of direction, line separators, private and unassigned ones
		return true
	case unicode.Is(unicode.Zs, r): // every space but U+0020
		return true
	case unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r):
		return true
	case unicode.Is(unicode.Variation_Selector, r):
		return r != emojiForm
	case r == 0x2800, r == 0x1D159: // blank symbols
		return true
	}
	return false
}

// String decodes a JSON string literal for people. Lone surrogates,
// which decoding would silently replace, become tokens.
func String(raw json.RawMessage) (text string, hidden int, ok bool) {
	s, ok := strictjson.Text(raw)
	if !ok {
		return "", 0, false
	}
	if !bytes.Contains(raw, []byte(`\u`)) {
		text, hidden = Visible(s)
		return text, hidden, true
	}
	parts, lone := strictjson.SplitLone(raw)
	if len(lone) == 0 {
		text, hidden = Visible(s)
		return text, hidden, true
	}
	var b strings.Builder
	for i, part := range parts {
		if err := json.Unmarshal(part, &s); err != nil {
			return "", 0, false
		}
		t, n := Visible(s)
		b.WriteString(t)
		hidden += n
		if i < len(lone) {
			fmt.Fprintf(&b, "⟦U+%04X⟧", lone[i])
			hidden++
		}
	}
	return b.String(), hidden, true
}

// JSON indents a JSON value for people: keys in their order, numbers
// verbatim, invisible characters as tokens.
func JSON(raw json.RawMessage) (text string, hidden int) {
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return Visible(string(raw))
	}
	return Visible(b.String())
}

// Pushed finds runs that move the rest of a text out of sight: 20 blanks, or
// four empty lines. It is no regular expression because texts are as long as
// agents like and this is asked of every one.
func Pushed(s string) bool {
	blanks, breaks := 0, 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case ' ', '\t':
			blanks++
		case '\n':
			blanks = 0
			breaks++
		case '\r', '\f':
			blanks, breaks = 0, 0
		default:
			if blanks >= 20 || breaks >= 5 {
				return true
			}
			blanks, breaks = 0, 0
		}
	}
	return false
}

// Lines counts the lines of a text.
func Lines(s string) int {
	if s == "" {
		return 0
	}
	return strings.Count(strings.TrimSuffix(s, "\n"), "\n") + 1
}
