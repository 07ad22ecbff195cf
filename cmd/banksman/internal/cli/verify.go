package cli

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/shown"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
)

const verifyUsage = `verify FILE [--creds FILE] [--key BASE64]

Checks a decision that banksman export wrote, without a network: the signature
over its subject and exact bytes, and that request, digest and ids belong
together. The public keys are those of a credential file (default: the data
directory's), or those given with --key and no others.

Exit code: 0 everything holds, 1 something does not and is named, 2 anything else.`

// Verify is the command verify.
func Verify(_ context.Context, args []string, stdio Stdio) int {
	c := newCommand("verify", verifyUsage, stdio)
	keys := map[string]ed25519.PublicKey{}
	c.flags.Func("key", "public decision key in `base64`; may be repeated", func(s string) error {
		raw, err := base64.StdEncoding.DecodeString(s)
		if err != nil || len(raw) != ed25519.PublicKeySize {
			return fmt.Errorf("is not base64 of %d bytes", ed25519.PublicKeySize)
		}
		keys[hitl.KeyID(raw)] = raw
		return nil
	})
	rest, err := c.parse(args)
	if err != nil {
		return c.fail(err)
	}
	if len(rest) != 1 {
		return c.fail(errors.New("needs one file (banksman verify -h)"))
	}
	e, err := readEvidence(rest[0])
	if err != nil {
		return c.fail(err)
	}
	if len(keys) == 0 {
		path := c.creds
		if path == "" {
			path = filepath.Join(c.data, "creds", "owner-cli.json")
		}
		cred, err := bus.LoadCredentials(path)
		if err != nil {
			return c.fail(fmt.Errorf("no keys: %w (name a credential with --creds, or a key with --key)", err))
		}
		keys = cred.PublicDecisionKeys()
	}
	d, r, problems := Check(e, keys)
	if d != nil {
		Report(c.Out, e, d, r)
	}
	if len(problems) == 0 {
		fmt.Fprintln(c.Out, "VALID")
		return ExitOK
	}
	for _, p := range problems {
		fmt.Fprintln(c.Out, safe("NOT VALID: "+p))
	}
	return ExitDenied
}

// Check names everything about e that does not hold. The decision and the request are
// nil where they cannot be read.
func Check(e *wire.Evidence, keys map[string]ed25519.PublicKey) (*hitl.Decision, *hitl.Request, []string) {
	var problems []string
	bad := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	at, err := subject.Parse(e.Subject)
	if err != nil || at.Kind != "dec" {
		bad("subject: %q is not where a decision stands", e.Subject)
	}
	if _, known := keys[e.Signer]; !known {
		bad("key: %q is none of the keys that count (%s)", e.Signer, strings.Join(ids(keys), ", "))
	} else if err := hitl.Verify(keys, e.Signer, e.Signature, e.Subject, e.Decision); err != nil {
		bad("signature: it is not that of key %s over this subject and these bytes", e.Signer)
	}
	d, err := hitl.ParseDecision(e.Decision)
	if err != nil {
		bad("decision: %v", err)
		return nil, nil, problems
	}
	if subject.Token(d.InteractionID) != at.ID {
		bad("interaction: the decision is about %q, its subject about %q", d.InteractionID, at.ID)
	}
	raw, err := d.Request()
	if err != nil {
		bad("request: not base64: %v", err)
		return d, nil, problems
	}
	if raw == nil {
		if d.Outcome != hitl.InvalidIX {
			bad("request: it is missing")
		}
		return d, nil, problems
	}
	if got := hitl.Digest(raw); got != d.Digest {
		bad("digest: the request's is %s, the decision names %s", got, d.Digest)
	}
	r, err := hitl.ParseRequest(raw)
	if err != nil {
		bad("request: %v", err)
		return d, nil, problems
	}
	if ref := subject.NewRef(r.Tenant, r.Owner, r.ID); err == nil && ref != at.Ref() {
		bad("request: it is that of %s, the subject is about %s", ref, at.Ref())
	}
	return d, r, problems
}

func ids(keys map[string]ed25519.PublicKey) []string {
	var all []string
	for id := range keys {
		all = append(all, id)
	}
	slices.Sort(all)
	return all
}

// Report says what was asked, what was shown of it, how it ended, by whom and when.
func Report(out io.Writer, e *wire.Evidence, d *hitl.Decision, r *hitl.Request) {
	line := func(name, format string, args ...any) {
		// An agent's text must not look like a line of this report.
		text := strings.ReplaceAll(safe(fmt.Sprintf(format, args...)), "\n", "\n"+strings.Repeat(" ", 11))
		fmt.Fprintf(out, "%-10s %s\n", name, text)
	}
	line("record", "%s", e.Subject)
	line("asked", "%s", when(d.RequestedAt))
	if r != nil {
		line("kind", "%s", r.Kind)
		line("title", "%s", r.Title)
		if r.Tool != nil {
			line("tool", "%s", r.Tool.Name)
			line("input", "%s", r.Tool.Input)
		}
		for _, q := range r.Questions {
			line("question", "%s", q.Question)
		}
	}
	if (d.Shown != "" || d.Card != nil) && r != nil {
		said(line, d, r)
	}
	line("digest", "%s", d.Digest)
	line("outcome", "%s", d.Outcome)
	for _, a := range d.Answers {
		line("answer", "%s: %s", a.QuestionID, strings.Join(append(slices.Clone(a.Values), a.Other), " "))
	}
	for name, raw := range map[string][]byte{"edited": d.UpdatedInput, "content": d.Content.Content} {
		if len(raw) > 0 {
			line(name, "%s", raw)
		}
	}
	for _, f := range d.Fields {
		line("problem", "%s %s", f.Field, f.Problem)
	}
	if d.Message != "" {
		line("message", "%s", d.Message)
	}
	line("by", "%s (%s %s), via %s, assurance %s", who(d.Principal), d.Principal.Kind, d.Principal.ID, orDash(d.Channel), orDash(d.Assurance))
	line("decided", "%s", when(d.DecidedAt))
	line("signer", "%s", e.Signer)
}

// said tells what a gateway said of a request when it was decided, and whether the
// whole looked as this version shows it.
func said(line func(name, format string, args ...any), d *hitl.Decision, r *hitl.Request) {
	if c := d.Card; c != nil {
		line("headline", "%s", c.Headline)
		line("risk", "%s: %s", c.Risk, orDash(c.RiskReason))
		if c.Irreversible {
			line("warning", "a part of it cannot be undone")
		}
		for i, p := range c.Parts {
			line(fmt.Sprintf("part %d", i+1), "%s%s (%s, %s: %s)", strings.Repeat("> ", p.Depth), p.Text, p.Joint, p.Risk, p.RiskReason)
		}
		if c.MoreParts > 0 {
			line("parts", "%d more were not listed", c.MoreParts)
		}
		for _, g := range c.Grants {
			line("session", "would let through: %s", g)
		}
		if c.ExpiresAt != nil {
			line("expires", "%s", when(*c.ExpiresAt))
		}
	}
	if d.Shown == "" {
		return // nobody decided it
	}
	how := "with these words"
	switch {
	case shown.Digest(r, d.Card) != d.Shown:
		how = "in other words than this version uses"
	case d.Card == nil:
		how = "with the request's own texts; headline, parts and risk were not kept by that version"
	}
	if d.Card != nil && !d.Card.Named {
		how += "; whoever decided did not say that they looked at it"
	}
	line("shown", "%s (%s)", d.Shown, how)
}
