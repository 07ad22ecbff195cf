package strictjson

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzMember: a member is what everybody else reads, who decodes the whole object.
func FuzzMember(f *testing.F) {
	for _, s := range []string{
		`{"command":"ls"}`, `{"a":{"command":"x"},"command":["y",{"command":1}]}`, `{"c\u006fmmand":"escaped"}`, `{"command":1,"command":2}`,
		`{"COMMAND":1}`, ` { "x" : "}\",\"command\":" , "command" : null } `, `{}`, `[]`, `null`, `"command"`, `{"command":-1.5e3}`, `{"command":true,"":0}`,
		"{\"command\":\"\u202e\",\"caf\u00e9\":1}", `{"a":[[[[]]]],"command":{}}`, `{"a":"\\","command":"b"}`, `{"command"`, `{"command":`, `{`, ``, `{"a":1}}`, "{\"\xff\":1}",
	} {
		f.Add([]byte(s), "command")
		f.Add([]byte(s), "")
		f.Add([]byte(s), "caf\u00e9")
		f.Add([]byte(s), "\ufffd")
	}
	f.Fuzz(func(t *testing.T, raw []byte, name string) {
		got := Member(raw, name) // whatever it is, it ends
		if !json.Valid(raw) {
			return
		}
		var members map[string]json.RawMessage
		if json.Unmarshal(raw, &members) != nil {
			members = nil
		}
		require.Equal(t, string(members[name]), string(got), "%s", raw)
		require.Equal(t, members[name] == nil, got == nil)
	})
}

// FuzzText: a text is what everybody else reads.
func FuzzText(f *testing.F) {
	for _, s := range []string{
		`"ls -l"`, `""`, `"`, `"a`, ``, `null`, `1`, `"a\nb"`, `"\u006cs"`, `"a"b"`, `"a" `, ` "a"`, "\"a\nb\"", "\"a\x7fb\"", "\"\xff\"", `"\"`, `"\""`, `"caf\u00e9 \ud800"`, "\"caf\u00e9\"", `["a"]`, `"a","b"`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var want any
		err := json.Unmarshal(raw, &want)
		text, isText := want.(string)
		got, ok := Text(raw)
		require.Equal(t, err == nil && isText, ok, "%q", raw)
		if ok {
			require.Equal(t, text, got, "%q", raw)
		}
	})
}
