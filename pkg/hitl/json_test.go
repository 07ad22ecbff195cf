package hitl_test

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
)

func TestCheckJSON(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, raw string
		problem   string // empty: fine
	}{
		{"object", `{"a":1,"b":[{"a":1},{"a":2}]}`, ""},
		{"number", `1`, ""},
		{"same keys in different objects", `{"a":{"x":1},"b":{"x":1}}`, ""},
		{"duplicate", `{"a":1,"a":2}`, `duplicate key "a"`},
		{"duplicate at depth", `{"a":[{"b":{"c":1,"c":2}}]}`, `duplicate key "a[0].b.c"`},
		{"duplicate by escape", `{"a":1,"\u0061":2}`, `duplicate key "a"`},
		{"duplicate by case", `{"decision":1,"Decision":2}`, `duplicate key "Decision"`},
		{"duplicate by the long s", `{"risk":"high","riſk":"low"}`, `duplicate key`},
		{"duplicate by the Kelvin sign", `{"key":1,"\u212aey":2}`, `duplicate key`},
		{"case differs in tool input", `{"tool":{"input":{"path":1,"Path":2}}}`, ""},
		{"duplicate in tool input", `{"tool":{"input":{"path":1,"path":2}}}`, `duplicate key "tool.input.path"`},
		{"duplicate below tool input", `{"tool":{"input":{"a":[{"b":1,"b":2}]}}}`, `duplicate key "tool.input.a[0].b"`},
		{"case differs beside tool input", `{"tool":{"name":1,"Name":2,"input":{}}}`, `duplicate key "tool.Name"`},
		{"invalid UTF-8", "{\"a\":\"\xff\"}", "invalid UTF-8"},
		{"two values", `{} {}`, "data after"},
		{"garbage behind", `{}x`, "data after"},
		{"cut off", `{"a":`, "unexpected EOF"},
		{"empty", ``, "unexpected EOF"},
		{"not JSON", `{a:1}`, "invalid character"},
		{"deep", strings.Repeat("[", 201) + strings.Repeat("]", 201), ""},
		{"too deep", strings.Repeat("[", 202) + strings.Repeat("]", 202), "nested deeper"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			err := hitl.CheckJSON([]byte(c.raw))
			if c.problem == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.problem)
		})
	}
}

// TestCheckJSONIsLinear: a long key above many short ones is not copied for each
// of them. Not parallel, because it counts what the process allocates.
func TestCheckJSONIsLinear(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"` + strings.Repeat("k", 500_000) + `":{`)
	for i := range 40_000 {
		b.WriteString(`"` + strings.Repeat("a", i%7) + string(rune('A'+i%26)) + time.Duration(i).String() + `":0,`)
	}
	b.WriteString(`"z":0,"z":1}}`)
	raw := []byte(b.String())
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	require.ErrorContains(t, hitl.CheckJSON(raw), "duplicate key")
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(100<<20), "bytes for %d of input", len(raw))
}

func TestCanonical(t *testing.T) {
	t.Parallel()
	same := func(name, a, b string) {
		t.Run("B-55 same: "+name, func(t *testing.T) {
			t.Parallel()
			ca, err := hitl.Canonical([]byte(a))
			require.NoError(t, err)
			cb, err := hitl.Canonical([]byte(b))
			require.NoError(t, err)
			require.Equal(t, string(ca), string(cb))
			again, err := hitl.Canonical(ca)
			require.NoError(t, err)
			require.Equal(t, string(ca), string(again))
		})
	}
	differ := func(name, a, b string) {
		t.Run("B-55 different: "+name, func(t *testing.T) {
			t.Parallel()
			ca, err := hitl.Canonical([]byte(a))
			require.NoError(t, err)
			cb, err := hitl.Canonical([]byte(b))
			require.NoError(t, err)
			require.NotEqual(t, string(ca), string(cb))
		})
	}
	same("key order", `{"b":1,"a":{"d":[1,2],"c":null}}`, `{"a":{"c":null,"d":[1,2]},"b":1}`)
	same("white space", `{"a":[1,2]}`, " { \"a\" : [ 1 ,\n\t2 ] } ")
	same("escapes", `{"a":"\u0041\/<"}`, `{"a":"A/\u003c"}`)
	same("surrogate pair", `"\ud83d\ude00"`, `"😀"`)
	same("empty", `[{},[]]`, ` [ { } , [ ] ] `)
	differ("1 and 1.0", `{"n":1}`, `{"n":1.0}`)
	differ("1e2 and 100", `1e2`, `100`)
	differ("large numbers", `9007199254740993`, `9007199254740992`)
	differ("absent and null", `{}`, `{"a":null}`)
	differ("absent and default", `{"command":"ls"}`, `{"command":"ls","purge":false}`)
	differ("list order", `[1,2]`, `[2,1]`)
	differ("case of keys", `{"a":1}`, `{"A":1}`)
	differ("a number and its text", `1`, `"1"`)
	differ("a lone surrogate and its stand-in", `"\ud800"`, `"\ufffd"`)
	differ("two lone surrogates", `"\ud800"`, `"\udbff"`)
	differ("lone surrogates in keys", `{"\ud800":1}`, `{"\ufffd":1}`)
	differ("a lone surrogate and its escaped escape", `"\ud800"`, `"\\ud800"`)

	for _, bad := range []string{`{"a":1,"a":1}`, `{`, ``, `{} 1`} {
		_, err := hitl.Canonical([]byte(bad))
		require.Error(t, err, bad)
	}
	c, err := hitl.Canonical([]byte(`{"A":1,"a":2}`))
	require.NoError(t, err, "keys that differ in case are different keys")
	require.Equal(t, `{"A":1,"a":2}`, string(c))
}

func TestMarshal(t *testing.T) {
	t.Parallel()
	b, err := hitl.Marshal(map[string]string{"a": "<&>"})
	require.NoError(t, err)
	require.Equal(t, `{"a":"<&>"}`, string(b), "no growth by escaping, no line feed")
	_, err = hitl.Marshal(func() {})
	require.Error(t, err)
}
