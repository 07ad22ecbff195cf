package hitl

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/banksman/banksman/pkg/hitl/internal/display"
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

// Fields of a response that answer, as Kind.Takes.
const (
	TakesAnswers = "answers"
	TakesContent = "content"
)

// Kind is one kind of request. A new kind registers itself; stores, transport
// and gateway need no change for it.
type Kind struct {
	Name         string // the request's kind
	RequestType  string // its name in browser frames; default Name
	Presentation string // tool, or questionnaire; default by whether it can be allowed
	Verbs        []string
	// Asks goes on after the asker's name: "asks you to fill in a form". It is
	// shown to people who may not see what is asked, so it is the same for all
	// requests of the kind.
	Asks string
	// Check lists what is wrong with a request of this kind.
	Check func(*Request) []Field
	// View is what people see of a request, nothing left out; nil: its tool,
	// schema and data as they are.
	View func(*Request) []Block
	// Takes is the field of a response that answers; default TakesContent.
	Takes string
	// Answer checks a response that answers, and fills c from it; content, which
	// is any JSON value, is in c already. Nil where the kind has no verb answer.
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
// and on an answer that nothing checks, which are mistakes in the program.
func RegisterKind(k Kind) {
	kinds.Lock()
	defer kinds.Unlock()
	if k.RequestType == "" {
		k.RequestType = k.Name
	}
	if k.Name == "" || len(k.Verbs) == 0 || k.Has(VerbAnswer) != (k.Answer != nil) {
		panic("hitl: kind without a name, verbs, or a check of its answers: " + k.Name)
	}
	for _, o := range kinds.m {
		if o.Name == k.Name || o.RequestType == k.RequestType {
			panic("hitl: kind registered twice: " + k.Name)
		}
	}
	if k.Presentation == "" {
		k.Presentation = "questionnaire"
		if k.Has(VerbAllow) {
			k.Presentation = "tool"
		}
	}
	if k.Asks == "" {
		k.Asks = asksFor(k.Name)
	}
	if k.Check == nil {
		k.Check = func(*Request) []Field { return nil }
	}
	if k.Takes == "" {
		k.Takes = TakesContent
	}
	if k.ExpiredText == nil {
		k.ExpiredText = func(time.Duration) string { return "Timed out" }
	}
	if k.WithdrawnText == "" {
		k.WithdrawnText = "Cancelled"
	}
	kinds.m[k.Name] = k
}

// Has reports whether people may use the verb.
func (k Kind) Has(verb string) bool { return slices.Contains(k.Verbs, verb) }

// Fits reports whether a decision may say c about a request of the kind. What
// nobody chose fits every kind.
func (k Kind) Fits(c *Content) bool {
	switch c.Outcome {
	case Allowed:
		return k.Has(VerbAllow)
	case Answered:
		given := len(c.Content) > 0
		if k.Takes == TakesAnswers {
			given = len(c.Answers) > 0
		}
		return k.Has(VerbAnswer) && given
	}
	return true
}

// KindNames are the names of all kinds, in order.
func KindNames() []string {
	kinds.RLock()
	defer kinds.RUnlock()
	return slices.Sorted(maps.Keys(kinds.m))
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
		Asks:   "asks a question",
		Check:  checkQuestions,
		Takes:  TakesAnswers,
		Answer: answerQuestions,
		ExpiredText: func(d time.Duration) string {
			return "User did not respond within " + Budget(d)
		},
		WithdrawnText: "The question was withdrawn before anybody answered",
	})
	RegisterKind(Kind{
		Name: KindForm, RequestType: "form", Presentation: "questionnaire",
		Verbs:  []string{VerbAnswer, VerbClarify, VerbDismiss},
		Asks:   "asks you to fill in a form",
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
		c.Add("tool", "is missing")
		return c.Fields
	}
	c.Need("tool.name", r.Tool.Name)
	if len(r.Tool.Input) == 0 {
		c.Add("tool.input", "is missing")
	}
	return c.Fields
}

func checkQuestions(r *Request) []Field {
	var c checker
	if n := len(r.Questions); n < 1 || n > MaxQuestions {
		c.Add("questions", fmt.Sprintf("must be 1 to %d, not %d", MaxQuestions, n))
	}
	ids := map[string]bool{}
	for i := range min(len(r.Questions), MaxQuestions) {
		q := &r.Questions[i]
		at := fmt.Sprintf("questions[%d].", i)
		c.Need(at+"question", q.Question)
		if q.Secret {
			c.Add(at+"secret", "secret questions are not supported: answers are kept in the record")
		}
		if id := r.QuestionID(i); ids[id] {
			c.Add(at+"id", "stands twice")
		} else {
			ids[id] = true
		}
		if len(q.Options) > MaxOptions {
			c.Add(at+"options", fmt.Sprintf("must be at most %d", MaxOptions))
		}
		if len(q.Options) == 0 && !q.Other() {
			c.Add(at+"options", "must not be empty where free text is not allowed")
		}
		values, labels := map[string]bool{}, map[string]bool{}
		for j := range min(len(q.Options), MaxOptions) {
			o := &q.Options[j]
			at := fmt.Sprintf("%soptions[%d].", at, j)
			c.Need(at+"label", o.Label)
			if values[o.OptionValue()] || labels[o.Label] {
				c.Add(at+"label", "stands twice")
			}
			values[o.OptionValue()], labels[o.Label] = true, true
		}
	}
	return c.Fields
}

func answerQuestions(r *Request, p *Response, c *Content) []Field {
	answers, fields := DecodeAnswers(r, p.Answers)
	c.Answers = answers
	return fields
}

func checkForm(r *Request) []Field {
	var c checker
	if len(r.Schema) == 0 {
		c.Add("schema", "is missing")
		return c.Fields
	}
	if _, err := schema.Parse(r.Schema); err != nil {
		c.Add("schema", err.Error())
	}
	return c.Fields
}

func answerForm(r *Request, _ *Response, c *Content) []Field {
	s, err := schema.Parse(r.Schema)
	if err != nil {
		return []Field{{Field: "schema", Problem: err.Error()}}
	}
	var fields []Field
	for _, p := range s.Check(c.Content) {
		fields = append(fields, Field(p))
	}
	return fields
}

// contentOf is the content of a response. Browsers send what a person typed as
// text, so that no number is rounded.
func contentOf(raw json.RawMessage) (json.RawMessage, []Field) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		raw = json.RawMessage(text)
	}
	if err := strictjson.CheckMember(raw); err != nil {
		return nil, []Field{{Field: "content", Problem: "is not valid JSON: " + err.Error()}}
	}
	return raw, nil
}

// Budget words a duration for a person: "10 minutes", "90 seconds".
func Budget(d time.Duration) string { return display.Budget(d) }
