package message

import (
	"fmt"
	"slices"
	"time"

	"github.com/banksman/banksman/services/notifier/internal/channel"
)

// risks in the order of their weight.
var risks = []string{"", "low", "medium", "high", "critical"}

// Digest is one message for many alerts. It says how many there are and not
// what they ask, so it stays true when some of them are settled.
func Digest(id, recipient string, alerts []*channel.Alert, now time.Time, link string) *channel.Alert {
	s := &channel.Summary{Risks: map[string]int{}}
	d := channel.Data{Recipient: recipient, Digest: s, Link: link}
	for i, a := range alerts {
		if a.Type == channel.Closed {
			s.Over++
		} else {
			s.Waiting++
			s.Risks[a.Data.Risk]++
			if slices.Index(risks, a.Data.Risk) > slices.Index(risks, d.Risk) {
				d.Risk = a.Data.Risk
			}
			if !slices.Contains(s.Sessions, a.Data.Session) && len(s.Sessions) < channel.MaxSessions {
				s.Sessions = append(s.Sessions, a.Data.Session)
			}
			if at := a.Data.ExpiresAt; at != nil && (d.ExpiresAt == nil || at.Before(*d.ExpiresAt)) {
				d.ExpiresAt = at
			}
		}
		if i == 0 {
			d.Agent, d.Session, d.Project = a.Data.Agent, a.Data.Session, a.Data.Project
		}
		d.Agent = same(d.Agent, a.Data.Agent)
		d.Session = same(d.Session, a.Data.Session)
		d.Project = same(d.Project, a.Data.Project)
	}
	switch {
	case s.Waiting == 0:
		d.Headline = fmt.Sprintf("%d requests are over", s.Over)
	case s.Over == 0:
		d.Headline = fmt.Sprintf("%d requests are waiting for a decision", s.Waiting)
	default:
		d.Headline = fmt.Sprintf("%d more waiting for a decision, %d over", s.Waiting, s.Over)
	}
	d.Title = d.Headline
	return &channel.Alert{ID: "msg_" + id, Type: channel.Digest, Key: "digest." + id, Time: now.UTC(), Data: d}
}

// Resolved says that nothing waits any more of what n requests in digests were; key is
// that of the one that was told last.
func Resolved(key, recipient string, n int, at time.Time, link string) channel.Alert {
	const words = "all requests of the digests are over"
	at = at.UTC()
	return channel.Alert{
		Type: channel.Closed, Key: key, Time: at,
		Data: channel.Data{Title: words, Headline: words, Recipient: recipient, Link: link, At: &at, Digest: &channel.Summary{Over: n}},
	}
}

// same is what both are, or nothing.
func same(a, b string) string {
	if a == b {
		return a
	}
	return ""
}
