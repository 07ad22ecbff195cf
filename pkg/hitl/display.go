package hitl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Visible returns s with everything a reader could not see written as a token
// such as ⟦U+202E⟧: controls (but line feed and tab), direction marks,
// zero-width and padding characters, tags, and the token brackets themselves,
// so that no text can pretend to be a token. hidden counts the tokens.
func Visible(s string) (text string, hidden int) {
	if utf8.ValidString(s) && !strings.ContainsFunc(s, suspect) {
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
	case unicode.Is(unicode.Cc, r), unicode.Is(unicode.Cf, r), unicode.Is(unicode.Zl, r), unicode.Is(unicode.Zp, r):
		return true
	case unicode.Is(unicode.Zs, r): // every space but U+0020
		return true
	case unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r):
		return true
	case unicode.Is(unicode.Variation_Selector, r):
		return r != emojiForm
	case unicode.Is(unicode.Noncharacter_Code_Point, r), r == 0x2800, r == 0x1D159: // blank symbols
		return true
	}
	return false
}

// DisplayString decodes a JSON string literal for people. Lone surrogates,
// which decoding would silently replace, become tokens.
func DisplayString(raw json.RawMessage) (text string, hidden int, ok bool) {
	var s string
	if err := json.Unmarshal(raw, &s); err != nil || !bytes.HasPrefix(bytes.TrimSpace(raw), []byte{'"'}) {
		return "", 0, false
	}
	if !bytes.Contains(raw, []byte(`\u`)) {
		text, hidden = Visible(s)
		return text, hidden, true
	}
	parts, lone := splitLone(raw)
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

// splitLone cuts a string literal at its unpaired surrogate escapes.
func splitLone(raw []byte) (parts [][]byte, lone []rune) {
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

// DisplayJSON indents a JSON value for people: keys in their order, numbers
// verbatim, invisible characters as tokens.
func DisplayJSON(raw json.RawMessage) (text string, hidden int) {
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return Visible(string(raw))
	}
	return Visible(b.String())
}
