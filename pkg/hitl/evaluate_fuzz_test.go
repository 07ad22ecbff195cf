package hitl_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
)

// refusal checks that an error says what is wrong, by field and within bounds.
func refusal(t *testing.T, err error) {
	t.Helper()
	var invalid *hitl.InvalidError
	require.ErrorAs(t, err, &invalid)
	require.NotEmpty(t, invalid.Fields)
	for _, f := range invalid.Fields {
		require.NotEmpty(t, f.Field)
		require.NotEmpty(t, f.Problem)
	}
	require.Less(t, len(raw(t, invalid.Fields)), 256<<10)
}

// decidable are requests of each sort that people can be asked.
func decidable() []*hitl.Request {
	choices := approval()
	choices.Options = []hitl.AgentOption{{OptionID: "yes", Name: "Yes", Effect: "allow"}, {OptionID: "no", Name: "No", Effect: "deny"}}
	choices.Suggestions = json.RawMessage(`[{"type":"addRules"}]`)
	narrow := question(choose("?", "A"))
	narrow.Allowed = []string{hitl.VerbAnswer}
	unknown := approval()
	unknown.Kind = "poll"
	return []*hitl.Request{
		approval(), choices, narrow, unknown,
		question(multi("First?", "A", "B", "A, B", "C"), hitl.Question{ID: "one", Question: "Second?", Options: []hitl.Option{{Value: "v", Label: "label"}}, Required: no()}),
		form(`{"type":"object","required":["n"],"properties":{"n":{"type":"integer","minimum":1},"s":{"type":"string","maxLength":3},"l":{"type":"array","items":{"enum":["a","b"]}}}}`),
	}
}

func FuzzEvaluate(f *testing.F) {
	for i, s := range []string{
		`{"decision":"allow"}`, `{"decision":"allow","updated_input":"{\"n\":9007199254740993}"}`, `{"decision":"deny","message":"m","interrupt":true}`,
		`{"decision":"allow","updated_input":{"a":1e400,"b":-0,"c":0.1000}}`, `{"option_id":"yes","decision":"allow"}`, `{"option_id":"no","decision":"allow"}`,
		`{"action":"clarify","message":"m"}`, `{"action":"dismiss","comment":"c"}`, `{"answers":{"0":"A, B","one":"label"}}`,
		`{"answers":[{"question_id":"0","values":["A"],"other":"x"}]}`, `{"content":"{\"n\":1}"}`, `{"content":{"n":1.0,"s":"é","l":["a"]}}`,
		`{"decision":"allow","scope":"session"}`, `{"decision":"Allow"}`, `{"decision":"allow","answers":{}}`, `{"decision":"allow","decision":"deny"}`,
		`{"decision":"allow","updated_input":` + string(raw(f, deep(199))) + `}`, `{"content":` + string(raw(f, deep(200))) + `}`, `{"message":"\ud800","decision":"deny"}`,
	} {
		f.Add(uint8(i), []byte(s))
		f.Add(uint8(i+1), []byte(s))
	}
	requests := decidable()
	f.Fuzz(func(t *testing.T, which uint8, body []byte) {
		r := requests[int(which)%len(requests)]
		var p hitl.Response
		if err := hitl.Decode(body, "response", &p); err != nil {
			refusal(t, err)
			return
		}
		c, err := hitl.Evaluate(r, &p)
		if err != nil {
			refusal(t, err)
			require.Nil(t, c)
			return
		}
		require.True(t, c.Outcome.ByPerson(), "silence is nobody's word")
		require.LessOrEqual(t, len(raw(t, c)), hitl.MaxContent)
		if c.Outcome == hitl.Allowed {
			require.True(t, p.Decision == hitl.VerbAllow || p.OptionID == "yes", "only allow allows")
			require.Equal(t, hitl.KindApproval, r.Kind)
		}
		if c.Outcome == hitl.Answered {
			require.True(t, len(c.Answers) > 0 || len(c.Content) > 0, "an empty answer is none")
		}
		verbatim(t, p.UpdatedInput, c.UpdatedInput)
		verbatim(t, p.Content, c.Content)
		// Whoever reads the record reads the same.
		d := hitl.Decision{V: 1, DecisionID: "d", InteractionID: "i", Digest: hitl.Digest(body), Content: *c}
		stored := raw(t, d)
		again, err := hitl.ParseDecision(stored)
		require.NoError(t, err)
		require.Equal(t, string(stored), string(raw(t, again)))
		require.True(t, d.SameAnswer(again))
	})
}

// verbatim checks that what was sent, as JSON or as a text that holds it, is what
// was taken, byte for byte.
func verbatim(t *testing.T, sent, got json.RawMessage) {
	t.Helper()
	if len(got) == 0 {
		return
	}
	require.True(t, json.Valid(got))
	var text string
	if json.Unmarshal(sent, &text) != nil {
		text = string(sent)
	}
	require.Equal(t, text, string(got))
}

func FuzzForm(f *testing.F) {
	for _, s := range [][2]string{
		{`{"type":"object"}`, `{}`},
		{`{"type":"object","required":["a"],"properties":{"a":{"type":"number","minimum":0.1,"maximum":1e3}}}`, `{"a":1E2}`},
		{`{"type":"object","properties":{"a":{"type":"integer"}}}`, `{"a":9007199254740993}`},
		{`{"type":"object","properties":{"a":{"type":"string","format":"email","minLength":1}}}`, `{"a":"x@example.org"}`},
		{`{"type":"object","properties":{"a":{"type":"string","format":"date-time"},"b":{"type":"string","format":"uri"}}}`, `{"a":"2026-11-27T14:00:00Z","b":"https://e.org/"}`},
		{`{"type":"object","properties":{"a":{"type":"array","minItems":1,"items":{"anyOf":[{"const":1},{"const":"\u00e9"}]}}}}`, `{"a":[1,"é"]}`},
		{`{"type":"object","properties":{"a":{"type":"boolean","enum":[true]}}}`, `{"a":false,"b":1}`},
		{`{"type":"object","properties":{"a":{"type":"number","maximum":1e99999}}}`, `{"a":1e999999999}`},
		{`{"type":"object","properties":{"a":null}}`, `null`},
	} {
		f.Add([]byte(s[0]), []byte(s[1]))
	}
	f.Fuzz(func(t *testing.T, schema, content []byte) {
		body, err := hitl.Marshal(map[string]any{"v": 1, "id": "i", "kind": "form", "tenant": "t", "owner": "o", "session_id": "s", "title": "x", "schema": json.RawMessage(schema)})
		if err != nil {
			return
		}
		r, err := hitl.ParseRequest(body)
		if err != nil {
			refusal(t, err)
			return
		}
		c, err := hitl.Evaluate(r, &hitl.Response{Content: content})
		if err != nil {
			refusal(t, err)
		} else {
			verbatim(t, content, c.Content)
			require.NoError(t, hitl.CheckJSON(raw(t, c)))
		}
		// As a browser sends it: as text.
		if utf8.Valid(content) && !bytes.HasPrefix(bytes.TrimSpace(content), []byte{'"'}) && len(content) > 0 && string(content) != "null" {
			typed, errTyped := hitl.Evaluate(r, &hitl.Response{Content: raw(t, string(content))})
			require.Equal(t, err == nil, errTyped == nil, "%v, %v", err, errTyped)
			if err == nil {
				require.Equal(t, string(content), string(typed.Content))
			}
		}
	})
}

func FuzzVerify(f *testing.F) {
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	other := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{8}, ed25519.SeedSize))
	id := hitl.KeyID(key.Public().(ed25519.PublicKey))
	keys := map[string]ed25519.PublicKey{id: key.Public().(ed25519.PublicKey), "short": {1, 2, 3}}
	const subject = "hitl.dec.default.agents.i"
	body := []byte(`{"v":1}`)
	good := hitl.Sign(key, subject, body)
	for _, s := range [][4]string{
		{id, good, subject, string(body)},
		{id, good, "hitl.dec.default.agents.j", string(body)},
		{id, good, subject, `{"v":2}`},
		{id, hitl.Sign(other, subject, body), subject, string(body)},
		{"short", good, subject, string(body)},
		{"", "", "", ""},
		{id, good + "=", subject, string(body)},
		{id, strings.TrimRight(good, "="), subject, string(body)},
		{id, good, "hitl.dec.default.agents.i\n", ""},
	} {
		f.Add(s[0], s[1], s[2], []byte(s[3]))
	}
	f.Fuzz(func(t *testing.T, signer, signature, at string, data []byte) {
		err := hitl.Verify(keys, signer, signature, at, data)
		if err != nil {
			require.ErrorIs(t, err, hitl.ErrBadSignature)
			require.False(t, signer == id && signature == good && at == subject && bytes.Equal(data, body))
			return
		}
		// Nobody here can make another signature than the one above.
		require.Equal(t, id, signer)
		require.Equal(t, subject, at)
		require.Equal(t, string(body), string(data))
	})
}

// FuzzRecords is for the records without a parser of their own.
func FuzzRecords(f *testing.F) {
	kinds := []func() any{
		func() any { return new(hitl.Withdrawal) }, func() any { return new(hitl.Ack) }, func() any { return new(hitl.SessionState) },
		func() any { return new(hitl.Event) }, func() any { return new(hitl.Command) }, func() any { return new(hitl.CommandReply) },
		func() any { return new(hitl.Start) }, func() any { return new(hitl.Beat) }, func() any { return new(hitl.Receipt) }, func() any { return new(hitl.Response) },
	}
	seed := func(s string) {
		for i := range kinds {
			f.Add(uint8(i), []byte(s))
		}
	}
	for _, s := range hostileJSON {
		seed(s)
	}
	for _, s := range []string{
		`{"v":1,"reason":"r","shutdown":true}`, `{"v":1,"stage":"applied","decision_id":"d","at":"2026-11-27T10:00:00Z"}`,
		`{"v":1,"session_id":"s","tenant":"t","owner":"o","generation":2,"memory":9007199254740993,"state":"dead","started_at":"2026-01-01T00:00:00+24:00"}`,
		`{"v":1,"type":"text","data":{"text":"\ud800","n":1e400}}`, `{"v":1,"command_id":"c","type":"message","attachments":[{"kind":"image","data_b64":"AA=="}]}`,
		`{"status":"ok","STATUS":"failed"}`, `{"v":1,"worker":"w","runtimes":["demo"],"sessions":[],"at":"0000-01-01T00:00:00Z"}`,
		`{"status":"invalid","fields":[{"field":"f","problem":"p"}],"decision":{"v":1,"decision_id":"d","outcome":"allowed","updated_input":{"a":1,"A":2}}}`,
		`{"answers":{"0":"A"},"updated_input":"{}","content":[1],"interrupt":true}`,
	} {
		seed(s)
	}
	f.Fuzz(func(t *testing.T, which uint8, body []byte) {
		v, again := kinds[int(which)%len(kinds)](), kinds[int(which)%len(kinds)]()
		if err := hitl.Decode(body, "record", v); err != nil {
			refusal(t, err)
			return
		}
		require.NoError(t, hitl.CheckJSON(body))
		// Some times can be read and not written.
		out, err := hitl.Marshal(v)
		if err != nil {
			require.ErrorContains(t, err, "Time.MarshalJSON")
			return
		}
		require.NoError(t, hitl.Decode(out, "record", again))
		last, err := hitl.Marshal(again)
		require.NoError(t, err)
		require.Equal(t, string(out), string(last), "stable after one round")
	})
}

func FuzzCheckJSON(f *testing.F) {
	seed(f, append(hostileJSON, `{"a":{"b":1},"c":[{"b":1},{"b":1}]}`, `{"a":1,"\u0061":2}`, `{"a":1,"A":2}`, "\ufeff{}", `{"riſk":1,"risk":2}`, `{"\ud800":1,"\udbff":2}`)...)
	f.Fuzz(func(t *testing.T, body []byte) {
		err := hitl.CheckJSON(body)
		if err != nil {
			known := strings.Contains(err.Error(), "duplicate key") || strings.Contains(err.Error(), "nested deeper")
			require.True(t, known || !utf8.Valid(body) || !json.Valid(body), "%v", err)
			return
		}
		require.True(t, utf8.Valid(body))
		require.True(t, json.Valid(body))
		// A reader that keeps one of two equal keys keeps all of these.
		var tree any
		dec := json.NewDecoder(bytes.NewReader(body))
		dec.UseNumber()
		require.NoError(t, dec.Decode(&tree))
		require.Equal(t, tokens(t, body), count(tree))
		require.ErrorContains(t, hitl.CheckJSON([]byte(`{"x":`+string(body)+`,"x":0}`)), "duplicate key")
		require.Error(t, hitl.CheckJSON([]byte(`[{"x":[{"y":0,"\u0079":`+string(body)+`}]}]`)))
		require.Error(t, hitl.CheckJSON(append(bytes.Clone(body), "\xff"...)))
		require.Error(t, hitl.CheckJSON([]byte(string(body)+" 1")))
	})
}

// count is how many values a decoded document has.
func count(v any) int {
	n := 1
	switch v := v.(type) {
	case map[string]any:
		for _, m := range v {
			n += count(m)
		}
	case []any:
		for _, m := range v {
			n += count(m)
		}
	}
	return n
}

// tokens is how many values a document is written with.
func tokens(t *testing.T, body []byte) int {
	t.Helper()
	n := 0
	var walk func(raw json.RawMessage)
	walk = func(raw json.RawMessage) {
		n++
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.UseNumber()
		first, err := dec.Token()
		require.NoError(t, err)
		for d, ok := first.(json.Delim); ok && dec.More(); {
			if d == '{' {
				_, err := dec.Token()
				require.NoError(t, err)
			}
			var one json.RawMessage
			require.NoError(t, dec.Decode(&one))
			walk(one)
		}
	}
	walk(body)
	return n
}

func FuzzDisplayJSON(f *testing.F) {
	seed(f, append(hostileJSON, `{"a":[9007199254740993,1e400,-0,0.1000,1E5],"b":"\u202e\ud800\u0000⟦"}`, "{\"\u200b\":\"\u00a0\"}", `"e\u0301é"`)...)
	f.Fuzz(func(t *testing.T, body []byte) {
		text, hidden := hitl.DisplayJSON(body)
		requireVisible(t, text)
		require.Equal(t, hidden, strings.Count(text, "⟦"))
		want := string(body)
		var b bytes.Buffer
		if json.Indent(&b, body, "", "  ") == nil {
			want = b.String()
		}
		require.Equal(t, want, unvisible(t, text), "every character can be told from the text")
	})
}

func FuzzDuration(f *testing.F) {
	for _, s := range []string{"10m", "0", "-1s", "1e9h", "2540400h", "1.5h", "", "9223372036854775807ns", "10", "١s"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var d hitl.Duration
		if d.UnmarshalText([]byte(s)) != nil {
			return
		}
		text, err := d.MarshalText()
		require.NoError(t, err)
		var again hitl.Duration
		require.NoError(t, again.UnmarshalText(text))
		require.Equal(t, d, again)
		r := approval()
		r.ExpiresIn, r.AttentionIn = &d, nil
		if r.Validate() != nil {
			require.Less(t, time.Duration(d), time.Duration(0))
			return
		}
		require.GreaterOrEqual(t, r.Attention(), time.Duration(0))
		require.LessOrEqual(t, r.Attention(), r.Expiry())
		require.NotEmpty(t, hitl.AgentText(r, &hitl.Content{Outcome: hitl.Expired}))
	})
}
