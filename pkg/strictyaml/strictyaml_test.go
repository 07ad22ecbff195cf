package strictyaml_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/strictyaml"
)

type leaf struct {
	Name string         `json:"name"`
	Wait *hitl.Duration `json:"wait"`
	Many []string       `json:"many"`
	On   bool           `json:"on"`
}

type tree struct {
	Leaves []leaf `json:"leaves"`
	Count  int    `json:"count"`
}

func TestReadsYAMLAndJSON(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"leaves:\n  - name: a\n    wait: 90s\n    many: [x, 7]\n    on: true\n  - {name: 42, many: one}\ncount: 3\n",
		`{"leaves":[{"name":"a","wait":"90s","many":["x","7"],"on":true},{"name":"42","many":["one"]}],"count":3}`,
	} {
		var got tree
		at, err := strictyaml.Decode([]byte(text), &got)
		require.NoError(t, err)
		raw, err := json.Marshal(got)
		require.NoError(t, err)
		require.JSONEq(t, `{"leaves":[{"name":"a","wait":"1m30s","many":["x","7"],"on":true},
			{"name":"42","wait":null,"many":["one"],"on":false}],"count":3}`, string(raw))
		require.Positive(t, at.At("leaves[1].name").Line)
		require.Equal(t, at.At("leaves[1]"), at.At("leaves[1].wait"), "what is missing is where its place would be")
	}
	var empty tree
	_, err := strictyaml.Decode([]byte("# nothing\n"), &empty)
	require.NoError(t, err)
	require.Zero(t, empty)
}

func TestErrorsSayWhere(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text, want   string
		line, column int
	}{
		"unknown field":      {"leaves:\n  - nam: x\n", `leaves[0]: unknown field "nam": is "name" meant?`, 2, 5},
		"nothing like it":    {"other: 1\n", `unknown field "other"; known are leaves, count`, 1, 1},
		"doubled field":      {"count: 1\ncount: 2\n", `the field "count" stands twice`, 2, 1},
		"text for a number":  {"count: SECRET\n", "count: must be a whole number", 1, 8},
		"quoted number":      {"count: '1'\n", "count: must be a whole number", 1, 8},
		"text for a truth":   {"leaves: [{on: SECRET}]\n", "leaves[0].on: must be true or false", 1, 15},
		"not a list":         {"leaves: {}\n", "leaves: must be a list", 1, 9},
		"list for a text":    {"leaves:\n- name: [a]\n", "leaves[0].name: must be a single value", 2, 9},
		"text for fields":    {"leaves: [SECRET]\n", "leaves[0]: must have named fields", 1, 10},
		"bad duration":       {"leaves: [{wait: SECRET}]\n", `leaves[0].wait: not a duration such as "10m"`, 1, 17},
		"list for duration":  {"leaves: [{wait: [1]}]\n", "leaves[0].wait: must be a single value", 1, 17},
		"an alias":           {"leaves: [{name: &a x}, {name: *a}]\n", "leaves[0].name: anchors and aliases are not supported", 1, 17},
		"a tag":              {"count: !!int '1'\n", "count: tags are not supported", 1, 8},
		"two documents":      {"count: 1\n---\ncount: 2\n", "there is a second document", 2, 1},
		"broken":             {"leaves:\n  - name: \"x\n", "not YAML: found unexpected end of stream", 2, 3},
		"a list":             {"- SECRET\n", "must have named fields", 1, 1},
		"a very long name":   {"SECRETSECRETSECRETSECRETSECRETSECRETSECRETSECRET: 1\n", "there is an unknown field; known are leaves, count", 1, 1},
		"merged by a symbol": {"leaves:\n- <<: {name: x}\n", `leaves[0]: unknown field "<<"; known are name, wait, many, on`, 2, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := strictyaml.Decode([]byte(c.text), new(tree))
			var e *strictyaml.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, c.want, err.Error())
			require.Equal(t, strictyaml.Position{Line: c.line, Column: c.column}, e.Position)
			require.NotContains(t, err.Error(), "SECRET")
		})
	}
}

// FuzzDecode: whatever the text, the answer is a value or an error with a place,
// and what JSON reads without loss is read the same.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		"", "{}", "leaves:\n  - name: a\n    wait: 90s\n", `{"count":3,"leaves":[{"name":"x","on":true}]}`, "a: &a [*a]", "count: 0x10", "? [a]\n: b",
		"leaves: [{name: |\n  x\n}]", "%YAML 1.2\n---\ncount: 1", "\t", "leaves: [[[[[]]]]]", "count: 1_000", "leaves: [{on: yes}]", "\ufeffcount: 1",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var got tree
		if _, err := strictyaml.Decode(raw, &got); err != nil {
			var e *strictyaml.Error
			require.ErrorAs(t, err, &e)
			require.Positive(t, e.Line)
			require.Positive(t, e.Column)
			return
		}
		text, err := json.Marshal(got)
		require.NoError(t, err)
		var again tree
		_, err = strictyaml.Decode(text, &again)
		require.NoError(t, err)
		last, err := json.Marshal(again)
		require.NoError(t, err)
		require.Equal(t, string(text), string(last))
	})
}
