package card

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/command"
	"github.com/banksman/banksman/services/gateway/internal/policy"
)

// maxHeadline is the longest headline, in runes. It is made so that it fits: one
// that is cut off would hide an effect.
const maxHeadline = 360

// reading is the shell text of a request, taken apart; empty without one.
func reading(r *hitl.Request, a Admission) *command.Reading {
	if a.Reading != nil {
		return a.Reading
	}
	var read command.Reading
	if r.Tool != nil {
		if text := policy.Command(r.Tool); text != "" {
			read = command.Read(text)
		}
	}
	return &read
}

// parts are the commands of a shell text that runs more than one.
func parts(read *command.Reading) (out []wire.Part, more int) {
	if len(read.Parts) < 2 {
		return nil, 0
	}
	for _, p := range read.Parts {
		out = append(out, wire.Part{Text: p.Text, Joint: p.Joint, Depth: p.Depth, Risk: p.Level, RiskReason: p.Reason})
	}
	return out, read.More
}

// headline is the plain sentence of what is asked: who wants to do what to
// what, and with what effect where the policy knows one.
func headline(r *hitl.Request, a Admission, read *command.Reading) string {
	s := hitl.Headline(r)
	bad := (a.Policy.Risk == "high" || a.Policy.Risk == "critical") && a.RiskReason != policy.AgentSays
	if r.Tool == nil {
		return cutRunes(s, maxHeadline)
	}
	if read.Text == "" {
		s += size(r)
		if bad {
			s += ", which " + a.RiskReason
		}
		return cutRunes(s, maxHeadline)
	}
	who := strings.TrimSuffix(s, "run a shell command")
	switch {
	case len(read.Bad()) > 0:
		return who + listed(read.Bad(), maxHeadline-utf8.RuneCountInString(who))
	case bad:
		return s + " that " + a.RiskReason
	case len(read.Notable()) > 0:
		return who + listed(read.Notable(), maxHeadline-utf8.RuneCountInString(who))
	}
	return who + read.Brief()
}

// listed joins as many phrases as fit and counts the others.
func listed(phrases []string, room int) string {
	n, used := 0, 0
	for _, p := range phrases {
		used += utf8.RuneCountInString(p) + 5
		if n > 0 && used > room-30 {
			break
		}
		n++
	}
	shown := phrases[:n]
	if rest := len(phrases) - n; rest == 1 {
		shown = append(shown[:n:n], "one thing more")
	} else if rest > 1 {
		shown = append(shown[:n:n], fmt.Sprintf("%d things more", rest))
	}
	if len(shown) == 1 {
		return shown[0]
	}
	return strings.Join(shown[:len(shown)-1], ", ") + " and " + shown[len(shown)-1]
}

// size says how much a tool writes or changes.
func size(r *hitl.Request) string {
	var added, removed, written int
	diffs, plan := false, false
	for _, b := range hitl.View(r) {
		switch b.Form {
		case "diff":
			diffs, added, removed = true, added+b.Added, removed+b.Removed
		case "content":
			written += b.Lines
		case "plan":
			plan, written = true, written+b.Lines
		}
	}
	switch {
	case diffs:
		return fmt.Sprintf(" (+%d −%d)", added, removed)
	case written == 1 && !plan:
		return " (1 line)"
	case written > 0 && !plan:
		return fmt.Sprintf(" (%d lines)", written)
	}
	return ""
}
