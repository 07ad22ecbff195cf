package hitl_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
)

// seed adds the golden files and what real inputs and attacks look like.
func seed(f *testing.F, more ...string) {
	f.Helper()
	files, err := filepath.Glob("testdata/*.json")
	require.NoError(f, err)
	require.NotEmpty(f, files)
	for _, name := range files {
		b, err := os.ReadFile(name)
		require.NoError(f, err)
		f.Add(b)
	}
	for _, s := range more {
		f.Add([]byte(s))
	}
}

var hostileJSON = []string{
	``, `null`, `{}`, `[]`, `"`, `{"v":1,"V":2}`, `{"v":1e999999999}`, "{\"title\":\"\xff\"}", `{"title":"\ud800"}`,
	`{"v":1,"id":"i","kind":"approval","tenant":"t","owner":"o","session_id":"s","title":"x","tool":{"name":"Bash","input":{"command":"ls\u202e","a":9007199254740993}}}`,
	`{"v":1,"id":"i","kind":"question","tenant":"t","owner":"o","session_id":"s","title":"x","questions":[{"question":"?","options":[{"label":"A"},{"label":"A, B"}],"multi_select":true}]}`,
	`{"v":1,"id":"i","kind":"form","tenant":"t","owner":"o","session_id":"s","title":"x","schema":{"type":"object","properties":{"a":{"type":"array","items":{"type":"array"}}}}}`,
	strings.Repeat("[", 300), strings.Repeat(`{"a":`, 300),
}

func FuzzParseRequest(f *testing.F) {
	seed(f, hostileJSON...)
	f.Fuzz(func(t *testing.T, body []byte) {
		digest := hitl.Digest(body)
		r, err := hitl.ParseRequest(body)
		require.Equal(t, digest, hitl.Digest(body), "parsing changes nothing")
		if err != nil {
			var invalid *hitl.InvalidError
			require.ErrorAs(t, err, &invalid)
			require.NotEmpty(t, invalid.Fields)
			require.Less(t, len(raw(t, invalid.Fields)), 256<<10)
			return
		}
		again := raw(t, r)
		s, err := hitl.ParseRequest(again)
		require.NoError(t, err)
		require.Equal(t, again, raw(t, s), "stable after one round")
		if r.Tool != nil {
			var compact bytes.Buffer
			require.NoError(t, json.Compact(&compact, r.Tool.Input))
			require.Equal(t, compact.String(), string(s.Tool.Input), "input is kept but for blanks")
		}
		for _, b := range hitl.View(r) {
			for _, text := range []string{b.Label, b.Text, b.Old, b.New} {
				requireVisible(t, text)
			}
		}
		headline := hitl.Headline(r)
		requireVisible(t, headline)
		require.NotContains(t, headline, "\n")
		for _, o := range []hitl.Outcome{hitl.Denied, hitl.Expired, hitl.Cancelled, hitl.Orphaned, hitl.Dismissed} {
			require.NotEmpty(t, hitl.AgentText(r, &hitl.Content{Outcome: o}))
		}
		for _, p := range []hitl.Response{
			{Decision: "allow"},
			{Decision: "deny"},
			{Action: "dismiss"},
			{Action: "clarify", Message: "m"},
			{Answers: json.RawMessage(`{"0":"A"}`)},
			{Content: json.RawMessage(`{"a":[[1]]}`)},
		} {
			c, err := hitl.Evaluate(r, &p)
			require.Equal(t, err == nil, c != nil)
			if err == nil && p.Decision != "allow" {
				require.NotEqual(t, hitl.Allowed, c.Outcome, "only allow allows")
			}
		}
	})
}

func FuzzParseDecision(f *testing.F) {
	seed(f, append(hostileJSON,
		`{"v":1,"decision_id":"d","interaction_id":"i","digest":"x","outcome":"allowed","OUTCOME":"denied"}`,
		`{"v":1,"decision_id":"d","interaction_id":"i","digest":"x","outcome":"allowed","deciſion_id":"e"}`,
	)...)
	f.Fuzz(func(t *testing.T, body []byte) {
		d, err := hitl.ParseDecision(body)
		if err != nil {
			var invalid *hitl.InvalidError
			require.ErrorAs(t, err, &invalid)
			return
		}
		require.True(t, d.Outcome.Known())
		again, err := hitl.ParseDecision(raw(t, d))
		require.NoError(t, err)
		require.Equal(t, raw(t, d), raw(t, again))
		require.True(t, d.SameAnswer(again))
	})
}

func FuzzDecodeAnswers(f *testing.F) {
	for _, s := range []string{
		`{}`, `[]`, `null`, `{"0":"A"}`, `{"0":["A","text"],"1":"x"}`, `{"0":"A, B","1":"x"}`, `{"0":"[\"A\"]","1":"x"}`,
		`[{"question_id":"0","values":["A"],"other":"o","notes":"n"},{"question_id":"one","values":["v"]}]`,
		`{"First?":"\"A, B\", C","Second?":"label"}`, `{"0":{"values":["A"]},"one":{"other":"x"}}`, `{"0":"A","0":"B"}`, `{"1":" "}`,
	} {
		f.Add([]byte(s))
	}
	r := question(multi("First?", "A", "B", "A, B", "C"),
		hitl.Question{ID: "one", Question: "Second?", Options: []hitl.Option{{Value: "v", Label: "label"}}, Required: no()})
	f.Fuzz(func(t *testing.T, in []byte) {
		got, problems := hitl.DecodeAnswers(r, in)
		if len(problems) > 0 {
			return
		}
		require.NotEmpty(t, got, "no problem, then an answer")
		for _, a := range got {
			require.Contains(t, []string{"0", "one"}, a.QuestionID)
			require.True(t, len(a.Values) > 0 || strings.TrimSpace(a.Other) != "")
			for _, v := range a.Values {
				require.Contains(t, []string{"A", "B", "A, B", "C", "v"}, v)
			}
		}
		// What was decoded reads back as itself.
		again, problems := hitl.DecodeAnswers(r, raw(t, got))
		require.Empty(t, problems)
		require.Equal(t, got, again)
	})
}

func FuzzCanonical(f *testing.F) {
	seed(f, append(hostileJSON, `{"b":"\ud800","a":[1.0,1,1e5,-0]}`, `{"\ud800":"\udc00\ud83d\ude00"}`, ` [ 1 , "\u003c\/" ] `)...)
	f.Fuzz(func(t *testing.T, body []byte) {
		c, err := hitl.Canonical(body)
		if err != nil {
			return
		}
		again, err := hitl.Canonical(c)
		require.NoError(t, err)
		require.Equal(t, string(c), string(again))
		var a, b any
		if json.Unmarshal(body, &b) == nil { // no number too large for Go's own kinds
			require.NoError(t, json.Unmarshal(c, &a))
			require.Equal(t, b, a)
		}
		if compact := new(bytes.Buffer); json.Compact(compact, body) == nil {
			d, err := hitl.Canonical(compact.Bytes())
			require.NoError(t, err)
			require.Equal(t, string(c), string(d), "blanks mean nothing")
		}
	})
}

// requireVisible fails on a character that a reader could not see. It is
// written anew rather than shared with the code: what it lets through is what
// people rely on.
func requireVisible(t *testing.T, s string) {
	t.Helper()
	require.True(t, utf8.ValidString(s))
	var before rune
	for _, r := range s {
		switch {
		case r == '\n' || r == '\t' || r == ' ':
		case r == 0xFE0F && before > 0x7F && unicode.IsPrint(before):
		case !unicode.IsGraphic(r), unicode.IsSpace(r),
			unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point):
			require.Failf(t, "invisible", "%U in %q", r, s)
		}
		before = r
	}
}

func FuzzVisible(f *testing.F) {
	for _, s := range []string{
		"", "ls -l", "\u202e\u200b\ufeff", "⟦U+202E⟧", "❤\ufe0f", "a\ufe0f", "\xff\xfe", "\U000e0041\U000e0100", "\u3164\u2800", "\x1b[31m", "\u2028\u00a0",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		text, hidden := hitl.Visible(s)
		requireVisible(t, text)
		require.Equal(t, hidden, strings.Count(text, "⟦"), "every bracket is a token's")
		require.Equal(t, hidden, strings.Count(text, "⟧"))
		if hidden == 0 {
			require.Equal(t, s, text)
		}
		// Two different texts never look the same, and the same one always does.
		require.Equal(t, s, unvisible(t, text))
		lit, err := json.Marshal(s)
		require.NoError(t, err)
		if shown, n, ok := hitl.DisplayString(lit); utf8.ValidString(s) {
			require.True(t, ok)
			require.Equal(t, text, shown)
			require.Equal(t, hidden, n)
		}
	})
}

// unvisible turns tokens back into what they stand for.
func unvisible(t *testing.T, s string) string {
	t.Helper()
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(s, "⟦")
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		token, rest, ok := strings.Cut(rest, "⟧")
		require.True(t, ok)
		kind, digits := token[:2], token[2:]
		n := 0
		for _, c := range digits {
			n = n<<4 | strings.IndexRune("0123456789ABCDEF", c)
		}
		switch kind {
		case "U+":
			b.WriteRune(rune(n))
		case "0x":
			b.WriteByte(byte(n))
		default:
			require.Fail(t, "not a token", token)
		}
		s = rest
	}
}
