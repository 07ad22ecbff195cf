package hitl

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/banksman/banksman/pkg/hitl/internal/schema"
	"github.com/banksman/banksman/pkg/hitl/internal/strictjson"
)

// Verbs a person may use.
const (
	VerbAllow   = "allow"
	VerbDeny    = "deny"
	VerbAnswer  = "answer"
	VerbClarify = "clarify"
	VerbDismiss = "dismiss"
)

// Kind is one kind of request. A new kind registers itself; stores, transport
// and gateway need no change for it.
type Kind struct {
	Name         string // the request's kind
	RequestType  string // its name in browser frames
	Presentation string // tool or questionnaire
	Verbs        []string
	// Check lists what is wrong with a request of this kind.
	Check func(*Request) []Field
	// Answer fills c from a response that answers; nil where the kind has no
	// verb answer.
	Answer func(r *Request, p *Response, c *Content) []Field
	// ExpiredText is what the agent reads when nobody answered in time.
	ExpiredText func(budget time.Duration) string
	// WithdrawnText is what the agent reads when the wait ended otherwise.
	WithdrawnText string
}

var kinds = struct {
	sync.RWMutex
	m map[string]Kind
}{m: map[string]Kind{}}

// RegisterKind adds a kind. It panics on a name or request type that is taken,
// which is a mistake in the program.
func RegisterKind(k Kind) {
	kinds.Lock()
	defer kinds.Unlock()
	for _, o := range kinds.m {
		if o.Name == k.Name || o.RequestType == k.RequestType {
			panic("hitl: kind registered twice: " + k.Name)
		}
	}
	if k.ExpiredText == nil {
		k.ExpiredText = func(time.Duration) string { return "Timed out" }
	}
	if k.WithdrawnText == "" {
		k.WithdrawnText = "Cancelled"
	}
	kinds.m[k.Name] = k
}

// LookupKind finds a kind by its name.
func LookupKind(name string) (Kind, bool) {
	kinds.RLock()
	defer kinds.RUnlock()
	k, ok := kinds.m[name]
	return k, ok
}

// RequestTypeOf is the browser's name of a kind; an unknown kind is its own.
func RequestTypeOf(kind string) string {
	if k, ok := LookupKind(kind); ok {
		return k.RequestType
	}
	return kind
}

// PresentationOf says how a kind is shown: tool or questionnaire.
func PresentationOf(kind string) string {
	if k, ok := LookupKind(kind); ok {
		return k.Presentation
	}
	return "tool"
}

// Kind names.
const (
	KindApproval = "approval"
	KindQuestion = "question"
	KindForm     = "form"
)

func init() {
	RegisterKind(Kind{
		Name: KindApproval, RequestType: "tool_approval", Presentation: "tool",
		Verbs: []string{VerbAllow, VerbDeny, VerbDismiss},
		Check: checkApproval,
		ExpiredText: func(d time.Duration) string {
			return "Tool approval timed out after " + Budget(d)
		},
		WithdrawnText: "The approval was withdrawn before anybody decided; the tool was not run",
	})
	RegisterKind(Kind{
		Name: KindQuestion, RequestType: "ask_user_question", Presentation: "questionnaire",
		Verbs:  []string{VerbAnswer, VerbClarify, VerbDismiss},
		Check:  checkQuestions,
		Answer: answerQuestions,
		ExpiredText: func(d time.Duration) string {
			return "User did not respond within " + Budget(d)
		},
		WithdrawnText: "The question was withdrawn before anybody answered",
	})
	RegisterKind(Kind{
		Name: KindForm, RequestType: "form", Presentation: "questionnaire",
		Verbs:  []string{VerbAnswer, VerbClarify, VerbDismiss},
		Check:  checkForm,
		Answer: answerForm,
		ExpiredText: func(d time.Duration) string {
			return "Nobody filled in the form within " + Budget(d)
		},
		WithdrawnText: "The form was withdrawn before anybody filled it in",
	})
}

func checkApproval(r *Request) []Field {
	var c checker
	if r.Tool == nil {
		c.add("tool", "is missing")
		return c.fields
	}
	c.need("tool.name", r.Tool.Name)
	if len(r.Tool.Input) == 0 {
		c.add("tool.input", "is missing")
	}
	return c.fields
}

func checkQuestions(r *Request) []Field {
	var c checker
	if n := len(r.Questions); n < 1 || n > MaxQuestions {
		c.add("questions", fmt.Sprintf("must be 1 to %d, not %d", MaxQuestions, n))
	}
	ids := map[string]bool{}
	for i := range r.Questions {
		q := &r.Questions[i]
		at := fmt.Sprintf("questions[%d].", i)
		c.need(at+"question", q.Question)
		if q.Secret {
			c.add(at+"secret", "secret questions are not supported: answers are kept in the record")
		}
		if id := r.QuestionID(i); ids[id] {
			c.add(at+"id", "stands twice")
		} else {
			ids[id] = true
		}
		if len(q.Options) > MaxOptions {
			c.add(at+"options", fmt.Sprintf("must be at most %d", MaxOptions))
		}
		if len(q.Options) == 0 && !q.Other() {
			c.add(at+"options", "must not be empty where free text is not allowed")
		}
		values, labels := map[string]bool{}, map[string]bool{}
		for j := range q.Options {
			o := &q.Options[j]
			at := fmt.Sprintf("%soptions[%d].", at, j)
			c.need(at+"label", o.Label)
			if values[o.OptionValue()] || labels[o.Label] {
				c.add(at+"label", "stands twice")
			}
			values[o.OptionValue()], labels[o.Label] = true, true
		}
	}
	return c.fields
}

func answerQuestions(r *Request, p *Response, c *Content) []Field {
	answers, fields := DecodeAnswers(r, p.Answers)
	c.Answers = answers
	return fields
}

func checkForm(r *Request) []Field {
	var c checker
	if len(r.Schema) == 0 {
		c.add("schema", "is missing")
		return c.fields
	}
	if _, err := schema.Parse(r.Schema); err != nil {
		c.add("schema", err.Error())
	}
	return c.fields
}

func answerForm(r *Request, p *Response, c *Content) []Field {
	content := p.Content
	// Browsers send what a person typed as text, so that no number is rounded.
	var text string
	if json.Unmarshal(content, &text) == nil {
		content = json.RawMessage(text)
	}
	if err := strictjson.CheckMember(content); err != nil {
		return []Field{{Field: "content", Problem: "is not valid JSON: " + err.Error()}}
	}
	s, err := schema.Parse(r.Schema)
	if err != nil {
		return []Field{{Field: "schema", Problem: err.Error()}}
	}
	c.Content = content
	var fields []Field
	for _, p := range s.Check(content) {
		fields = append(fields, Field(p))
	}
	return fields
}

// Budget words a duration for a person: "10 minutes", "90 seconds".
func Budget(d time.Duration) string {
	unit, n := "second", int64(d/time.Second)
	switch {
	case d >= time.Hour && d%time.Hour == 0:
		unit, n = "hour", int64(d/time.Hour)
	case d >= time.Minute && d%time.Minute == 0:
		unit, n = "minute", int64(d/time.Minute)
	case d < time.Second:
		return d.String()
	case d%time.Second != 0:
		return d.String()
	}
	if n != 1 {
		unit += "s"
	}
	return fmt.Sprintf("%d %s", n, unit)
}
