package hitl_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
)

func TestVisible_invariant10(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, in, want string
		hidden         int
	}{
		{"plain", "ls -l\n\tpwd", "ls -l\n\tpwd", 0},
		{"other scripts", "Grüße, 你好, مرحبا, नमस्ते", "Grüße, 你好, مرحبا, नमस्ते", 0},
		{"B-54 right to left override", "a\u202Eb", "a⟦U+202E⟧b", 1},
		{"B-54 isolates", "\u2066a\u2069", "⟦U+2066⟧a⟦U+2069⟧", 2},
		{"B-54 zero width", "rm\u200B -rf\u200D\uFEFF", "rm⟦U+200B⟧ -rf⟦U+200D⟧⟦U+FEFF⟧", 3},
		{"B-54 tags", "a\U000E0041", "a⟦U+E0041⟧", 1},
		{"B-54 soft hyphen", "a\u00ADb", "a⟦U+00AD⟧b", 1},
		{"B-54 fillers", "\u3164\uFFA0\u115F", "⟦U+3164⟧⟦U+FFA0⟧⟦U+115F⟧", 3},
		{"B-54 blanks that are symbols", "\u2800\U0001D159", "⟦U+2800⟧⟦U+1D159⟧", 2},
		{"B-54 other spaces", "a\u00A0b\u3000c\u2028d", "a⟦U+00A0⟧b⟦U+3000⟧c⟦U+2028⟧d", 3},
		{"B-54 variation selectors", "a\uFE00\U000E0100", "a⟦U+FE00⟧⟦U+E0100⟧", 2},
		{"D0-42 escape sequences", "\x1b[2Ka\rb\x00\x7f", "⟦U+001B⟧[2Ka⟦U+000D⟧b⟦U+0000⟧⟦U+007F⟧", 4},
		{"private and unassigned", "a\uE000\u05CF\uFDD0", "a⟦U+E000⟧⟦U+05CF⟧⟦U+FDD0⟧", 3},
		{"C1 control", "a\u009Bb", "a⟦U+009B⟧b", 1},
		{"invalid UTF-8", "a\xffb", "a⟦0xFF⟧b", 1},
		{"the replacement character itself", "a\uFFFDb", "a\uFFFDb", 0},
		{"a text that pretends", "⟦U+202E⟧", "⟦U+27E6⟧U+202E⟦U+27E7⟧", 2},
		{"emoji form", "❤\uFE0F ☁\uFE0F", "❤\uFE0F ☁\uFE0F", 0},
		{"emoji form of nothing", "rm\uFE0F", "rm⟦U+FE0F⟧", 1},
		{"emoji form twice", "❤\uFE0F\uFE0F", "❤\uFE0F⟦U+FE0F⟧", 1},
		{"emoji form first", "\uFE0Fa", "⟦U+FE0F⟧a", 1},
		{"markup is text", "<img onerror=x>`**", "<img onerror=x>`**", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, hidden := hitl.Visible(c.in)
			require.Equal(t, c.want, got)
			require.Equal(t, c.hidden, hidden)
		})
	}
}

func TestDisplayString(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, raw, want string
		hidden          int
	}{
		{"plain", `"ls"`, "ls", 0},
		{"escapes", `"a\n\u0041\"\\"`, "a\nA\"\\", 0},
		{"surrogate pair", `"\ud83d\ude00"`, "😀", 0},
		{"B-54 escaped override", `"\u202e"`, "⟦U+202E⟧", 1},
		{"B-54 lone high surrogate", `"a\ud800b"`, "a⟦U+D800⟧b", 1},
		{"B-54 lone low surrogate", `"\udfff"`, "⟦U+DFFF⟧", 1},
		{"two high ones", `"\uD800\ud83d\ude00"`, "⟦U+D800⟧😀", 1},
		{"wrong order", `"\ude00\ud83d"`, "⟦U+DE00⟧⟦U+D83D⟧", 2},
		{"an escaped backslash before u", `"\\ud800"`, `\ud800`, 0},
		{"beside an override", `"\ud800\u202e"`, "⟦U+D800⟧⟦U+202E⟧", 2},
		{"blanks around", ` "\ud800" `, "⟦U+D800⟧", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, hidden, ok := hitl.DisplayString(json.RawMessage(c.raw))
			require.True(t, ok)
			require.Equal(t, c.want, got)
			require.Equal(t, c.hidden, hidden)
		})
	}
	for _, no := range []string{``, `1`, `null`, ` null`, `{}`, `["a"]`, `"a`} {
		_, _, ok := hitl.DisplayString(json.RawMessage(no))
		require.False(t, ok, no)
	}
}

func TestDisplayJSON_D2_09(t *testing.T) {
	t.Parallel()
	text, hidden := hitl.DisplayJSON(json.RawMessage(`{"z":9007199254740993,"a":[1.10,"\u202e",null]}`))
	require.Equal(t, "{\n  \"z\": 9007199254740993,\n  \"a\": [\n    1.10,\n    \"\\u202e\",\n    null\n  ]\n}", text, "numbers verbatim, keys in their order")
	require.Zero(t, hidden, "an escape is visible as it is")
	text, hidden = hitl.DisplayJSON(json.RawMessage("\"\u202e\""))
	require.Equal(t, `"⟦U+202E⟧"`, text)
	require.Equal(t, 1, hidden)
	text, _ = hitl.DisplayJSON(json.RawMessage(`{broken`))
	require.Equal(t, "{broken", text, "shown, never dropped")
}

func tool(name, input string) *hitl.Request {
	r := approval()
	r.Tool = &hitl.Tool{Name: name, Input: json.RawMessage(input)}
	return r
}

func TestView(t *testing.T) {
	t.Parallel()
	block := func(label, form, text string, lines int) hitl.Block {
		return hitl.Block{Label: label, Form: form, Text: text, Lines: lines}
	}
	for _, c := range []struct {
		name string
		r    *hitl.Request
		want []hitl.Block
	}{
		{"D1-04 Bash", tool("Bash", `{"command":"ls\npwd","description":"List","timeout":1.0}`), []hitl.Block{
			block("Command", "command", "ls\npwd", 2), block("Description", "text", "List", 1), block("timeout", "json", "1.0", 1),
		}},
		{"D1-04 Write", tool("Write", `{"content":"a\nb\n","file_path":"/tmp/x"}`), []hitl.Block{
			block("File", "path", "/tmp/x", 1), block("Content", "content", "a\nb\n", 2),
		}},
		{"D1-04 Edit", tool("Edit", `{"file_path":"/x","old_string":"a","new_string":"b\nc","replace_all":true}`), []hitl.Block{
			block("File", "path", "/x", 1), {Label: "Change", Form: "diff", Old: "a", New: "b\nc", Lines: 2, Added: 2, Removed: 1}, block("replace_all", "json", "true", 1),
		}},
		{"several edits", tool("MultiEdit", `{"file_path":"/x","edits":[{"old_string":"a","new_string":"b"},{"old_string":"c","new_string":"","replace_all":true}]}`), []hitl.Block{
			block("File", "path", "/x", 1),
			{Label: "Change 1 of 2", Form: "diff", Old: "a", New: "b", Lines: 1, Added: 1, Removed: 1},
			{Label: "Change 2 of 2", Form: "diff", Old: "c", Removed: 1},
			block("Change 2 of 2: replace_all", "json", "true", 1),
		}},
		{"several edits, one of them none", tool("MultiEdit", `{"file_path":"/x","edits":[{"old_string":"a","new_string":"b"},{"new_string":"c"}]}`), []hitl.Block{
			block("File", "path", "/x", 1),
			block("edits", "json", "[\n  {\n    \"old_string\": \"a\",\n    \"new_string\": \"b\"\n  },\n  {\n    \"new_string\": \"c\"\n  }\n]", 9),
		}},
		{"a cell of a notebook", tool("NotebookEdit", `{"notebook_path":"/n.ipynb","new_source":"x","cell_id":"7"}`), []hitl.Block{
			block("Notebook", "path", "/n.ipynb", 1), block("New source", "content", "x", 1), block("cell_id", "json", `"7"`, 1),
		}},
		{"an edit that is none", tool("Edit", `{"file_path":"/x","old_string":"a"}`), []hitl.Block{
			block("File", "path", "/x", 1), block("old_string", "json", `"a"`, 1),
		}},
		{"D1-04 Read", tool("Read", `{"file_path":"/x","offset":1,"limit":2}`), []hitl.Block{
			block("File", "path", "/x", 1), block("limit", "json", "2", 1), block("offset", "json", "1", 1),
		}},
		{"plan", tool("ExitPlanMode", `{"plan":"1. x"}`), []hitl.Block{block("Plan", "plan", "1. x", 1)}},
		{"any other tool", tool("mcp__x", `{"b":1,"a":2}`), []hitl.Block{block("Input", "json", "{\n  \"b\": 1,\n  \"a\": 2\n}", 4)}},
		{"a command that is no text", tool("Bash", `{"command":{"a":1}}`), []hitl.Block{block("Input", "json", "{\n  \"command\": {\n    \"a\": 1\n  }\n}", 5)}},
		{"a command that is null", tool("Bash", `{"command":null}`), []hitl.Block{block("Input", "json", "{\n  \"command\": null\n}", 3)}},
		{"input that is no object", tool("Bash", `"ls"`), []hitl.Block{block("Input", "json", `"ls"`, 1)}},
		{"B-54 a key in a disguise", tool("Bash", `{"command":"ls","command\u200b":"rm"}`), []hitl.Block{
			block("Command", "command", "ls", 1), block("command⟦U+200B⟧", "json", `"rm"`, 1),
		}},
		{"B-54 hidden characters", tool("Bash", "{\"command\":\"ls\u202e\u200b\"}"), []hitl.Block{
			{Label: "Command", Form: "command", Text: "ls⟦U+202E⟧⟦U+200B⟧", Lines: 1, Hidden: 2},
		}},
		{"B-54 pushed to the right", tool("Bash", `{"command":"ls`+strings.Repeat(" ", 200)+`; rm"}`), []hitl.Block{
			{Label: "Command", Form: "command", Text: "ls" + strings.Repeat(" ", 200) + "; rm", Lines: 1, Pushed: true},
		}},
		{"B-54 pushed down", tool("Bash", `{"command":"ls`+strings.Repeat(`\n`, 50)+`rm"}`), []hitl.Block{
			{Label: "Command", Form: "command", Text: "ls" + strings.Repeat("\n", 50) + "rm", Lines: 51, Pushed: true},
		}},
		{"B-54 pushed in a diff", tool("Edit", `{"file_path":"/x","old_string":"","new_string":"`+strings.Repeat(`\t`, 30)+`x\u200b"}`), []hitl.Block{
			block("File", "path", "/x", 1), {Label: "Change", Form: "diff", New: strings.Repeat("\t", 30) + "x⟦U+200B⟧", Lines: 1, Added: 1, Hidden: 1, Pushed: true},
		}},
		{"form", form(`{"type":"object"}`), []hitl.Block{block("Form", "json", "{\n  \"type\": \"object\"\n}", 3)}},
		{"question", question(choose("?")), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, hitl.View(c.r))
		})
	}
}

// TestViewDropsNothing: whatever the tool, every value of its input appears.
func TestViewDropsNothing(t *testing.T) {
	t.Parallel()
	const input = `{"command":"v1","description":"v2","file_path":"v3","content":"v4","old_string":"v5","new_string":"v6","plan":"v7","url":"v8","extra":{"deep":["v9"]}}`
	for _, name := range []string{"Bash", "Write", "Edit", "Read", "ExitPlanMode", "WebFetch", "anything"} {
		var all strings.Builder
		for _, b := range hitl.View(tool(name, input)) {
			all.WriteString(b.Text + "\n" + b.Old + "\n" + b.New + "\n")
		}
		for _, v := range []string{"v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9"} {
			require.Contains(t, all.String(), v, name)
		}
	}
}

// A diff says how many lines it adds and takes away, by the shortest way.
func TestChangesAreCounted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		before, after  string
		added, removed int
	}{
		{"", "", 0, 0},
		{"a\nb\nc\n", "a\nB\nc\nd\n", 2, 1},
		{"a\nb\nc\nd\n", "d\na\nb\nc\n", 1, 1},
		{"", "x\ny", 2, 0},
		{"x\ny", "", 0, 2},
		{"a\n", "a", 0, 0},
		{strings.Repeat("a\nb\n", 300), strings.Repeat("b\na\n", 300), 1, 1},
		// With nothing in common, and with too much to look for it.
		{strings.Repeat("a\n", 1000), strings.Repeat("b\n", 900), 900, 1000},
		{"q\n" + strings.Repeat("a\n", 15_000) + "q\n", strings.Repeat("b\na\n", 15_000), 30_000, 15_002},
	} {
		in, err := hitl.Marshal(map[string]string{"file_path": "/x", "old_string": c.before, "new_string": c.after})
		require.NoError(t, err)
		b := hitl.View(tool("Edit", string(in)))[1]
		require.Equal(t, []int{c.added, c.removed}, []int{b.Added, b.Removed}, "%.20q", c.before)
	}
}

func TestHeadline(t *testing.T) {
	t.Parallel()
	with := func(r *hitl.Request, f func(*hitl.Request)) *hitl.Request {
		f(r)
		return r
	}
	for want, r := range map[string]*hitl.Request{
		"o asks a question":                                    question(choose("?")),
		"o asks 2 questions":                                   question(choose("?"), choose("!")),
		"o asks you to fill in a form":                         form(`{}`),
		"o wants to run a shell command":                       approval(),
		"o wants to write /tmp/x":                              tool("Write", `{"file_path":"/tmp/x"}`),
		"o wants to change /tmp/x":                             tool("Edit", `{"file_path":"/tmp/x"}`),
		"o wants to change /n.ipynb":                           tool("NotebookEdit", `{"notebook_path":"/n.ipynb"}`),
		"o wants to change /tmp/y":                             tool("MultiEdit", `{"file_path":"/tmp/y"}`),
		"o wants to use refund of the MCP server billing":      with(tool("mcp__billing__refund", `{}`), func(r *hitl.Request) { r.Tool.Server = "billing" }),
		"o wants to read /tmp/x":                               tool("Read", `{"file_path":"/tmp/x"}`),
		"o wants to use the tool Read":                         tool("Read", `{"file_path":null}`),
		"o wants to fetch https://example.org/":                tool("WebFetch", `{"url":"https://example.org/"}`),
		"o wants to leave plan mode and start on its plan":     tool("ExitPlanMode", `{}`),
		"o wants to use the tool x":                            tool("x", `[]`),
		"o wants to use x of the MCP server srv":               with(tool("x", `{}`), func(r *hitl.Request) { r.Tool.Server = "srv" }),
		"o wants to use the tool X tool":                       with(tool("x", `{}`), func(r *hitl.Request) { r.Tool.DisplayName = "X tool" }),
		"reviewer⟦U+202E⟧ wants to run a shell command":        with(approval(), func(r *hitl.Request) { r.AgentName = "reviewer\u202e" }),
		"o asks for a decision of the kind haiku":              with(approval(), func(r *hitl.Request) { r.Kind, r.Tool = "haiku", nil }),
		"o wants to read /x⟦U+000A⟧Approved by Pat":            tool("Read", `{"file_path":"/x\nApproved by Pat"}`),
		"a⟦U+000A⟧⟦U+0009⟧b wants to use the tool c⟦U+000A⟧d":  with(tool("c\nd", `{}`), func(r *hitl.Request) { r.AgentName = "a\n\tb" }),
		"o wants to use a⟦U+000A⟧ of the MCP server b⟦U+000A⟧": with(tool("a\n", `{}`), func(r *hitl.Request) { r.Tool.Server = "b\n" }),
		// What a tool reads is the member of exactly its name.
		"o wants to read /etc/shadow":                                tool("Read", `{"file_path":"/etc/shadow","FILE_PATH":"/tmp/x"}`),
		"o wants to fetch https://example.org/⟦U+200B⟧⟦U+000A⟧other": tool("WebFetch", `{"url":"https://example.org/\u200b\nother"}`),
	} {
		require.Equal(t, want, hitl.Headline(r))
	}
}
