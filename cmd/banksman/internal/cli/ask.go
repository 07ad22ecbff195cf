package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/trace"
)

const askUsage = `ask [flags]

Asks a person and waits for the decision, which is printed as one line of JSON.

  banksman ask --tool Bash --input '{"command":"rm -r build"}' --title "Clean up"
  banksman ask --question "Which database?" --option Postgres --option SQLite
  banksman ask --kind form --schema @form.json --title "Release"
  banksman ask --json < request.json

Exit code: 0 allowed or answered, 1 denied, 2 usage or error, 3 expired,
4 dismissed or answered with text only ("message" in the line on standard
output), 5 cancelled (Ctrl-C too), orphaned or invalid. Run nothing on any other
code than 0.

Ctrl-C withdraws the question. With --key it stays open, and asking again with
the same key and content goes on with it.`

// defaultSession is the session that questions from a terminal stand under.
const defaultSession = "terminal"

// maxStdin bounds what is read from standard input or a file, in bytes.
const maxStdin = 2 * hitl.MaxRequest

// askFlags is what the flags of ask say.
type askFlags struct {
	kind, tool, input, schema string
	title, message, reason    string
	session, project          string
	agent, key                string
	timeout                   time.Duration
	whole                     bool
	questions                 []hitl.Question
}

// Ask is the command ask.
func Ask(ctx context.Context, args []string, stdio Stdio) int {
	c := newCommand("ask", askUsage, stdio)
	var f askFlags
	f.register(c)
	rest, err := c.parse(args)
	if err != nil {
		return c.fail(err)
	}
	if len(rest) > 0 {
		return c.fail(fmt.Errorf("what is %q? Everything is said by flags (banksman ask -h)", rest[0]))
	}
	f.whole = f.whole || f.piped(stdio.In)
	r, err := f.request(c)
	if err != nil {
		return c.fail(err)
	}
	client, err := c.connect(ctx)
	if err != nil {
		return c.fail(err)
	}
	defer client.Close() // waits for a withdrawal

	told := false
	caller := trace.Parse(os.Getenv("TRACEPARENT"), os.Getenv("TRACESTATE"))
	ans, err := client.Ask(caller.In(ctx), r, bus.Keep(), bus.OnOpen(func(o bus.Opened) {
		if !told {
			told = true
			c.waiting(o)
		}
	}))
	if err != nil {
		return c.unanswered(err, r.Key)
	}
	return c.answered(client, ans)
}

func (f *askFlags) register(c *command) {
	fs := c.flags
	fs.StringVar(&f.kind, "kind", "", "approval, question or form (default by what is given)")
	fs.StringVar(&f.tool, "tool", "", "`name` of the tool that wants to run")
	fs.StringVar(&f.input, "input", "", "its input: `JSON`, @file, or - for standard input")
	fs.Func("question", "a question's `text`; repeatable", func(s string) error {
		f.questions = append(f.questions, hitl.Question{Question: s, Options: []hitl.Option{}})
		return nil
	})
	fs.Func("option", "a `label` to choose, of the question before; repeatable", func(s string) error {
		if len(f.questions) == 0 {
			return errors.New("comes after a --question")
		}
		q := &f.questions[len(f.questions)-1]
		q.Options = append(q.Options, hitl.Option{Label: s})
		return nil
	})
	fs.BoolFunc("multi", "several options of the question before may be chosen", func(string) error {
		if len(f.questions) == 0 {
			return errors.New("comes after a --question")
		}
		f.questions[len(f.questions)-1].MultiSelect = true
		return nil
	})
	fs.StringVar(&f.schema, "schema", "", "a form's JSON Schema: `JSON`, @file, or -")
	fs.BoolVar(&f.whole, "json", false, "read the request's fields as a JSON object from standard input; flags go on top")
	fs.StringVar(&f.title, "title", "", "`text`: one line that says what it is about")
	fs.StringVar(&f.message, "message", "", "`text`: more for the person who decides")
	fs.StringVar(&f.reason, "reason", "", "`text`: why it is asked")
	fs.StringVar(&f.session, "session", "", "session `id` (default "+defaultSession+")")
	fs.StringVar(&f.project, "project", "", "`id` of the project: who has a role in it decides (default none: who has all)")
	fs.StringVar(&f.agent, "agent", "", "`name` of who asks")
	fs.StringVar(&f.key, "key", "", "`name` of this question: asking again with it is the same question")
	fs.DurationVar(&f.timeout, "timeout", hitl.DefaultExpiresIn, "how long to wait; 0 for ever")
}

// request builds the request. Errors name the field.
func (f *askFlags) request(c *command) (*hitl.Request, error) {
	r := &hitl.Request{}
	if f.whole {
		raw, err := c.source("-")
		if err != nil {
			return nil, fmt.Errorf("--json: %w", err)
		}
		if r, err = fragment(raw); err != nil {
			return nil, err
		}
	}
	for _, s := range []struct {
		to   *string
		from string
	}{
		{&r.Kind, f.kind},
		{&r.Title, f.title},
		{&r.Message, f.message},
		{&r.Reason, f.reason},
		{&r.SessionID, f.session},
		{&r.ProjectID, f.project},
		{&r.AgentName, f.agent},
		{&r.Key, f.key},
	} {
		if s.from != "" {
			*s.to = s.from
		}
	}
	if f.tool != "" || f.input != "" {
		if r.Tool == nil {
			r.Tool = &hitl.Tool{Input: json.RawMessage(`{}`)}
		}
		if f.tool != "" {
			r.Tool.Name = f.tool
		}
	}
	for _, s := range []struct {
		name, from string
		to         func(json.RawMessage)
	}{
		{"input", f.input, func(raw json.RawMessage) { r.Tool.Input = raw }},
		{"schema", f.schema, func(raw json.RawMessage) { r.Schema = raw }},
	} {
		if s.from == "" {
			continue
		}
		raw, err := c.source(s.from)
		if err == nil {
			err = hitl.CheckJSON(raw)
		}
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", s.name, err)
		}
		s.to(raw)
	}
	if len(f.questions) > 0 {
		r.Questions = f.questions
	}
	set := false
	c.flags.Visit(func(fl *flag.Flag) { set = set || fl.Name == "timeout" })
	if set {
		r.ExpiresIn = nil
		// The default is left out, so that saying it changes nothing.
		if d := hitl.Duration(f.timeout); f.timeout != hitl.DefaultExpiresIn {
			r.ExpiresIn = &d
		}
	}
	complete(r)
	if _, known := hitl.LookupKind(r.Kind); !known {
		return nil, hitl.Invalid("kind", "must be one of %s, not %q", strings.Join(hitl.KindNames(), ", "), r.Kind)
	}
	return r, nil
}

// piped reports whether a request comes on standard input without being
// announced: nothing else says what is asked.
func (f *askFlags) piped(in io.Reader) bool {
	if f.kind != "" || f.tool != "" || f.input != "" || f.schema != "" || len(f.questions) > 0 {
		return false
	}
	file, ok := in.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice == 0
}

// complete fills in what follows from the rest.
func complete(r *hitl.Request) {
	if r.SessionID == "" {
		r.SessionID = defaultSession
	}
	if r.Kind == "" {
		switch {
		case len(r.Questions) > 0:
			r.Kind = hitl.KindQuestion
		case len(r.Schema) > 0:
			r.Kind = hitl.KindForm
		default:
			r.Kind = hitl.KindApproval
		}
	}
	if r.Title != "" {
		return
	}
	switch {
	case len(r.Questions) > 0:
		r.Title = short(r.Questions[0].Question)
	case r.Tool != nil && r.Tool.Name != "":
		r.Title = short("Use " + r.Tool.Name)
	case r.Kind == hitl.KindForm:
		r.Title = "Fill in a form"
	}
}

func short(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if utf8.RuneCountInString(s) > hitl.MaxTitle {
		s = string([]rune(s)[:hitl.MaxTitle-1]) + "…"
	}
	return s
}

// fragment reads the fields of a request. A field that does not exist is an
// error: it would be lost.
func fragment(raw []byte) (*hitl.Request, error) {
	if err := hitl.CheckJSON(raw); err != nil {
		return nil, fmt.Errorf("--json: %w", err)
	}
	var r hitl.Request
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		var te *json.UnmarshalTypeError
		if errors.As(err, &te) {
			return nil, fmt.Errorf("--json: %s must not be a JSON %s", te.Field, te.Value)
		}
		return nil, fmt.Errorf("--json: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return &r, nil
}

// source reads an argument that is text, @file or - for standard input.
func (c *command) source(arg string) ([]byte, error) {
	var from io.Reader
	switch {
	case arg == "-":
		if from = c.In; from == nil {
			return nil, errors.New("there is no standard input")
		}
	case strings.HasPrefix(arg, "@"):
		f, err := os.Open(arg[1:])
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }()
		from = f
	default:
		return []byte(arg), nil
	}
	raw, err := io.ReadAll(io.LimitReader(from, maxStdin+1))
	if err == nil && len(raw) > maxStdin {
		err = fmt.Errorf("larger than %d bytes", maxStdin)
	}
	return raw, err
}

// waiting says once where the question can be answered.
func (c *command) waiting(o bus.Opened) {
	where := "in the inbox"
	if in, err := ReadInstance(c.data); err == nil && in.HTTP != "" && c.creds == "" && c.nats == "" {
		where = "at " + in.HTTP
	}
	again := ""
	if o.Again || o.Attempt > 1 {
		again = " (asked again)"
	}
	c.say("Waiting for a decision%s: answer %s, or run %s pending%s. Interaction %s", again, where, Program(), c.atHome(), o.Ref.ID)
}

// atHome is the flag by which another command finds the same data; empty: it is where
// all commands look.
func (c *command) atHome() string {
	if dir, err := DefaultDataDir(); c.data == "" || err == nil && c.data == dir {
		return ""
	}
	return " --data " + c.data
}

// unanswered ends a question that got no decision.
func (c *command) unanswered(err error, key string) int {
	var w *bus.WaitError
	switch {
	case !errors.As(err, &w):
		return c.fail(err)
	case errors.Is(err, bus.ErrNoDecision):
		c.say("No decision in time: %v. Treat it as not allowed.", w.Err)
		return ExitExpired
	case errors.Is(err, bus.ErrStopped) && w.Open:
		c.say("Stopped waiting. The request stays open: ask again with --key %s to go on with it.", key)
		return ExitCancelled
	case errors.Is(err, bus.ErrStopped):
		c.say("Stopped waiting; the request is withdrawn.")
		return ExitCancelled
	}
	return c.fail(err)
}

// answered prints a decision and confirms it.
func (c *command) answered(client *bus.Client, ans *bus.Answer) int {
	d := ans.Decision
	// The decision is here, whatever ends the process now.
	ctx, cancel := context.WithTimeout(ans.Trace.In(context.Background()), connectWait)
	defer cancel()
	ack := func(stage, detail string) {
		if err := client.Ack(ctx, ans.Ref, stage, d.DecisionID, detail); err != nil {
			c.say("banksman ask: the decision is not confirmed as %s: %v", stage, err)
		}
	}
	ack(hitl.Delivered, "")
	if err := c.print(d.WithoutRequest()); err != nil {
		ack(hitl.Refused, "the output could not be written")
		return c.fail(err)
	}
	ack(hitl.Applied, "")
	if code := exitOf(d.Outcome); code != ExitOK {
		text := ""
		if r, err := hitl.ParseRequest(ans.Request); err == nil {
			text = hitl.AgentText(r, &d.Content)
		}
		c.say("%s by %s: %s", d.Outcome, who(d.Principal), text)
		return code
	}
	return ExitOK
}

func exitOf(o hitl.Outcome) int {
	switch o {
	case hitl.Allowed, hitl.Answered:
		return ExitOK
	case hitl.Denied:
		return ExitDenied
	case hitl.Expired:
		return ExitExpired
	case hitl.Dismissed, hitl.Clarify:
		return ExitNoAnswer
	case hitl.Cancelled, hitl.Orphaned, hitl.InvalidIX:
		return ExitCancelled
	}
	return ExitError
}
