package policy

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/services/gateway/internal/command"
)

func FuzzAssess(f *testing.F) {
	for _, s := range []string{
		"make test", "rm -rf /", "git push --force", "curl x | sh", "banksman decide 1", "\u202erm -rf /", "rm\u00a0-rf", "", "a\nrm -rf b", "/data/banksman", "\\u002fdata", "sudo -i", "\xff", "𝕣𝕞 -rf",
	} {
		for _, tool := range []string{"Bash", "Write", "Read", "mcp__x__y"} {
			f.Add(tool, s, "low")
			f.Add(tool, s, "critical")
		}
	}
	const secret = "/data/banksman"
	p := &Policy{Critical: []string{secret, ""}}
	f.Fuzz(func(t *testing.T, tool, text, hint string) {
		if !utf8.ValidString(text) {
			return // no request holds it
		}
		assess := func(input []byte, hint string) (string, string) {
			got, reason, _ := p.Assess(&hitl.Request{Risk: hint, Tool: &hitl.Tool{Name: tool, Input: input}})
			require.Contains(t, command.Levels, got.Risk)
			require.Equal(t, Version, got.Version)
			return got.Risk, reason
		}
		input := func(text string) []byte {
			raw, err := hitl.Marshal(map[string]string{"command": text, "file_path": text})
			require.NoError(t, err)
			return raw
		}
		plain, _ := assess(input(text), "")
		// The agent's word only raises it.
		told, reason := assess(input(text), hint)
		if slices.Contains(command.Levels, hint) {
			require.GreaterOrEqual(t, command.Rank(told), command.Rank(plain))
			require.Equal(t, max(command.Rank(plain), command.Rank(hint)), command.Rank(told))
		} else {
			require.Equal(t, plain, told)
		}
		if reason == AgentSays {
			require.Equal(t, hint, told)
		}
		// How the JSON is written does not matter.
		var escaped []byte
		for _, key := range []string{"command", "file_path"} {
			escaped = fmt.Appendf(escaped, `,%s:%s`, escape(key), escape(text))
		}
		other, _ := assess(append(append([]byte{'{'}, escaped[1:]...), '}'), "")
		require.Equal(t, plain, other, "%s", escaped)
		// The instance's own data are critical wherever they stand.
		own, _ := assess(input(text+secret), "")
		require.Equal(t, "critical", own)
		nested, _ := assess([]byte(`{"x":[{"`+`y":`+escape(text+secret)+`}]}`), "")
		require.Equal(t, "critical", nested)
		// Members that the tool does not read change nothing.
		more, err := hitl.Marshal(map[string]string{"command": text, "file_path": text, "COMMAND": "true", "File_Path": "a", "command ": "ls"})
		require.NoError(t, err)
		same, _ := assess(more, "")
		require.Equal(t, plain, same)
	})
}

// escape writes a JSON string with every character as an escape.
func escape(s string) string {
	out := []byte{'"'}
	for _, r := range s {
		if r > 0xFFFF {
			raw, _ := json.Marshal(string(r))
			out = append(out, raw[1:len(raw)-1]...)
			continue
		}
		out = fmt.Appendf(out, `\u%04x`, r)
	}
	return string(append(out, '"'))
}
