package strictjson

import "encoding/json"

// Member is the value of an object's member of exactly this name; the last one counts,
// as for everybody who decodes into a map. Nil where there is none, or no object. It
// looks for nothing else and so takes raw for valid JSON: of anything else it may
// return any part.
func Member(raw []byte, name string) (value json.RawMessage) {
	i := space(raw, 0)
	if i >= len(raw) || raw[i] != '{' {
		return nil
	}
	for i = space(raw, i+1); i < len(raw) && raw[i] == '"'; i = space(raw, i+1) {
		end := text(raw, i)
		key := raw[i:end]
		i = space(raw, space(raw, end)+1) // past the colon
		end = past(raw, i)
		if is(key, name) && i < end {
			value = raw[i:end]
		}
		if i = space(raw, end); i >= len(raw) || raw[i] != ',' {
			break
		}
	}
	return value
}

// Text decodes a JSON string; ok is false for anything else. Most are taken as they
// stand: nothing to decode is in them.
func Text(raw []byte) (s string, ok bool) {
	if n := len(raw); n > 1 && raw[0] == '"' && raw[n-1] == '"' && asIs(raw[1:n-1]) {
		return string(raw[1 : n-1]), true
	}
	i := space(raw, 0)
	ok = i < len(raw) && raw[i] == '"' && json.Unmarshal(raw, &s) == nil
	return s, ok
}

// asIs reports whether a string's inside is printable ASCII without escapes.
func asIs(inside []byte) bool {
	for _, c := range inside {
		if c < ' ' || c > '~' || c == '\\' || c == '"' {
			return false
		}
	}
	return true
}

// is reports whether a key, with its quotes, says name.
func is(key []byte, name string) bool {
	if len(key) == len(name)+2 && string(key[1:len(key)-1]) == name {
		return true
	}
	for _, c := range key {
		if c == '\\' || c >= 0x80 { // written in another way, or not UTF-8
			var s string
			return json.Unmarshal(key, &s) == nil && s == name
		}
	}
	return false
}

func space(raw []byte, i int) int {
	for i < len(raw) && (raw[i] == ' ' || raw[i] == '\t' || raw[i] == '\n' || raw[i] == '\r') {
		i++
	}
	return i
}

// text returns where the string that begins at i ends.
func text(raw []byte, i int) int {
	for i++; i < len(raw); i++ {
		switch raw[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(raw)
}

// past returns where the value that begins at i ends.
func past(raw []byte, i int) int {
	for depth := 0; i < len(raw); {
		switch raw[i] {
		case '"':
			if i = text(raw, i); depth == 0 {
				return i
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
			if depth < 0 {
				return i
			}
		case ',', ' ', '\t', '\n', '\r':
			if depth == 0 {
				return i
			}
		}
		i++
	}
	return len(raw)
}
