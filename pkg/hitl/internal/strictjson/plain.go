package strictjson

import (
	"bytes"
	"encoding/json"
)

// manyKeys bounds the keys of one object that plain compares with each other.
const manyKeys = 64

// level is an array or object around the place that plain has reached.
type level struct {
	object bool
	fold   bool // of what is in it
	keys   int  // where its keys begin among those of all levels
}

// plain reports that walk would find nothing wrong with raw. It takes about a
// twentieth of the time, and gives up where it would have to think:
// keys with escapes or beyond ASCII, objects of many keys, deep nesting.
func plain(raw []byte, depth int, fold bool) bool {
	if !json.Valid(raw) {
		return false
	}
	levels, keys := make([]level, 0, 16), make([][]byte, 0, 64)
	isKey := false // the next string is one
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '{', '[':
			if depth+len(levels) >= maxDepth {
				return false
			}
			isKey = raw[i] == '{'
			levels = append(levels, level{isKey, fold, len(keys)})
		case '}', ']':
			last := len(levels) - 1
			levels, keys = levels[:last], keys[:levels[last].keys]
			isKey = false
		case ',':
			in := levels[len(levels)-1]
			isKey, fold = in.object, in.fold
		case '"':
			end := i + 1
			for ; raw[end] != '"'; end++ {
				if raw[end] == '\\' {
					if isKey {
						return false
					}
					end++
				}
			}
			if isKey {
				in, key := levels[len(levels)-1], raw[i+1:end]
				if len(keys)-in.keys == manyKeys || !isNew(key, keys[in.keys:], in.fold) {
					return false
				}
				keys = append(keys, key)
				isKey, fold = false, in.fold && !opaque[string(key)]
			}
			i = end
		}
	}
	return true
}

// isNew reports that key is all ASCII and none of keys, which are, too.
func isNew(key []byte, keys [][]byte, fold bool) bool {
	for _, c := range key {
		if c >= 0x80 {
			return false
		}
	}
	for _, k := range keys {
		if len(k) == len(key) && (bytes.Equal(k, key) || fold && bytes.EqualFold(k, key)) {
			return false
		}
	}
	return true
}
