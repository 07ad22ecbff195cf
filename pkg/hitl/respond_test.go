package hitl_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
)

func TestEvaluate(t *testing.T) {
	t.Parallel()
	db := question(choose("Which database?", "PostgreSQL", "SQLite"))
	closed := approval()
	closed.Options = []hitl.AgentOption{
		{OptionID: "once", Name: "Once", Effect: "allow"}, {OptionID: "never", Name: "Never", Effect: "deny"},
	}
	suggesting := approval()
	suggesting.Suggestions = json.RawMessage(`[{}]`)
	limited := question(choose("Which?", "A"))
	limited.Allowed = []string{hitl.VerbAnswer}
	unknown := approval()
	unknown.Kind = "haiku"
	number := form(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`)

	for _, c := range []struct {
		name string
		r    *hitl.Request
		p    hitl.Response
		want hitl.Content // where bad is nil
		bad  []string
	}{
		{"D0-18 allow", approval(), hitl.Response{Decision: "allow"}, hitl.Content{Outcome: hitl.Allowed}, nil},
		{"D0-19 deny", approval(), hitl.Response{Decision: "deny"}, hitl.Content{Outcome: hitl.Denied}, nil},
		{"D1-21 deny with a reason", approval(), hitl.Response{Decision: "deny", Message: "no", Comment: "c", Interrupt: true}, hitl.Content{Outcome: hitl.Denied, Message: "no", Comment: "c", Interrupt: true}, nil},
		{"D1-03 allow with edits", approval(), hitl.Response{Decision: "allow", UpdatedInput: raw(t, `{"n": 1.0, "N": 9007199254740993}`)}, hitl.Content{Outcome: hitl.Allowed, UpdatedInput: []byte(`{"n": 1.0, "N": 9007199254740993}`)}, nil},
		{"edits as an object", approval(), hitl.Response{Decision: "allow", UpdatedInput: []byte(`{"a":1}`)}, hitl.Content{Outcome: hitl.Allowed, UpdatedInput: []byte(`{"a":1}`)}, nil},
		{"edits that are null are none", approval(), hitl.Response{Decision: "allow", UpdatedInput: []byte(`null`)}, hitl.Content{Outcome: hitl.Allowed}, nil},
		{"edits that are no object", approval(), hitl.Response{Decision: "allow", UpdatedInput: raw(t, `[1]`)}, hitl.Content{}, []string{"updated_input"}},
		{"edits with a duplicate key", approval(), hitl.Response{Decision: "allow", UpdatedInput: raw(t, `{"a":1,"a":2}`)}, hitl.Content{}, []string{"updated_input"}},
		{"edits that are no JSON", approval(), hitl.Response{Decision: "allow", UpdatedInput: raw(t, `{a}`)}, hitl.Content{}, []string{"updated_input"}},
		{"edits too deep for the record", approval(), hitl.Response{Decision: "allow", UpdatedInput: raw(t, deep(200))}, hitl.Content{}, []string{"updated_input"}},
		{"edits as deep as the record takes", approval(), hitl.Response{Decision: "allow", UpdatedInput: raw(t, deep(199))}, hitl.Content{Outcome: hitl.Allowed, UpdatedInput: []byte(deep(199))}, nil},
		{"edits with a denial", approval(), hitl.Response{Decision: "deny", UpdatedInput: []byte(`{}`)}, hitl.Content{}, []string{"updated_input"}},
		{"interrupt with an allowance", approval(), hitl.Response{Decision: "allow", Interrupt: true}, hitl.Content{}, []string{"interrupt"}},

		{"D1-47 approved", approval(), hitl.Response{Decision: "approved"}, hitl.Content{}, []string{"decision"}},
		{"D1-47 Allow", approval(), hitl.Response{Decision: "Allow"}, hitl.Content{}, []string{"decision"}},
		{"D1-47 yes", approval(), hitl.Response{Decision: "yes"}, hitl.Content{}, []string{"decision"}},
		{"D0-27 nothing on an approval", approval(), hitl.Response{}, hitl.Content{}, []string{"decision"}},
		{"D0-27 nothing on a question", db, hitl.Response{Message: "hi"}, hitl.Content{}, []string{"answers"}},
		{"nothing on a form", number, hitl.Response{}, hitl.Content{}, []string{"content"}},
		{"two at once", approval(), hitl.Response{Decision: "allow", Action: "dismiss"}, hitl.Content{}, []string{"action"}},
		{"answers beside a decision", approval(), hitl.Response{Decision: "allow", Answers: []byte(`{}`)}, hitl.Content{}, []string{"answers"}},

		{"D2-12 C-12 wrong kind by name", approval(), hitl.Response{RequestType: "ask_user_question", Decision: "allow"}, hitl.Content{}, []string{"request_type"}},
		{"D1-24 unknown kind by name", approval(), hitl.Response{RequestType: "x", Decision: "allow"}, hitl.Content{}, []string{"request_type"}},
		{"D2-12 D0-21 answers to an approval", approval(), hitl.Response{Answers: []byte(`{"0":"A"}`)}, hitl.Content{}, []string{"answers"}},
		{"D2-12 D0-22 allowing a question", db, hitl.Response{Decision: "allow"}, hitl.Content{}, []string{"decision"}},
		{"D2-12 denying a question", db, hitl.Response{Decision: "deny"}, hitl.Content{}, []string{"decision"}},
		{"D2-12 content to a question", db, hitl.Response{Content: []byte(`{}`)}, hitl.Content{}, []string{"content"}},
		{"D2-12 answers to a form", number, hitl.Response{Answers: []byte(`{}`)}, hitl.Content{}, []string{"answers"}},
		{"D2-12 allowing a form", number, hitl.Response{Decision: "allow"}, hitl.Content{}, []string{"decision"}},
		{"right kind by name", db, hitl.Response{RequestType: "ask_user_question", Answers: []byte(`{"0":"SQLite"}`)}, hitl.Content{Outcome: hitl.Answered, Answers: []hitl.Answer{{QuestionID: "0", Values: []string{"SQLite"}}}}, nil},

		{"C-16 clarify", db, hitl.Response{Action: "clarify", Message: "Tell me more"}, hitl.Content{Outcome: hitl.Clarify, Message: "Tell me more"}, nil},
		{"clarify without a word", db, hitl.Response{Action: "clarify", Message: " "}, hitl.Content{}, []string{"message"}},
		{"clarify on an approval", approval(), hitl.Response{Action: "clarify", Message: "m"}, hitl.Content{}, []string{"action"}},
		{"B-12 dismiss is no answer", db, hitl.Response{Action: "dismiss"}, hitl.Content{Outcome: hitl.Dismissed}, nil},
		{"B-12 dismiss on an approval", approval(), hitl.Response{Action: "dismiss"}, hitl.Content{Outcome: hitl.Dismissed}, nil},
		{"unknown action", db, hitl.Response{Action: "cancel"}, hitl.Content{}, []string{"action"}},

		{"B-08 D0-43 wrong question", db, hitl.Response{Answers: []byte(`{"7":"SQLite"}`)}, hitl.Content{}, []string{"answers.7"}},
		{"D0-43 value that is no text", db, hitl.Response{Answers: []byte(`{"0":1}`)}, hitl.Content{}, []string{"answers.0"}},
		{"C-19 empty answers", db, hitl.Response{Answers: []byte(`{}`)}, hitl.Content{}, []string{"answers.0"}},
		{"C-19 null is nothing", db, hitl.Response{Answers: []byte(`null`)}, hitl.Content{}, []string{"answers"}},

		{"option of the agent", closed, hitl.Response{OptionID: "once"}, hitl.Content{Outcome: hitl.Allowed, OptionID: "once"}, nil},
		{"option that denies", closed, hitl.Response{OptionID: "never"}, hitl.Content{Outcome: hitl.Denied, OptionID: "never"}, nil},
		{"option and decision agree", closed, hitl.Response{OptionID: "never", Decision: "deny"}, hitl.Content{Outcome: hitl.Denied, OptionID: "never"}, nil},
		{"option and decision disagree", closed, hitl.Response{OptionID: "never", Decision: "allow"}, hitl.Content{}, []string{"decision"}},
		{"unknown option", closed, hitl.Response{OptionID: "always"}, hitl.Content{}, []string{"option_id"}},
		{"option of nobody", approval(), hitl.Response{OptionID: "once"}, hitl.Content{}, []string{"option_id"}},

		{"scope once", approval(), hitl.Response{Decision: "allow", Scope: "once"}, hitl.Content{Outcome: hitl.Allowed}, nil},
		{"scope that is not offered", approval(), hitl.Response{Decision: "allow", Scope: "session"}, hitl.Content{}, []string{"scope"}},
		{"scope that is offered", suggesting, hitl.Response{Decision: "allow", Scope: "session"}, hitl.Content{Outcome: hitl.Allowed, Scope: "session"}, nil},
		{"scope of a denial", suggesting, hitl.Response{Decision: "deny", Scope: "session"}, hitl.Content{}, []string{"scope"}},
		{"B-59 a wider scope of what was edited", suggesting, hitl.Response{Decision: "allow", Scope: "session", UpdatedInput: json.RawMessage(`{"command":"ls"}`)}, hitl.Content{}, []string{"scope"}},
		{"B-59 scope of the client's own", suggesting, hitl.Response{Decision: "allow", Scope: "always"}, hitl.Content{}, []string{"scope"}},

		{"the agent does not take it", limited, hitl.Response{Action: "clarify", Message: "m"}, hitl.Content{}, []string{"action"}},
		{"dismiss is always taken", limited, hitl.Response{Action: "dismiss"}, hitl.Content{Outcome: hitl.Dismissed}, nil},

		{"an unknown kind cannot be allowed", unknown, hitl.Response{Decision: "allow"}, hitl.Content{}, []string{"decision"}},
		{"an unknown kind can be denied", unknown, hitl.Response{Decision: "deny"}, hitl.Content{Outcome: hitl.Denied}, nil},
		{"an unknown kind can be dismissed", unknown, hitl.Response{Action: "dismiss"}, hitl.Content{Outcome: hitl.Dismissed}, nil},

		{"form as text", number, hitl.Response{Content: raw(t, `{"n":9007199254740993}`)}, hitl.Content{Outcome: hitl.Answered, Content: []byte(`{"n":9007199254740993}`)}, nil},
		{"form with a wrong field", number, hitl.Response{Content: []byte(`{"n":1.5}`)}, hitl.Content{}, []string{"content.n"}},
		{"larger than a decision may be", db, hitl.Response{Action: "clarify", Message: strings.Repeat("x", hitl.MaxContent)}, hitl.Content{}, []string{"response"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := hitl.Evaluate(c.r, &c.p)
			if c.bad != nil {
				require.Equal(t, c.bad, fields(t, err))
				require.Nil(t, got, "nothing may be decided")
				return
			}
			require.NoError(t, err)
			require.Equal(t, &c.want, got)
		})
	}
}

func TestAgentText(t *testing.T) {
	t.Parallel()
	q, f := question(choose("Which?", "A")), form(`{"type":"object"}`)
	for _, c := range []struct {
		name    string
		r       *hitl.Request
		expires time.Duration // 0: default
		c       hitl.Content
		want    string
	}{
		{"D0-19 D1-25 C-20 denied without a word", approval(), 0, hitl.Content{Outcome: hitl.Denied}, "User denied tool execution"},
		{"D1-03 denied with a reason", approval(), 0, hitl.Content{Outcome: hitl.Denied, Message: "not on main"}, "not on main"},
		{"D0-20 approval expired", approval(), 0, hitl.Content{Outcome: hitl.Expired}, "Tool approval timed out after 10 minutes"},
		{"D0-20 B-32 question expired", q, 0, hitl.Content{Outcome: hitl.Expired}, "User did not respond within 10 minutes"},
		{"D0-20 computed from the budget", q, 90 * time.Second, hitl.Content{Outcome: hitl.Expired}, "User did not respond within 90 seconds"},
		{"D0-20 approval with another budget", approval(), time.Hour, hitl.Content{Outcome: hitl.Expired}, "Tool approval timed out after 1 hour"},
		{"form expired", f, time.Minute, hitl.Content{Outcome: hitl.Expired}, "Nobody filled in the form within 1 minute"},
		{"clarify", q, 0, hitl.Content{Outcome: hitl.Clarify, Message: "more, please"}, "more, please"},
		{"B-12 dismissed", q, 0, hitl.Content{Outcome: hitl.Dismissed}, "A person closed this without answering"},
		{"dismissed with a word", q, 0, hitl.Content{Outcome: hitl.Dismissed, Message: "later"}, "later"},
		{"approval cancelled", approval(), 0, hitl.Content{Outcome: hitl.Cancelled}, "The approval was withdrawn before anybody decided; the tool was not run"},
		{"question cancelled", q, 0, hitl.Content{Outcome: hitl.Cancelled}, "The question was withdrawn before anybody answered"},
		{"form cancelled", f, 0, hitl.Content{Outcome: hitl.Cancelled}, "The form was withdrawn before anybody filled it in"},
		{"orphaned", q, 0, hitl.Content{Outcome: hitl.Orphaned}, "The session that asked was lost before anybody decided"},
		{"invalid", q, 0, hitl.Content{Outcome: hitl.InvalidIX, Fields: []hitl.Field{{Field: "title", Problem: "is missing"}, {Field: "v", Problem: "must be 1"}}}, "The request was refused and shown to nobody: title is missing; v must be 1"},
		{"allowed needs no words", approval(), 0, hitl.Content{Outcome: hitl.Allowed}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := *c.r
			if c.expires > 0 {
				r.ExpiresIn = wait(c.expires)
			}
			require.Equal(t, c.want, hitl.AgentText(&r, &c.c))
		})
	}
	unknown := &hitl.Request{Kind: "haiku"}
	require.Equal(t, "Timed out", hitl.AgentText(unknown, &hitl.Content{Outcome: hitl.Expired}))
	require.Equal(t, "Cancelled", hitl.AgentText(unknown, &hitl.Content{Outcome: hitl.Cancelled}))
}

func TestBudget(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		10 * time.Minute:        "10 minutes",
		time.Minute:             "1 minute",
		90 * time.Second:        "90 seconds",
		time.Second:             "1 second",
		time.Hour:               "1 hour",
		48 * time.Hour:          "48 hours",
		90 * time.Minute:        "90 minutes",
		1500 * time.Millisecond: "1.5s",
		250 * time.Millisecond:  "250ms",
	} {
		require.Equal(t, want, hitl.Budget(d))
	}
}

func TestForms(t *testing.T) {
	t.Parallel()
	const schema = `{"type":"object","required":["name"],"properties":{
		"name":{"type":"string","minLength":2,"maxLength":4},
		"mail":{"type":"string","format":"email"},
		"site":{"type":"string","format":"uri"},
		"day":{"type":"string","format":"date"},
		"at":{"type":"string","format":"date-time"},
		"n":{"type":"integer","minimum":1,"maximum":9007199254740993},
		"x":{"type":"number","minimum":0.5},
		"ok":{"type":"boolean"},
		"color":{"type":"string","enum":["red","green"]},
		"size":{"type":"string","oneOf":[{"const":"s","title":"Small"},{"const":"l","title":"Large"}]},
		"tags":{"type":"array","minItems":1,"maxItems":2,"items":{"enum":["a","b"]}},
		"more":{"type":"array","items":{"anyOf":[{"const":"p"},{"const":"q"}]}},
		"nums":{"type":"array","items":{"type":"integer"}}}}`
	r := form(schema)
	require.NoError(t, r.Validate())
	for _, c := range []struct {
		content string
		bad     []string
	}{
		{`{"name":"Pat"}`, nil},
		{`{"name":"Pät€"}`, nil},
		{`{"name":"Pat","mail":"a@example.org","site":"https://example.org/","day":"2026-11-27","at":"2026-11-27T14:00:00Z","n":9007199254740993,"x":0.5,"ok":false,"color":"red","size":"l","tags":["a","b"],"more":["q"],"nums":[1,2]}`, nil},
		{`{}`, []string{"content.name"}},
		{`{"name":""}`, []string{"content.name", "content.name"}},
		{`{"name":null}`, []string{"content.name", "content.name"}},
		{`{"name":"P"}`, []string{"content.name"}},
		{`{"name":"Patty"}`, []string{"content.name"}},
		{`{"name":7}`, []string{"content.name"}},
		{`{"name":"Pat","surprise":1}`, []string{"content.surprise"}},
		{`{"name":"Pat","mail":"Pat <a@example.org>"}`, []string{"content.mail"}},
		{`{"name":"Pat","site":"/relative"}`, []string{"content.site"}},
		{`{"name":"Pat","day":"2026-02-30"}`, []string{"content.day"}},
		{`{"name":"Pat","at":"2026-11-27"}`, []string{"content.at"}},
		{`{"name":"Pat","n":0}`, []string{"content.n"}},
		{`{"name":"Pat","n":9007199254740994}`, []string{"content.n"}},
		{`{"name":"Pat","n":1.5}`, []string{"content.n"}},
		{`{"name":"Pat","n":1.0}`, nil},
		{`{"name":"Pat","n":"1"}`, []string{"content.n"}},
		{`{"name":"Pat","n":1e999999999}`, []string{"content.n"}},
		{`{"name":"Pat","x":-1e999999999}`, []string{"content.x"}},
		{`{"name":"Pat","x":` + strings.Repeat("9", 500) + `}`, []string{"content.x"}},
		{`{"name":"Pat","x":0.49}`, []string{"content.x"}},
		{`{"name":"Pat","ok":"true"}`, []string{"content.ok"}},
		{`{"name":"Pat","color":"blue"}`, []string{"content.color"}},
		{`{"name":"Pat","size":"Large"}`, []string{"content.size"}},
		{`{"name":"Pat","tags":[]}`, []string{"content.tags"}},
		{`{"name":"Pat","tags":["a","b","a"]}`, []string{"content.tags"}},
		{`{"name":"Pat","tags":["c"]}`, []string{"content.tags"}},
		{`{"name":"Pat","tags":"a"}`, []string{"content.tags"}},
		{`{"name":"Pat","more":["x"]}`, []string{"content.more"}},
		{`{"name":"Pat","nums":[1.5]}`, []string{"content.nums"}},
		{`{"name":"Pat","name":"Pat"}`, []string{"content"}},
		{`[]`, []string{"content"}},
		{`"not a form"`, []string{"content"}},
	} {
		t.Run(c.content[:min(len(c.content), 60)], func(t *testing.T) {
			t.Parallel()
			got, err := hitl.Evaluate(r, &hitl.Response{Content: json.RawMessage(c.content)})
			if c.bad != nil {
				require.Equal(t, c.bad, fields(t, err))
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.content, string(got.Content))
		})
	}
}

func TestSchemas(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{
		`[]`, `{}`, `{"type":"object","properties":{"a":null}}`, `{"type":"object","properties":{"a":{}}}`,
		`{"type":"object","properties":{"a":{"type":"object"}}}`, `{"type":"object","properties":{"a":{"type":"array"}}}`,
		`{"type":"object","properties":{"a":{"type":"array","items":{"type":"array"}}}}`,
		`{"type":"object","properties":{"a":{"type":"array","items":{"type":"object"}}}}`,
		`{"type":"object","properties":{"a":{"type":"number","minimum":1e999999999}}}`,
		`{"type":"object","properties":{"a":{"type":"array","items":{"type":"number","maximum":-1e999999999}}}}`,
		`{"type":"object","required":["a"]}`,
	} {
		r := form(schema)
		require.Equal(t, []string{"schema"}, fields(t, r.Validate()), schema)
		_, err := hitl.Evaluate(r, &hitl.Response{Content: []byte(`{"a":[[1]]}`)})
		require.Error(t, err, "also where nobody validated it")
	}
}

// deep is an object with n lists in each other.
func deep(n int) string {
	return `{"a":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}`
}

// What was accepted can be read by everybody who reads the record.
func TestWhatIsAcceptedCanBeReadAgain_invariant4_invariant11(t *testing.T) {
	t.Parallel()
	for n := 190; n < 210; n++ {
		for name, r := range map[string]*hitl.Request{
			"edit": approval(), "form": form(`{"type":"object","properties":{"a":{"type":"array","items":{}}}}`),
		} {
			p := hitl.Response{Decision: "allow", UpdatedInput: raw(t, deep(n))}
			if name == "form" {
				p = hitl.Response{Content: raw(t, deep(n))}
			}
			c, err := hitl.Evaluate(r, &p)
			if err != nil {
				continue
			}
			_, err = hitl.ParseDecision(raw(t, hitl.Decision{V: 1, DecisionID: "d", InteractionID: "i", Digest: "x", Content: *c}))
			require.NoError(t, err, "%s, %d deep", name, n)
		}
	}
}
