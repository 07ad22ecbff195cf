// Package words says in plain text what an alert says, for channels to lay out.
// Every text is one line of a bounded length. It may still be an agent's: that
// it is no markup is the channel's to see to.
package words

import (
	"cmp"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/services/notifier/internal/channel"
)

// Bounds of texts, in characters.
const (
	maxHead  = 240
	maxQuote = 300
	maxValue = 120
)

// Message is an alert in words.
type Message struct {
	Head string // what it is about; never empty
	// Quote is what the agent itself says of it; empty: nothing.
	Quote string
	Facts []Fact
	// Link leads to the page, and Label says what for; both may be empty.
	Link, Label string
}

// Fact is a line of what is known.
type Fact struct{ Name, Value string }

// Of words an alert.
func Of(a *channel.Alert) Message {
	d := &a.Data
	m := Message{Head: d.Headline, Link: d.Link, Label: "Review"}
	add := func(name, value string) {
		if v := line(value, maxValue); v != "" {
			m.Facts = append(m.Facts, Fact{name, v})
		}
	}
	switch a.Type {
	case channel.Reminder:
		m.Head = "Still waiting: " + d.Headline
	case channel.Closed:
		m.Head, m.Label = Outcome(d)+": "+d.Headline, "See what became of it"
		if d.At != nil {
			add("When", Time(*d.At))
		}
	case channel.Digest, channel.Test:
		m.Label = "Open the inbox"
	}
	m.Head = cmp.Or(line(m.Head, maxHead), "Banksman")
	if s := d.Digest; s != nil {
		add("Risk", counts(s.Risks))
		add("Sessions", strings.Join(s.Sessions, ", "))
		return m
	}
	if a.Type != channel.Test {
		if d.Title != d.Headline {
			m.Quote = line(d.Title, maxQuote)
		}
		add("Risk", d.Risk)
		add("Project", d.Project)
		add("Session", d.Session)
	}
	if d.ExpiresAt != nil && a.Type != channel.Closed {
		add("Answer by", Time(*d.ExpiresAt))
	}
	return m
}

// Plain is the whole message as text.
func (m Message) Plain() string {
	return strings.TrimSuffix(m.Head+"\n"+m.Body(), "\n")
}

// Body is what follows the head, one thing a line.
func (m Message) Body() string {
	var b strings.Builder
	if m.Quote != "" {
		fmt.Fprintf(&b, "In the agent's words: %s\n", m.Quote)
	}
	for _, f := range m.Facts {
		fmt.Fprintf(&b, "%s: %s\n", f.Name, f.Value)
	}
	if m.Link != "" {
		fmt.Fprintf(&b, "%s: %s\n", m.Label, m.Link)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// Outcome says how it ended and by whom. Silence is nobody's answer.
func Outcome(d *channel.Data) string {
	verb, ok := map[hitl.Outcome]string{
		hitl.Allowed: "Approved", hitl.Denied: "Denied", hitl.Answered: "Answered", hitl.Clarify: "Sent back with a question", hitl.Dismissed: "Dismissed",
	}[d.Outcome]
	if ok {
		if p := d.DecidedBy; p != nil {
			who := line(cmp.Or(p.Name, p.ID), maxValue)
			switch p.Kind {
			case "service", "rule":
				who = "the " + p.Kind + " " + who
			}
			return verb + " by " + who
		}
		return verb
	}
	switch d.Outcome {
	case hitl.Expired:
		return "Expired, nobody answered"
	case hitl.Cancelled:
		return "Withdrawn by the agent"
	case hitl.Orphaned:
		return "Over, the agent is gone"
	}
	return "Over"
}

// Time is a time in words, the same for readers in all zones.
func Time(t time.Time) string { return t.UTC().Format("2 Jan 2006, 15:04 UTC") }

// Level is how loud an alert should be: 0 for what is over, then 1 to 4 by risk.
func Level(a *channel.Alert) int {
	if a.Type == channel.Closed {
		return 0
	}
	switch a.Data.Risk {
	case "critical":
		return 4
	case "high":
		return 3
	case "low":
		return 1
	}
	return 2
}

// Risks in the order in which they are counted.
var risks = []string{"critical", "high", "medium", "low"}

func counts(of map[string]int) string {
	var parts []string
	for _, r := range risks {
		if n := of[r]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, r))
		}
	}
	return strings.Join(parts, ", ")
}

// Cut shortens s to n characters at most, and shows that it did.
func Cut(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// line writes s on one line of at most n characters. Alerts carry display text,
// in which nothing is invisible; what is so all the same is replaced.
func line(s string, n int) string {
	s = strings.Join(strings.Fields(s), " ")
	s = strings.Map(func(r rune) rune {
		if unicode.Is(unicode.C, r) || r == '\u2028' || r == '\u2029' {
			return unicode.ReplacementChar
		}
		return r
	}, strings.ToValidUTF8(s, string(unicode.ReplacementChar)))
	return Cut(s, n)
}
