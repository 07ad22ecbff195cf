package strictjson

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// FuzzPlain holds the short way of checking against the long one.
func FuzzPlain(f *testing.F) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, s := range []string{
		"", " ", "{}", "[]", "1 2", `"a"`, `{"a":1}`, `{"a":1,"a":2}`, `{"a":1,"A":2}`, `{"input":{"a":1,"A":2},"Input":3}`,
		`{"input":{"a":1,"a":2}}`, `{"k":1,"\u212a":2}`, `{"k":1,"K":2}`, `{"s":1,"ſ":2}`, `{"\u0061":1,"a":2}`, `{"a":{"a":[{"a":1},{"a":1}]},"b":1}`,
		`{"a":"\"","b":"\\"}`, `{"a":[1,{"b":2,"B":3}]}`, `{"schema":[{"b":2,"B":3}],"b":{"c":0,"C":1}}`, `[{"a":"x,{}[]"},"{",",",":"]`,
		`{"input":1,"b":{"c":0,"C":1}}`, `[{"input":{}},{"c":0,"C":1}]`, `{"a":1,}`, `{"a" :1 , "b": [ ] }`, "{\"a\":\"\x00\"}",
		deep(maxDepth), deep(maxDepth + 1), deep(maxDepth + 2), many(manyKeys), many(manyKeys + 1), `"\ud800"`, `{"":1,"":2}`,
	} {
		f.Add([]byte(s), 0, true)
		f.Add([]byte(s), 1, false)
	}
	f.Fuzz(func(t *testing.T, raw []byte, depth int, fold bool) {
		if depth < 0 || depth > 1 || !utf8.Valid(raw) {
			return
		}
		if plain(raw, depth, fold) {
			require.NoError(t, walk(raw, depth, fold))
		}
	})
}

func many(keys int) string {
	m := map[string]int{}
	for i := range keys {
		m[strings.Repeat("k", i+1)] = i
	}
	raw, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// What the records usually are takes the short way, and nothing wrong does.
func TestPlainTakesTheUsual(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]bool{
		`{"v":1,"tool":{"name":"Bash","input":{"command":"a \"b\"","Command":1}},"list":[{"id":1},{"id":2}]}`: true,
		many(manyKeys):                            true,
		many(manyKeys + 1):                        false,
		`{"input":{"a":1,"A":2}}`:                 true,
		`{"a":1,"A":2}`:                           false,
		`{"input":{"a":1,"a":2}}`:                 false,
		`[{"input":0,"b":{"c":1}},{"c":0,"C":1}]`: false,
		`{"input":0,"b":{"c":0,"C":1}}`:           false,
		`{"\u0061":1}`:                            false,
		`{"ä":1}`:                                 false,
		`{"a":1} `:                                true,
		`{"a":1} 2`:                               false,
		`{"a":1,}`:                                false,
		``:                                        false,
	} {
		require.Equal(t, want, plain([]byte(raw), 0, true), raw)
	}
}

func BenchmarkCheck(b *testing.B) {
	raw := []byte(`{"v":1,"id":"0193","key":"k","kind":"approval","tenant":"default","owner":"agents","session_id":"s","agent_name":"bench","tool_call_id":"c","title":"Run make deploy","tool":{"name":"Bash","input":{"command":"make deploy ` +
		strings.Repeat("TARGET=staging ", 44) + `","description":"Deploy"},"cwd":"/home"}}`)
	b.Run("plain", func(b *testing.B) {
		for b.Loop() {
			plain(raw, 0, true)
		}
	})
	b.Run("walk", func(b *testing.B) {
		for b.Loop() {
			_ = walk(raw, 0, true)
		}
	})
}
