package cli

import (
	"fmt"
	"strings"
	"unicode/utf16"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
)

// Safe is text for a terminal, with what it would obey made visible.
func Safe(s string) string { return safe(s) }

// safe makes what a terminal would interpret visible: escape sequences,
// direction marks, characters without width. Tokens that the gateway wrote in
// their place stay as they are.
func safe(s string) string {
	var b strings.Builder
	for {
		i := strings.IndexAny(s, "⟦⟧")
		if i < 0 {
			text, _ := hitl.Visible(s)
			b.WriteString(text)
			return b.String()
		}
		text, _ := hitl.Visible(s[:i])
		b.WriteString(text)
		b.WriteString(s[i : i+len("⟦")])
		s = s[i+len("⟦"):]
	}
}

// cell is safe text on one line.
func cell(s string) string { return safe(strings.Join(strings.Fields(s), " ")) }

// escape writes in JSON text what a terminal would interpret as JSON escapes:
// the same document, for a program or for eyes.
func escape(s string) string {
	var b strings.Builder
	for _, r := range s {
		if _, hidden := hitl.Visible(string(r)); hidden == 0 {
			b.WriteRune(r)
			continue
		}
		if hi, lo := utf16.EncodeRune(r); hi != '\uFFFD' {
			fmt.Fprintf(&b, `\u%04x\u%04x`, hi, lo)
			continue
		}
		fmt.Fprintf(&b, `\u%04x`, r)
	}
	return b.String()
}

// show writes what an interaction decides on, as a person must see it.
func (c *command) show(ix *wire.Interaction) {
	c.say("%s  (risk: %s)", ix.Headline, orDash(ix.Risk))
	if ix.RiskReason != "" {
		c.say("  risk      %s", ix.RiskReason)
	}
	c.field("agent says", ix.Title)
	body := ix.Body
	if body == nil {
		return
	}
	c.field("message", body.Message)
	c.field("reason", body.Reason)
	c.field("directory", body.Cwd)
	for _, bl := range body.Blocks {
		switch {
		case bl.Form == "diff":
			c.field(bl.Label+", old", bl.Old)
			c.field(bl.Label+", new", bl.New)
		default:
			c.field(bl.Label, bl.Text)
		}
		if bl.Hidden > 0 {
			c.say("  warning   %d invisible characters, shown as tokens", bl.Hidden)
		}
		if bl.Pushed {
			c.say("  warning   blanks push a part of it out of sight")
		}
	}
	for _, q := range body.Questions {
		c.field("question "+q.ID, q.Question)
		for _, o := range q.Options {
			text := "- " + o.Label
			if o.Description != "" {
				text += ": " + o.Description
			}
			c.say("            %s", text)
		}
	}
	c.field("form", body.Schema)
	for _, o := range body.Options {
		c.field("option "+o.OptionID, o.Name+" ("+o.Effect+")")
	}
}

// field writes a labelled text; further lines stand under the first.
func (c *command) field(label, text string) {
	if text == "" {
		return
	}
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	c.say("  %-9s %s", strings.ToLower(label), lines[0])
	for _, line := range lines[1:] {
		c.say("            %s", line)
	}
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// who names a principal for people.
func who(p hitl.Principal) string {
	switch {
	case p.Name != "":
		return p.Name
	case p.ID != "":
		return p.ID
	}
	return orDash(p.Kind)
}
