package hitl

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/banksman/banksman/pkg/hitl/internal/labels"
	"github.com/banksman/banksman/pkg/hitl/internal/strictjson"
)

// DecodeAnswers reads the answers to a request's questions in any of the forms
// that clients use: a list of Answer, or a map keyed by question id, index or
// question text whose values are text, a JSON list of labels as a string, or
// (multi-select only) labels joined by ", ". Two readings are refused rather
// than guessed at; text that is no option becomes free text and is never lost;
// an empty answer is no answer. Problems name the question.
func DecodeAnswers(r *Request, raw json.RawMessage) ([]Answer, []Field) {
	// Keys may be question texts, and those may differ in case only. What is
	// decoded into a struct is looked at more strictly below.
	if err := strictjson.CheckExact(raw); err != nil {
		return nil, []Field{{Field: "answers", Problem: "is not valid JSON: " + err.Error()}}
	}
	var c checker
	got := make([]*Answer, len(r.Questions))
	put := func(i int, key string, a *Answer) {
		if got[i] != nil {
			c.Add("answers."+key, "answers the same question twice")
			return
		}
		got[i] = a
	}
	var list []Answer
	var byKey map[string]json.RawMessage
	switch {
	case json.Unmarshal(raw, &list) == nil && list != nil:
		if err := CheckJSON(raw); err != nil {
			return nil, []Field{{Field: "answers", Problem: "is not valid JSON: " + err.Error()}}
		}
		for i := range list {
			q := -1
			for j := range r.Questions {
				if r.QuestionID(j) == list[i].QuestionID {
					q = j
				}
			}
			if q < 0 {
				c.Add("answers", fmt.Sprintf("%q is not a question of this request", list[i].QuestionID))
				continue
			}
			put(q, list[i].QuestionID, checkStructured(&c, &r.Questions[q], list[i]))
		}
	case json.Unmarshal(raw, &byKey) == nil && byKey != nil:
		for _, key := range sortedKeys(byKey) {
			i, problem := findQuestion(r, key)
			if problem != "" {
				c.Add("answers."+key, problem)
				continue
			}
			put(i, key, decodeValue(&c, &r.Questions[i], key, byKey[key]))
		}
	default:
		c.Add("answers", "must be a map by question or a list of answers")
	}
	if len(c.Fields) > 0 {
		return nil, c.Fields
	}
	var answers []Answer
	for i, a := range got {
		id := r.QuestionID(i)
		if a == nil || len(a.Values) == 0 && strings.TrimSpace(a.Other) == "" {
			switch {
			case r.Questions[i].MustAnswer():
				c.Add("answers."+id, "is missing")
			case a != nil && strings.TrimSpace(a.Notes) != "":
				c.Add("answers."+id, "has notes but no answer")
			}
			continue
		}
		a.QuestionID = id
		if a.Values == nil {
			a.Values = []string{} // a list for every reader, also with free text only
		}
		answers = append(answers, *a)
	}
	if len(answers) == 0 && len(c.Fields) == 0 {
		c.Add("answers", "is empty; an empty answer is no answer")
	}
	return answers, c.Fields
}

func sortedKeys(m map[string]json.RawMessage) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// findQuestion resolves a key that may be an id, an index or a question's text.
func findQuestion(r *Request, key string) (int, string) {
	var hits []int
	hit := func(i int) {
		if !slices.Contains(hits, i) {
			hits = append(hits, i)
		}
	}
	for i := range r.Questions {
		if r.QuestionID(i) == key || strconv.Itoa(i) == key || r.Questions[i].Question == key {
			hit(i)
		}
	}
	switch len(hits) {
	case 0:
		return 0, "is not a question of this request"
	case 1:
		return hits[0], ""
	}
	return 0, "fits more than one question; use their ids"
}

func checkStructured(c *checker, q *Question, a Answer) *Answer {
	at := "answers." + a.QuestionID
	out := &Answer{Other: a.Other, Notes: a.Notes}
	for _, v := range a.Values {
		if v == "" {
			continue
		}
		o := findOption(q, v)
		if o == nil {
			c.Add(at, fmt.Sprintf("%q is not one of its options", v))
			continue
		}
		if slices.Contains(out.Values, o.OptionValue()) {
			c.Add(at, fmt.Sprintf("%q stands twice", v))
			continue
		}
		out.Values = append(out.Values, o.OptionValue())
	}
	checkShape(c, at, q, out)
	return out
}

func checkShape(c *checker, at string, q *Question, a *Answer) {
	hasOther := strings.TrimSpace(a.Other) != ""
	switch {
	case !q.MultiSelect && len(a.Values) > 1:
		c.Add(at, "takes one option, not several")
	case !q.MultiSelect && len(a.Values) == 1 && hasOther:
		c.Add(at, "takes one option or free text, not both")
	case q.FreeTextExclusive && len(a.Values) > 0 && hasOther:
		c.Add(at, "takes options or free text, not both")
	case hasOther && !q.Other():
		c.Add(at, fmt.Sprintf("%q is not one of its options, and free text is not allowed", a.Other))
	}
}

func findOption(q *Question, v string) *Option {
	for i := range q.Options {
		if q.Options[i].OptionValue() == v {
			return &q.Options[i]
		}
	}
	for i := range q.Options {
		if q.Options[i].Label == v {
			return &q.Options[i]
		}
	}
	return nil
}

// sayOption finds the option that a text names, which may be its value or its
// label. Where it is one option's value and another one's label, nobody can
// tell which is meant.
func sayOption(c *checker, at string, q *Question, v string) *Option {
	o := findOption(q, v)
	for i := range q.Options {
		if p := &q.Options[i]; o != nil && p != o && p.Label == v {
			c.Add(at, fmt.Sprintf("%q fits two options; send question_id and values", v))
		}
	}
	return o
}

func decodeValue(c *checker, q *Question, key string, raw json.RawMessage) *Answer {
	at := "answers." + key
	var s string
	var list []string
	var full Answer
	switch {
	case json.Unmarshal(raw, &s) == nil && string(raw) != "null":
		if q.MultiSelect && strings.HasPrefix(strings.TrimSpace(s), "[") && json.Unmarshal([]byte(s), &list) == nil {
			return decodeList(c, at, q, list)
		}
		return decodeText(c, at, q, s)
	case json.Unmarshal(raw, &list) == nil && list != nil:
		return decodeList(c, at, q, list)
	case strings.HasPrefix(string(raw), "{") && CheckJSON(raw) == nil && json.Unmarshal(raw, &full) == nil:
		full.QuestionID = key
		return checkStructured(c, q, full)
	}
	c.Add(at, "must be text or a list of labels")
	return &Answer{}
}

func decodeList(c *checker, at string, q *Question, list []string) *Answer {
	a := &Answer{}
	var other []string
	for _, v := range list {
		if o := sayOption(c, at, q, v); o != nil {
			if !slices.Contains(a.Values, o.OptionValue()) {
				a.Values = append(a.Values, o.OptionValue())
			}
		} else if v != "" {
			other = append(other, v)
		}
	}
	a.Other = strings.Join(other, ", ")
	checkShape(c, at, q, a)
	return a
}

func decodeText(c *checker, at string, q *Question, s string) *Answer {
	a := &Answer{}
	if q.MultiSelect {
		all := make([]string, len(q.Options))
		for i := range q.Options {
			all[i] = q.Options[i].Label
		}
		splits := labels.Split(s, all, 2)
		if len(splits) > 1 {
			c.Add(at, "can be read in more than one way; send the labels as a list")
			return a
		}
		if len(splits) == 1 {
			return decodeList(c, at, q, splits[0])
		}
	}
	if o := sayOption(c, at, q, s); o != nil {
		a.Values = []string{o.OptionValue()}
		return a
	}
	a.Other = s
	checkShape(c, at, q, a)
	return a
}
