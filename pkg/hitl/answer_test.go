package hitl_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
)

func answers(a ...hitl.Answer) []hitl.Answer { return a }

func TestDecodeAnswers(t *testing.T) {
	t.Parallel()
	two := question(choose("Which database?", "PostgreSQL", "SQLite"), choose("Which region?", "eu", "us"))
	features := question(multi("Which features?", "A", "B", "C, with comma", "A, B"))
	plain := question(multi("Which?", "A", "B", "C, with comma"))
	ids := question(
		hitl.Question{ID: "db", Question: "Which?", Options: []hitl.Option{{Value: "pg", Label: "PostgreSQL"}, {Value: "lite", Label: "SQLite"}}},
		hitl.Question{ID: "why", Question: "Why?", Required: no()},
	)
	twins := question(choose("Same?", "A"), choose("Same?", "B"))
	shifted := question(hitl.Question{ID: "1", Question: "a"}, hitl.Question{ID: "x", Question: "b"})
	cases := question(hitl.Question{ID: "q", Question: "lower"}, hitl.Question{ID: "Q", Question: "upper"})
	closed := question(hitl.Question{Question: "Sure?", AllowOther: no(), Options: []hitl.Option{{Label: "yes"}, {Label: "no"}}})
	exclusive := question(hitl.Question{Question: "Which?", MultiSelect: true, FreeTextExclusive: true, Options: []hitl.Option{{Label: "A"}, {Label: "B"}}})
	crossed := question(hitl.Question{Question: "Which?", Options: []hitl.Option{{Value: "b", Label: "a"}, {Value: "c", Label: "b"}}})
	optional := question(hitl.Question{Question: "Any?", Required: no()}, hitl.Question{Question: "Other?", Required: no()})

	for _, c := range []struct {
		name string
		r    *hitl.Request
		in   string
		want []hitl.Answer // nil: refused
		bad  []string
	}{
		{"C-01 D0-24 by index", two, `{"0":"SQLite","1":"eu"}`, answers(hitl.Answer{QuestionID: "0", Values: []string{"SQLite"}}, hitl.Answer{QuestionID: "1", Values: []string{"eu"}}), nil},
		{"C-01 D1-22 by text", two, `{"Which region?":"us","Which database?":"PostgreSQL"}`, answers(hitl.Answer{QuestionID: "0", Values: []string{"PostgreSQL"}}, hitl.Answer{QuestionID: "1", Values: []string{"us"}}), nil},
		{"C-01 by id", ids, `{"db":"SQLite"}`, answers(hitl.Answer{QuestionID: "db", Values: []string{"lite"}}), nil},
		{"B-02 index of a question with an id", ids, `{"0":"pg"}`, answers(hitl.Answer{QuestionID: "db", Values: []string{"pg"}}), nil},
		{"C-01 two equal texts are refused", twins, `{"Same?":"A"}`, nil, []string{"answers.Same?"}},
		{"C-01 two equal texts by index", twins, `{"0":"A","1":"B"}`, answers(hitl.Answer{QuestionID: "0", Values: []string{"A"}}, hitl.Answer{QuestionID: "1", Values: []string{"B"}}), nil},
		{"an id that is another one's index is refused", shifted, `{"1":"A","x":"B"}`, nil, []string{"answers.1"}},
		{"keys that differ in case", cases, `{"q":"a","Q":"b"}`, answers(hitl.Answer{QuestionID: "q", Other: "a"}, hitl.Answer{QuestionID: "Q", Other: "b"}), nil},
		{"one question twice", two, `{"0":"SQLite","Which database?":"PostgreSQL","1":"eu"}`, nil, []string{"answers.Which database?"}},
		{"B-08 unknown question", two, `{"0":"SQLite","1":"eu","2":"x"}`, nil, []string{"answers.2"}},
		{"a part is missing", two, `{"0":"SQLite"}`, nil, []string{"answers.1"}},
		{"B-13 nothing is chosen for anybody", two, `{"1":"eu"}`, nil, []string{"answers.0"}},
		{"B-13 digits in a text choose nothing", two, `{"0":"use port 8080, 2 replicas","1":"eu"}`, answers(hitl.Answer{QuestionID: "0", Other: "use port 8080, 2 replicas"}, hitl.Answer{QuestionID: "1", Values: []string{"eu"}}), nil},
		{"blank text is no answer", two, `{"0":" \n","1":"eu"}`, nil, []string{"answers.0"}},
		{"D0-24 free text", two, `{"0":"MySQL","1":"eu"}`, answers(hitl.Answer{QuestionID: "0", Other: "MySQL"}, hitl.Answer{QuestionID: "1", Values: []string{"eu"}}), nil},
		{"a list for one choice", two, `{"0":["SQLite"],"1":"eu"}`, answers(hitl.Answer{QuestionID: "0", Values: []string{"SQLite"}}, hitl.Answer{QuestionID: "1", Values: []string{"eu"}}), nil},
		{"two for one choice", two, `{"0":["SQLite","PostgreSQL"],"1":"eu"}`, nil, []string{"answers.0"}},
		{"C-02 a JSON list is text for one choice", two, `{"0":"[\"SQLite\"]","1":"eu"}`, answers(hitl.Answer{QuestionID: "0", Other: `["SQLite"]`}, hitl.Answer{QuestionID: "1", Values: []string{"eu"}}), nil},

		{"D0-24 C-02 JSON list as text", plain, `{"0":"[\"A\",\"C, with comma\"]"}`, answers(hitl.Answer{QuestionID: "0", Values: []string{"A", "C, with comma"}}), nil},
		{"C-02 joined labels", plain, `{"0":"B, C, with comma, A"}`, answers(hitl.Answer{QuestionID: "0", Values: []string{"B", "C, with comma", "A"}}), nil},
		{"C-02 joined labels with quotes", features, `{"0":"\"A, B\", \"C, with comma\""}`, answers(hitl.Answer{QuestionID: "0", Values: []string{"A, B", "C, with comma"}}), nil},
		{"C-02 two readings are refused", features, `{"0":"A, B"}`, nil, []string{"answers.0"}},
		{"C-02 the list has one reading", features, `{"0":["A, B"]}`, answers(hitl.Answer{QuestionID: "0", Values: []string{"A, B"}}), nil},
		{"B-10 C-04 options and text", plain, `{"0":["A","B","x, y"]}`, answers(hitl.Answer{QuestionID: "0", Values: []string{"A", "B"}, Other: "x, y"}), nil},
		{"B-10 joined text that is not all labels stays whole", plain, `{"0":"A, B, x, y"}`, answers(hitl.Answer{QuestionID: "0", Other: "A, B, x, y"}), nil},
		{"B-10 structured", plain, `[{"question_id":"0","values":["A","B"],"other":"x, y","notes":"n"}]`, answers(hitl.Answer{QuestionID: "0", Values: []string{"A", "B"}, Other: "x, y", Notes: "n"}), nil},
		{"a label twice counts once", plain, `{"0":["A","A"]}`, answers(hitl.Answer{QuestionID: "0", Values: []string{"A"}}), nil},
		{"C-04 exclusive", exclusive, `{"0":["A","text"]}`, nil, []string{"answers.0"}},
		{"C-04 exclusive text", exclusive, `{"0":"text"}`, answers(hitl.Answer{QuestionID: "0", Other: "text"}), nil},
		{"one choice or text", two, `[{"question_id":"0","values":["SQLite"],"other":"x"},{"question_id":"1","values":["eu"]}]`, nil, []string{"answers.0"}},

		{"no free text", closed, `{"0":"perhaps"}`, nil, []string{"answers.0"}},
		{"no free text, an option", closed, `{"0":"no"}`, answers(hitl.Answer{QuestionID: "0", Values: []string{"no"}}), nil},
		{"one option's value, another one's label", crossed, `{"0":"b"}`, nil, []string{"answers.0"}},
		{"the same, structured", crossed, `[{"question_id":"0","values":["b"]}]`, answers(hitl.Answer{QuestionID: "0", Values: []string{"b"}}), nil},

		{"structured by label", ids, `[{"question_id":"db","values":["SQLite"]}]`, answers(hitl.Answer{QuestionID: "db", Values: []string{"lite"}}), nil},
		{"structured with an unknown value", ids, `[{"question_id":"db","values":["MySQL"]}]`, nil, []string{"answers.db"}},
		{"structured, a value twice", plain, `[{"question_id":"0","values":["A","A"]}]`, nil, []string{"answers.0"}},
		{"structured for an unknown question", ids, `[{"question_id":"x","values":["pg"]}]`, nil, []string{"answers"}},
		{"structured, a question twice", ids, `[{"question_id":"db","values":["pg"]},{"question_id":"db","values":["lite"]}]`, nil, []string{"answers.db"}},
		{"structured, a key in a disguise", ids, `[{"question_id":"db","values":["pg"],"Values":["lite"]}]`, nil, []string{"answers"}},
		{"structured in a map", ids, `{"db":{"values":["pg"],"notes":"n"}}`, answers(hitl.Answer{QuestionID: "db", Values: []string{"pg"}, Notes: "n"}), nil},
		{"structured in a map, a key in a disguise", ids, `{"db":{"values":["pg"],"valueſ":["lite"]}}`, nil, []string{"answers.db"}},
		{"optional left out", ids, `{"db":"pg"}`, answers(hitl.Answer{QuestionID: "db", Values: []string{"pg"}}), nil},
		{"notes are no answer", ids, `[{"question_id":"db","values":["pg"]},{"question_id":"why","notes":"n"}]`, nil, []string{"answers.why"}},
		{"C-19 all optional and nothing said", optional, `{}`, nil, []string{"answers"}},
		{"C-19 all optional and blanks", optional, `{"0":"","1":" "}`, nil, []string{"answers"}},
		{"an empty list", plain, `[]`, nil, []string{"answers.0"}},

		{"a list of texts", plain, `["A"]`, nil, []string{"answers"}},
		{"text", plain, `"A"`, nil, []string{"answers"}},
		{"null for an answer", plain, `{"0":null}`, nil, []string{"answers.0"}},
		{"a number for an answer", plain, `{"0":1}`, nil, []string{"answers.0"}},
		{"a duplicate key", plain, `{"0":"A","0":"B"}`, nil, []string{"answers"}},
		{"no JSON", plain, `{`, nil, []string{"answers"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, problems := hitl.DecodeAnswers(c.r, json.RawMessage(c.in))
			if c.bad != nil {
				require.NotEmpty(t, problems)
				var names []string
				for _, p := range problems {
					names = append(names, p.Field)
				}
				require.Equal(t, c.bad, names, "%v", problems)
				return
			}
			require.Empty(t, problems)
			for i, a := range got {
				require.NotNil(t, a.Values, "a list for every reader")
				if len(a.Values) == 0 && c.want[i].Values == nil {
					got[i].Values = nil
				}
			}
			require.Equal(t, c.want, got)
		})
	}
}

// TestJoinedLabelsAreCheap: labels that are parts of each other can be tried
// in half a billion orders.
func TestJoinedLabelsAreCheap(t *testing.T) {
	t.Parallel()
	var labels []string
	for i := range hitl.MaxOptions {
		labels = append(labels, strings.TrimSuffix(strings.Repeat("a, ", i+1), ", "))
	}
	r := question(multi("Which?", labels...))
	require.NoError(t, r.Validate())
	began := time.Now()
	text := strings.Repeat("a, ", 77) + "b"
	got, problems := hitl.DecodeAnswers(r, raw(t, map[string]string{"0": text}))
	require.Empty(t, problems)
	require.Equal(t, text, got[0].Other, "text is never lost")
	_, problems = hitl.DecodeAnswers(r, raw(t, map[string]string{"0": strings.Repeat("a, ", 40) + "a"}))
	require.NotEmpty(t, problems, "read in more than one way")
	require.Less(t, time.Since(began), 5*time.Second)
}

// TestEveryLabelCanBeChosen encodes each set of labels in each form that
// clients use and reads it back.
func TestEveryLabelCanBeChosen(t *testing.T) {
	t.Parallel()
	labels := []string{"A", "B, C", `"quoted"`, "[list]", "ä, ö", "1", "😀"}
	r := question(multi("Which?", labels...))
	for set := 1; set < 1<<len(labels); set++ {
		var chosen, quoted []string
		for i, l := range labels {
			if set&(1<<i) != 0 {
				chosen = append(chosen, l)
				quoted = append(quoted, string(raw(t, l)))
			}
		}
		list := string(raw(t, chosen))
		for _, in := range []string{
			fmt.Sprintf(`{"0":%s}`, list),
			fmt.Sprintf(`{"0":%s}`, raw(t, list)),
			fmt.Sprintf(`{"Which?":%s}`, raw(t, strings.Join(quoted, ", "))),
			fmt.Sprintf(`{"0":%s}`, raw(t, strings.Join(chosen, ", "))),
			fmt.Sprintf(`[{"question_id":"0","values":%s}]`, list),
		} {
			got, problems := hitl.DecodeAnswers(r, json.RawMessage(in))
			require.Empty(t, problems, in)
			require.Equal(t, answers(hitl.Answer{QuestionID: "0", Values: chosen}), got, in)
		}
	}
}
