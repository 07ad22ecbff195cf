package hitltest_test

import (
	"encoding/json"
	"testing"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/hitltest"
)

// The kinds of the product pass what a new one has to pass.
func TestKinds_D2_10(t *testing.T) {
	t.Parallel()
	content := func(s string) hitl.Response { return hitl.Response{Content: json.RawMessage(s)} }
	answers := func(s string) hitl.Response { return hitl.Response{Answers: json.RawMessage(s)} }
	for name, e := range map[string]hitltest.KindExample{
		hitl.KindApproval: {
			Request: hitl.Request{
				Kind: hitl.KindApproval, SessionID: "s", Title: "Run the tests", Data: json.RawMessage(`{"more":[9007199254740993,"a \"b\""]}`),
				Tool: &hitl.Tool{Name: "Bash", Input: json.RawMessage(`{"command":"make test"}`)},
			},
			Broken: map[string]func(*hitl.Request){
				"tool":       func(r *hitl.Request) { r.Tool = nil },
				"tool.input": func(r *hitl.Request) { r.Tool = &hitl.Tool{Name: "Bash"} },
				"data":       func(r *hitl.Request) { r.Data = json.RawMessage(`[1]`) },
			},
			Answers: []hitl.Response{{Decision: "allow"}, {Decision: "allow", UpdatedInput: json.RawMessage(`{"command":"make"}`)}},
			Wrong: map[string]hitl.Response{
				"decision": {Decision: "yes"}, "content": content(`{"x":1}`), "updated_input": {Decision: "allow", UpdatedInput: json.RawMessage(`1`)},
			},
		},
		hitl.KindQuestion: {
			Request: hitl.Request{Kind: hitl.KindQuestion, SessionID: "s", Title: "Which?", Questions: []hitl.Question{
				{ID: "db", Question: "Which?", Options: []hitl.Option{{Label: "Postgres"}, {Label: "SQLite"}}},
			}},
			Broken:  map[string]func(*hitl.Request){"questions": func(r *hitl.Request) { r.Questions = nil }},
			Answers: []hitl.Response{answers(`{"db":"Postgres"}`), answers(`[{"question_id":"db","values":["SQLite"]}]`)},
			Wrong: map[string]hitl.Response{
				"answers": {}, "answers.7": answers(`{"7":"Postgres"}`), "content": content(`{"db":"Postgres"}`),
			},
		},
		hitl.KindForm: {
			Request: hitl.Request{
				Kind: hitl.KindForm, SessionID: "s", Title: "Where?",
				Schema: json.RawMessage(`{"type":"object","properties":{"port":{"type":"integer"}},"required":["port"]}`),
			},
			Broken:  map[string]func(*hitl.Request){"schema": func(r *hitl.Request) { r.Schema = nil }},
			Answers: []hitl.Response{content(`{"port":9007199254740993}`)},
			Wrong: map[string]hitl.Response{
				"content": content(`"{"`), "content.port": content(`{"port":"x"}`), "answers": answers(`{"port":1}`),
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hitltest.KindSuite(t, e)
		})
	}
}
