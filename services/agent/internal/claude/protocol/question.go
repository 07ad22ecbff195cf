package protocol

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// QuestionTool is the name of the tool that asks a person.
const QuestionTool = "AskUserQuestion"

// Question is one question of an AskUserQuestion call. The CLI keeps the texts
// of one call distinct and finds the answers by them.
type Question struct {
	Text        string           `json:"question"`
	Header      string           `json:"header"`
	Options     []QuestionOption `json:"options"`
	MultiSelect bool             `json:"multiSelect"`
}

// QuestionOption is one choice.
type QuestionOption struct {
	Label       string `json:"label"`
	Description string `json:"description"`
	Preview     string `json:"preview"`
}

// Annotation goes beside an answer.
type Annotation struct {
	Preview string `json:"preview,omitempty"`
	Notes   string `json:"notes,omitempty"`
}

// DecodeQuestions reads the input of an AskUserQuestion call.
func DecodeQuestions(input json.RawMessage) ([]Question, error) {
	fields, err := objectFields("input", input)
	if err != nil {
		return nil, err
	}
	var raw json.RawMessage
	for _, f := range fields {
		if f.name == "questions" {
			raw = f.value
		}
	}
	if raw == nil {
		return nil, &InputError{"input.questions", "missing"}
	}
	var qs []Question
	if err := json.Unmarshal(raw, &qs); err != nil {
		return nil, &InputError{"input.questions", err.Error()}
	}
	if len(qs) == 0 {
		return nil, &InputError{"input.questions", "empty"}
	}
	seen := map[string]bool{}
	for i, q := range qs {
		field := fmt.Sprintf("input.questions[%d].question", i)
		if q.Text == "" {
			return nil, &InputError{field, "missing"}
		}
		if seen[q.Text] {
			return nil, &InputError{field, "the same text twice"}
		}
		seen[q.Text] = true
	}
	return qs, nil
}

// EncodeAnswers builds the updatedInput for an AskUserQuestion call: every
// field of the original bytes as it is, then answers and annotations. Both are
// keyed by the question's text. Questions may be left out, but a key that is no
// question, an empty value and no answer at all are errors: the CLI would take
// each of them silently for "not answered".
func EncodeAnswers(input json.RawMessage, answers map[string]string, annotations map[string]Annotation) (json.RawMessage, error) {
	qs, err := DecodeQuestions(input)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, q := range qs {
		known[q.Text] = true
	}
	for k, v := range answers {
		switch {
		case !known[k]:
			return nil, &InputError{"answers", fmt.Sprintf("no question %q", k)}
		case strings.TrimSpace(v) == "":
			return nil, &InputError{"answers", fmt.Sprintf("empty answer to %q", k)}
		case !utf8.ValidString(v):
			return nil, &InputError{"answers", fmt.Sprintf("invalid UTF-8 in the answer to %q", k)}
		}
	}
	for k := range annotations {
		if !known[k] {
			return nil, &InputError{"annotations", fmt.Sprintf("no question %q", k)}
		}
	}
	if len(answers) == 0 {
		return nil, &InputError{"answers", "empty"}
	}
	fields, err := objectFields("input", input)
	if err != nil {
		return nil, err
	}
	out := []byte{'{'}
	for _, f := range fields {
		switch f.name {
		case "answers", "annotations", "response":
			continue // only a person's answer may stand here
		}
		out = append(append(append(out, f.key...), ':'), f.value...)
		out = append(out, ',')
	}
	out = append(out, `"answers":{`...)
	n := 0
	for _, q := range qs { // in the order of the questions, so that it is stable
		v, ok := answers[q.Text]
		if !ok {
			continue
		}
		if n > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, quote(q.Text)...), ':'), quote(v)...)
		n++
	}
	out = append(out, '}')
	if len(annotations) > 0 {
		b, err := json.Marshal(annotations)
		if err != nil {
			return nil, fmt.Errorf("annotations: %w", err)
		}
		out = append(append(out, `,"annotations":`...), b...)
	}
	return append(out, '}'), nil
}

// JoinLabels writes the value of a multi-select answer. Free text is one more
// label. The CLI splits at ", ", so a label that holds this, or a double quote,
// goes in as a JSON string.
func JoinLabels(labels []string) string {
	parts := make([]string, len(labels))
	for i, l := range labels {
		parts[i] = l
		if strings.Contains(l, ", ") || strings.Contains(l, `"`) {
			parts[i] = string(quote(l))
		}
	}
	return strings.Join(parts, ", ")
}

// CheckAnswers is the last gate before an allow of AskUserQuestion: something
// has to be answered, under a text that was asked.
func CheckAnswers(asked, updated json.RawMessage) error {
	qs, err := DecodeQuestions(asked)
	if err != nil {
		return err
	}
	fields, err := objectFields("updatedInput", updated)
	if err != nil {
		return err
	}
	var raw json.RawMessage
	for _, f := range fields {
		if f.name == "answers" {
			raw = f.value
		}
	}
	var answers map[string]string
	if raw != nil {
		if err := json.Unmarshal(raw, &answers); err != nil {
			return &InputError{"updatedInput.answers", "not a map of question texts to strings"}
		}
	}
	known := 0
	for _, q := range qs {
		if answers[q.Text] != "" {
			known++
		}
	}
	if known == 0 || known != len(answers) {
		return &InputError{"updatedInput.answers", "must answer questions by their text, and nothing else"}
	}
	return nil
}

type objectField struct {
	name       string
	key, value []byte // as written
}

// objectFields splits an object without changing a byte of its members. Names
// that appear twice are refused: two readers could take different ones.
func objectFields(field string, raw []byte) ([]objectField, error) {
	raw = bytes.TrimSpace(raw)
	if !isObject(raw) || !json.Valid(raw) || !utf8.Valid(raw) {
		return nil, &InputError{field, "not a JSON object"}
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if _, err := dec.Token(); err != nil {
		return nil, &InputError{field, err.Error()}
	}
	var out []objectField
	seen := map[string]bool{}
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return nil, &InputError{field, err.Error()}
		}
		name, ok := tok.(string)
		if !ok {
			return nil, &InputError{field, "not a JSON object"}
		}
		if seen[name] {
			return nil, &InputError{field, fmt.Sprintf("%q appears twice", name)}
		}
		seen[name] = true
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			return nil, &InputError{field, err.Error()}
		}
		out = append(out, objectField{name: name, key: quote(name), value: v})
	}
	return out, nil
}
