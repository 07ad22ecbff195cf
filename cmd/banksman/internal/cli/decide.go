package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
)

const decideUsage = `decide ID allow|deny [flags]

Decides an approval, as the person who confirmed banksman login --cli. What is
decided on is shown first; exactly that is decided.

Exit code: 0 decided, 1 somebody else was first (their decision is in the line
on standard output), 2 anything else: nothing was decided by this.`

const answerUsage = `answer ID --json '{...}' [flags]

Answers a question or a form, as the person who confirmed banksman login --cli.

  banksman answer ID --json '{"answers": {"0": "Postgres"}}'
  banksman answer ID --json '{"content": {"version": "1.2"}}'
  banksman answer ID --json '{"action": "clarify", "message": "Neither; ask Ada"}'
  banksman answer ID --json '{"action": "dismiss"}'

The exit codes are those of banksman decide.`

// Decide is the command decide.
func Decide(ctx context.Context, args []string, stdio Stdio) int {
	c := newCommand("decide", decideUsage, stdio)
	message := c.flags.String("message", "", "`text` for the agent")
	d := c.deciding()
	rest, err := c.parse(args)
	if err != nil {
		return c.fail(err)
	}
	if len(rest) != 2 {
		return c.fail(errors.New("needs an interaction and allow or deny (banksman decide -h)"))
	}
	if rest[1] != hitl.VerbAllow && rest[1] != hitl.VerbDeny {
		return c.fail(fmt.Errorf("decision: must be allow or deny, not %q", rest[1]))
	}
	return d.run(ctx, c, rest[0], func(*wire.Interaction) (hitl.Response, error) {
		return hitl.Response{Decision: rest[1], Message: *message}, nil
	})
}

// Answer is the command answer.
func Answer(ctx context.Context, args []string, stdio Stdio) int {
	c := newCommand("answer", answerUsage, stdio)
	text := c.flags.String("json", "", "the answer: `JSON`, @file, or - for standard input")
	d := c.deciding()
	rest, err := c.parse(args)
	if err != nil {
		return c.fail(err)
	}
	if len(rest) != 1 {
		return c.fail(errors.New("needs an interaction (banksman answer -h)"))
	}
	if *text == "" {
		return c.fail(errors.New("--json: is missing"))
	}
	raw, err := c.source(*text)
	if err == nil {
		err = hitl.CheckJSON(raw)
	}
	if err != nil {
		return c.fail(fmt.Errorf("--json: %w", err))
	}
	return d.run(ctx, c, rest[0], func(ix *wire.Interaction) (hitl.Response, error) {
		return response(raw, ix.Kind)
	})
}

// response reads an answer: an object that says which field it is, or the
// answers, or the form's content, alone.
func response(raw []byte, kind string) (hitl.Response, error) {
	var r hitl.Response
	var keys map[string]json.RawMessage
	named := false
	if json.Unmarshal(raw, &keys) == nil {
		for _, k := range []string{"answers", "content", "action"} {
			_, ok := keys[k]
			named = named || ok
		}
	}
	k, _ := hitl.LookupKind(kind)
	switch {
	case named:
		var in struct {
			Answers json.RawMessage `json:"answers"`
			Content json.RawMessage `json:"content"`
			Action  string          `json:"action"`
			Message string          `json:"message"`
			Comment string          `json:"comment"`
		}
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&in); err != nil {
			return r, fmt.Errorf("--json: %s", strings.TrimPrefix(err.Error(), "json: "))
		}
		r.Answers, r.Content, r.Action, r.Message, r.Comment = in.Answers, in.Content, in.Action, in.Message, in.Comment
	case k.Takes == hitl.TakesContent:
		r.Content = raw
	default:
		r.Answers = raw
	}
	return r, nil
}

// deciding is the flags that both commands have.
type deciding struct{ digest, login *string }

func (c *command) deciding() deciding {
	return deciding{
		digest: c.flags.String("digest", "", "decide only if the request has this `digest`"),
		login:  c.flags.String("login", "", "login `file` (default cli-login.json in the data directory)"),
	}
}

func (d deciding) run(ctx context.Context, c *command, id string, answer func(*wire.Interaction) (hitl.Response, error)) int {
	token, err := Token(c.loginFile(*d.login))
	if err != nil {
		return c.fail(err)
	}
	client, err := c.connect(ctx)
	if err != nil {
		return c.fail(err)
	}
	defer client.Close()
	ix, err := call(ctx, func(ctx context.Context) (*wire.Interaction, error) { return client.Get(ctx, id) })
	if err != nil {
		var refused *bus.ServiceError
		if errors.As(err, &refused) && refused.Body.Code == string(hitl.NotFound) {
			err = fmt.Errorf("there is no interaction %q", id)
		}
		return c.fail(err)
	}
	r, err := answer(ix)
	if err != nil {
		return c.fail(err)
	}
	r.Digest = ix.Digest
	if *d.digest != "" {
		r.Digest = *d.digest
	}
	if ix.State == wire.StatePending {
		c.show(ix)
		if ix.Body != nil {
			r.Shown = ix.Body.Shown
		}
	}
	if ix.Key != "" {
		id = ix.Key // an id alone can be another owner's too
	}
	receipt, err := call(ctx, func(ctx context.Context) (*wire.Receipt, error) {
		rec, err := client.Decide(ctx, wire.DecideCall{ID: id, Token: token, Response: r})
		if err == nil && rec.Status == hitl.Unavailable {
			err = fmt.Errorf("%w: %s", bus.ErrUnavailable, rec.Error)
		}
		return rec, err
	})
	if err != nil {
		return c.fail(fmt.Errorf("it is not known whether this was decided: %w", err))
	}
	return c.receipt(receipt)
}

// receipt prints what became of an attempt, and says it in words.
func (c *command) receipt(r *wire.Receipt) int {
	if err := c.print(r); err != nil {
		return c.fail(err)
	}
	switch r.Status {
	case hitl.Accepted:
		c.say("Decided.")
		return ExitOK
	case hitl.Duplicate:
		c.say("Decided already, by you and just so.")
		return ExitOK
	case hitl.AlreadyDecided:
		words := "Already decided"
		if w := r.Decision; w != nil {
			words = fmt.Sprintf("Already %s by %s at %s, via %s", w.Outcome, who(w.Principal), w.DecidedAt.Local().Format("2006-01-02 15:04:05"), orDash(w.Channel))
		}
		c.say("%s. Yours does not count.", words)
		return ExitDenied
	}
	c.say("Not decided: %s", refusal(r))
	return ExitError
}

func refusal(r *wire.Receipt) string {
	words := string(r.Status)
	if r.Error != "" {
		words += ": " + r.Error
	}
	for _, f := range r.Fields {
		words += fmt.Sprintf("\n  %s %s", f.Field, f.Problem)
	}
	switch r.Status {
	case hitl.DigestMismatch:
		words += "\n  The request is not the one this digest belongs to."
	case hitl.TooLate:
		words += "\n  Its time is up."
	}
	return words
}
