package protocol

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
)

// FuzzLines: what goes to the CLI is one line of JSON that holds what was given,
// or an error that names the field.
func FuzzLines(f *testing.F) {
	for _, s := range []string{
		`{}`, ``, `null`, `[]`, `{"n":9007199254740993,"s":"<\u2028>"}`, "{\"a\":\"\u2028\u2029\"}", "{\n\"a\":\r1}", "{\"a\":\"\xff\"}", `{"a":1}}`, `{"a":1,"a":2}`, `{"a":"\ud800"}`,
		`{"questions":[{"question":"?","header":"h","options":[{"label":"A, B"},{"label":"C"}],"multiSelect":true}]}`, `{"questions":"[{\"question\":\"?\"}]","answers":{"?":"made up"}}`,
		`{"questions":[{"question":"?"},{"question":"?"}]}`, `{"questions":[],"questions":[]}`,
	} {
		f.Add("r1", []byte(s), "text")
		f.Add("r\"\n", []byte(s), "\u2028\ud7ff")
	}
	f.Fuzz(func(t *testing.T, id string, input []byte, words string) {
		var e *InputError
		check := func(line []byte, err error) {
			t.Helper()
			if err != nil {
				require.ErrorAs(t, err, &e)
				require.NotEmpty(t, e.Field)
				return
			}
			require.True(t, json.Valid(line))
			require.False(t, bytes.ContainsAny(line, "\r\n\u2028\u2029"), "one line")
		}
		line, err := AllowLine(id, input, nil)
		check(line, err)
		if err == nil {
			want, errW := hitl.Canonical(input)
			var out struct {
				Response struct {
					RequestID string `json:"request_id"`
					Response  struct {
						UpdatedInput json.RawMessage `json:"updatedInput"`
					}
				}
			}
			require.NoError(t, json.Unmarshal(line, &out))
			require.Equal(t, string([]rune(id)), out.Response.RequestID)
			if errW == nil {
				got, err := hitl.Canonical(out.Response.Response.UpdatedInput)
				require.NoError(t, err)
				require.Equal(t, string(want), string(got), "numbers and texts are what people saw")
			}
		}
		check(AllowLine(id, []byte(`{}`), input))
		check(DenyLine(id, words, true))
		check(ElicitationLine(id, Accept, input))
		check(ElicitationLine(id, words, nil))
		check(RefusalLine(&Refusal{RequestID: id, Message: words}), nil)
		check(SetModeLine(id, words), nil)

		qs, err := DecodeQuestions(input)
		if err != nil {
			require.ErrorAs(t, err, &e)
			return
		}
		require.NotEmpty(t, qs)
		answers := map[string]string{qs[0].Text: words}
		updated, err := EncodeAnswers(input, answers, nil)
		if err != nil {
			require.ErrorAs(t, err, &e)
			return
		}
		require.NoError(t, CheckAnswers(input, updated))
		var got struct {
			Answers map[string]string `json:"answers"`
		}
		require.NoError(t, json.Unmarshal(updated, &got))
		require.Equal(t, answers, got.Answers, "only what a person said")
	})
}
