package hitl_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares got with a file of testdata.
func golden(t testing.TB, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}

// fields returns the names of the fields that err complains about.
func fields(t testing.TB, err error) []string {
	t.Helper()
	var invalid *hitl.InvalidError
	require.ErrorAs(t, err, &invalid)
	var names []string
	for _, f := range invalid.Fields {
		require.NotEmpty(t, f.Problem)
		names = append(names, f.Field)
	}
	return names
}

func no() *bool {
	b := false
	return &b
}

func approval() *hitl.Request {
	return &hitl.Request{
		V: 1, ID: "i", Kind: hitl.KindApproval, Tenant: "t", Owner: "o", SessionID: "s", Title: "Run a command",
		Tool: &hitl.Tool{Name: "Bash", Input: json.RawMessage(`{"command":"ls"}`)},
	}
}

func question(qs ...hitl.Question) *hitl.Request {
	return &hitl.Request{
		V: 1, ID: "i", Kind: hitl.KindQuestion, Tenant: "t", Owner: "o", SessionID: "s", Title: "A question",
		Questions: qs,
	}
}

func form(schema string) *hitl.Request {
	return &hitl.Request{
		V: 1, ID: "i", Kind: hitl.KindForm, Tenant: "t", Owner: "o", SessionID: "s", Title: "A form",
		Schema: json.RawMessage(schema),
	}
}

func choose(text string, labels ...string) hitl.Question {
	q := hitl.Question{Question: text}
	for _, l := range labels {
		q.Options = append(q.Options, hitl.Option{Label: l})
	}
	return q
}

func multi(text string, labels ...string) hitl.Question {
	q := choose(text, labels...)
	q.MultiSelect = true
	return q
}

func raw(t testing.TB, v any) json.RawMessage {
	t.Helper()
	b, err := hitl.Marshal(v)
	require.NoError(t, err)
	return b
}

func TestIDs(t *testing.T) {
	t.Parallel()
	// Fixed: ids of requests that wait must survive an upgrade.
	for _, c := range []struct {
		tenant, owner, key string
		attempt            int
		want               string
	}{
		{"default", "agents", "k", 1, "6317af19-adbc-81f1-ad44-de9294a2963c"},
		{"default", "agents", "k", 2, "1a698802-97ed-81f3-820a-ed040d805db5"},
		{"", "", "", 1, "58c2e640-6d11-8444-bf82-50bba0b43073"},
	} {
		require.Equal(t, c.want, hitl.ID(c.tenant, c.owner, c.key, c.attempt))
	}
	seen := map[string]bool{}
	for _, parts := range [][3]string{{"a", "b", "c"}, {"ab", "", "c"}, {"a", "bc", ""}, {"", "ab", "c"}, {"a", "b", "c1"}} {
		for attempt := 1; attempt <= 2; attempt++ {
			id := hitl.ID(parts[0], parts[1], parts[2], attempt)
			require.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, id)
			require.False(t, seen[id], "parts must not run into each other")
			seen[id] = true
		}
	}
	require.NotEqual(t, hitl.NewKey(), hitl.NewKey())
	require.Regexp(t, `^random-[0-9a-f]{32}$`, hitl.NewKey())
	require.Equal(t, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", hitl.Digest(nil))
}

func TestKinds_D1_02_D3_01(t *testing.T) {
	t.Parallel()
	require.Equal(t, "tool_approval", hitl.RequestTypeOf(hitl.KindApproval))
	require.Equal(t, "ask_user_question", hitl.RequestTypeOf(hitl.KindQuestion))
	require.Equal(t, "form", hitl.RequestTypeOf(hitl.KindForm))
	require.Equal(t, "haiku", hitl.RequestTypeOf("haiku"))
	require.Equal(t, "tool", hitl.PresentationOf(hitl.KindApproval))
	require.Equal(t, "questionnaire", hitl.PresentationOf(hitl.KindQuestion))
	require.Equal(t, "questionnaire", hitl.PresentationOf(hitl.KindForm))
	require.Equal(t, "tool", hitl.PresentationOf("haiku"))
	require.Panics(t, func() { hitl.RegisterKind(hitl.Kind{Name: hitl.KindForm, RequestType: "another"}) })
	require.Panics(t, func() { hitl.RegisterKind(hitl.Kind{Name: "another", RequestType: "form"}) })
}

// TestNewKind: a kind that nobody knew needs nothing but its registration.
func TestNewKind(t *testing.T) {
	t.Parallel()
	hitl.RegisterKind(hitl.Kind{
		Name: "test_confirm", RequestType: "confirm", Presentation: "tool",
		Verbs: []string{hitl.VerbAnswer},
		Check: func(r *hitl.Request) []hitl.Field {
			if r.URL == "" {
				return []hitl.Field{{Field: "url", Problem: "is missing"}}
			}
			return nil
		},
		Answer: func(_ *hitl.Request, p *hitl.Response, c *hitl.Content) []hitl.Field {
			c.Content = p.Content
			return nil
		},
	})
	t.Run("D0-05 D1-05 a registered kind is parsed, answered and worded", func(t *testing.T) {
		t.Parallel()
		r := approval()
		r.Kind, r.Tool = "test_confirm", nil
		_, err := hitl.ParseRequest(raw(t, r))
		require.Equal(t, []string{"url"}, fields(t, err))
		r.URL = "https://example.org/"
		_, err = hitl.ParseRequest(raw(t, r))
		require.NoError(t, err)
		c, err := hitl.Evaluate(r, &hitl.Response{RequestType: "confirm", Content: []byte(`true`)})
		require.NoError(t, err)
		require.Equal(t, hitl.Answered, c.Outcome)
		require.Equal(t, "true", string(c.Content))
		_, err = hitl.Evaluate(r, &hitl.Response{Decision: "allow"})
		require.Equal(t, []string{"decision"}, fields(t, err))
		require.Equal(t, "Timed out", hitl.AgentText(r, &hitl.Content{Outcome: hitl.Expired}))
		require.Equal(t, "Cancelled", hitl.AgentText(r, &hitl.Content{Outcome: hitl.Cancelled}))
	})
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	persons := map[hitl.Outcome]bool{
		hitl.Allowed: true, hitl.Denied: true, hitl.Answered: true, hitl.Clarify: true, hitl.Dismissed: true,
		hitl.Expired: false, hitl.Cancelled: false, hitl.Orphaned: false, hitl.InvalidIX: false,
	}
	require.Len(t, persons, 9)
	for o, person := range persons {
		require.True(t, o.Known())
		require.Equal(t, person, o.ByPerson(), o)
	}
	require.False(t, hitl.Outcome("timeout").Known())
	require.False(t, hitl.Outcome("").Known())
}

func ExampleEvaluate() {
	r := &hitl.Request{
		Kind: hitl.KindQuestion,
		Questions: []hitl.Question{{
			ID: "db", Question: "Which databases?", MultiSelect: true,
			Options: []hitl.Option{{Label: "PostgreSQL"}, {Label: "SQLite, in memory"}},
		}},
	}
	c, err := hitl.Evaluate(r, &hitl.Response{Answers: []byte(`{"db": "SQLite, in memory, PostgreSQL"}`)})
	fmt.Println(c.Outcome, c.Answers[0].Values, err)
	_, err = hitl.Evaluate(r, &hitl.Response{Answers: []byte(`{"database": "PostgreSQL"}`)})
	fmt.Println(err)
	// Output:
	// answered [SQLite, in memory PostgreSQL] <nil>
	// invalid: answers.database: is not a question of this request
}
