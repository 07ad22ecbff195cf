package protocol

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

const twoQuestions = `{ "questions": [{"question":"Which \u0041?","options":[{"label":"x","n":9007199254740993}]} , {"question":"Which B?","header":"B","options":[{"label":"y","preview":"<b>"}],"multiSelect":true}], "metadata":{"source":"plan"}, "answers":{"Which A?":"invented"}, "response":"invented" }`

// Original fields stay as they were written; answers the model made up do not.
func TestEncodeAnswers_D0_17_D1_06_D4_03(t *testing.T) {
	t.Parallel()
	got, err := EncodeAnswers(json.RawMessage(twoQuestions),
		map[string]string{"Which B?": JoinLabels([]string{"y", "a, b"}), "Which A?": "free <text>"},
		map[string]Annotation{"Which B?": {Notes: "because"}})
	require.NoError(t, err)
	require.Equal(t, `{"questions":[{"question":"Which \u0041?","options":[{"label":"x","n":9007199254740993}]} , {"question":"Which B?","header":"B","options":[{"label":"y","preview":"<b>"}],"multiSelect":true}],`+
		`"metadata":{"source":"plan"},"answers":{"Which A?":"free <text>","Which B?":"y, \"a, b\""},"annotations":{"Which B?":{"notes":"because"}}}`, string(got))
}

func TestEncodeAnswersRefuses(t *testing.T) {
	t.Parallel()
	ok := map[string]string{"Which A?": "x"}
	for name, c := range map[string]struct {
		input   string
		answers map[string]string
		notes   map[string]Annotation
		field   string
	}{
		"B-08 a key that is no question":  {twoQuestions, map[string]string{"B": "y"}, nil, "answers"},
		"B-02 an index as key":            {twoQuestions, map[string]string{"0": "x", "1": "y"}, nil, "answers"},
		"B-12 no answer":                  {twoQuestions, nil, nil, "answers"},
		"an empty answer":                 {twoQuestions, map[string]string{"Which A?": " "}, nil, "answers"},
		"invalid UTF-8":                   {twoQuestions, map[string]string{"Which A?": "\xff"}, nil, "answers"},
		"a note to no question":           {twoQuestions, ok, map[string]Annotation{"C?": {Notes: "n"}}, "annotations"},
		"questions that are missing":      {`{}`, ok, nil, "input.questions"},
		"questions of another shape":      {`{"questions":{}}`, ok, nil, "input.questions"},
		"questions that are none":         {`{"questions":[]}`, ok, nil, "input.questions"},
		"one text twice":                  {`{"questions":[{"question":"Which A?"},{"question":"Which A?"}]}`, ok, nil, "input.questions[1].question"},
		"a question without text":         {`{"questions":[{"header":"A"}]}`, ok, nil, "input.questions[0].question"},
		"a field that appears twice":      {`{"questions":[{"question":"Which A?"}],"questions":[]}`, ok, nil, "input"},
		"an input that is not an object":  {`[1]`, ok, nil, "input"},
		"an input that is not JSON":       {`{"questions":`, ok, nil, "input"},
		"an input that has not even that": {``, ok, nil, "input"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := EncodeAnswers(json.RawMessage(c.input), c.answers, c.notes)
			var bad *InputError
			require.ErrorAs(t, err, &bad)
			require.Equal(t, c.field, bad.Field)
		})
	}
}

func TestDecodeQuestions_D1_05(t *testing.T) {
	t.Parallel()
	qs, err := DecodeQuestions(json.RawMessage(twoQuestions))
	require.NoError(t, err)
	require.Equal(t, []Question{
		{Text: "Which A?", Options: []QuestionOption{{Label: "x"}}},
		{Text: "Which B?", Header: "B", Options: []QuestionOption{{Label: "y", Preview: "<b>"}}, MultiSelect: true},
	}, qs)
}

func TestJoinLabels(t *testing.T) {
	t.Parallel()
	for want, labels := range map[string][]string{
		"":                        nil,
		"Auth":                    {"Auth"},
		"Auth, Billing":           {"Auth", "Billing"},
		`"Audit, logs", Auth`:     {"Audit, logs", "Auth"},
		`a,b, "say \"hi\" <now>"`: {"a,b", `say "hi" <now>`},
	} {
		require.Equal(t, want, JoinLabels(labels))
	}
}
