package claudert

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/services/agent/internal/claude"
	"github.com/banksman/banksman/services/agent/internal/claude/protocol"
	"github.com/banksman/banksman/services/agent/internal/gate"
)

// cli is what answers go to.
type cli interface {
	Allow(requestID string, updatedInput, updatedPermissions json.RawMessage) error
	Deny(requestID, message string, interrupt bool) error
	AnswerElicitation(requestID, action string, content json.RawMessage) error
	Prompt(blocks ...protocol.PromptBlock) error
}

var _ cli = (*claude.Proc)(nil)

// answerTool gives a verdict to a tool call. input is the call's own, as the CLI
// sent it; req is what people saw of it.
func answerTool(c cli, id string, input json.RawMessage, req *hitl.Request, v gate.Verdict) error {
	switch v.Content.Outcome {
	case hitl.Allowed:
		updated := input
		var permissions json.RawMessage
		switch {
		case len(v.Content.UpdatedInput) > 0:
			updated = v.Content.UpdatedInput // what the agent suggested is about its own input
		case v.Content.Scope == "session" && len(req.Suggestions) > 0:
			permissions = req.Suggestions
		}
		return orDeny(c, id, c.Allow(id, updated, permissions))
	case hitl.Answered:
		updated, err := encodeAnswers(input, req, v.Content.Answers)
		if err == nil {
			err = c.Allow(id, updated, nil)
		}
		return orDeny(c, id, err)
	}
	// A clarification is a denial too. The CLI knows a free-text response beside
	// the answers, but it would reach the model as "answered", and the driver
	// rightly refuses an allowance without answers. A denial brings the person's
	// words exactly, in every version.
	text := v.Text
	if strings.TrimSpace(text) == "" {
		text = hitl.DefaultDenyMessage
	}
	return c.Deny(id, text, v.Content.Outcome == hitl.Denied && v.Content.Interrupt)
}

// orDeny turns an answer that could not be encoded into a denial: the ask must
// not be left without one. The error goes on, since the decision was not applied.
func orDeny(c cli, id string, err error) error {
	var bad *protocol.InputError
	if errors.As(err, &bad) {
		text := "The tool was not run: the decision could not be passed on (" + bad.Error() + ")"
		return errors.Join(err, c.Deny(id, text, false))
	}
	return err
}

// encodeAnswers writes answers as the CLI wants them: by question text, options
// by label, several joined. Free text beside options is one more entry; alone it
// is the value.
func encodeAnswers(input json.RawMessage, req *hitl.Request, answers []hitl.Answer) (json.RawMessage, error) {
	values := map[string]string{}
	var notes map[string]protocol.Annotation
	for _, a := range answers {
		q := findQuestion(req, a.QuestionID)
		if q == nil {
			return nil, &protocol.InputError{Field: "answers", Problem: fmt.Sprintf("no question %q", a.QuestionID)}
		}
		values[q.Question] = answerValue(q, &a)
		if a.Notes != "" {
			if notes == nil {
				notes = map[string]protocol.Annotation{}
			}
			notes[q.Question] = protocol.Annotation{Notes: a.Notes}
		}
	}
	return protocol.EncodeAnswers(input, values, notes)
}

func findQuestion(req *hitl.Request, id string) *hitl.Question {
	for i := range req.Questions {
		if req.QuestionID(i) == id {
			return &req.Questions[i]
		}
	}
	return nil
}

func answerValue(q *hitl.Question, a *hitl.Answer) string {
	var parts []string
	for _, v := range a.Values {
		label := v
		for i := range q.Options {
			if q.Options[i].OptionValue() == v {
				label = q.Options[i].Label
			}
		}
		parts = append(parts, label)
	}
	if strings.TrimSpace(a.Other) != "" {
		parts = append(parts, a.Other)
	}
	if len(parts) == 1 && (!q.MultiSelect || len(a.Values) == 0) {
		return parts[0] // one value needs no quoting
	}
	return protocol.JoinLabels(parts)
}

// answerForm gives a verdict to a form, or a link. A form has no room for words, so those
// go to the model as a message.
func answerForm(c cli, id string, req *hitl.Request, v gate.Verdict) error {
	switch v.Content.Outcome {
	case hitl.Answered:
		err := c.AnswerElicitation(id, protocol.Accept, v.Content.Content)
		var bad *protocol.InputError
		if errors.As(err, &bad) {
			return errors.Join(err, c.AnswerElicitation(id, protocol.Cancel, nil))
		}
		return err
	case hitl.Allowed:
		if len(v.Content.UpdatedInput) > 0 {
			// The server knows its own address alone.
			return errors.Join(errors.New("an edited address cannot be handed to the MCP server"), c.AnswerElicitation(id, protocol.Cancel, nil))
		}
		return c.AnswerElicitation(id, protocol.Accept, nil)
	case hitl.Clarify, hitl.Denied:
		err := c.AnswerElicitation(id, protocol.Decline, nil)
		if err != nil || v.Content.Message == "" {
			return err
		}
		return c.Prompt(protocol.TextBlock("About the form \"" + req.Message + "\": " + v.Content.Message))
	}
	return c.AnswerElicitation(id, protocol.Cancel, nil)
}
