package engine

import (
	"cmp"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/notifier/internal/channel"
)

// alert says what is known of an interaction, and nothing of what its tool is
// called with: the summary's own headline may name a path or an address.
func (e *Engine) alert(typ string, ref subject.Ref, s *wire.Summary, at time.Time) channel.Alert {
	key := ref.String()
	return channel.Alert{
		Type: typ, Key: key, Time: at.UTC(),
		Data: channel.Data{
			Title: s.Title, Headline: headline(s), Agent: cmp.Or(s.AgentName, s.Owner), Session: s.SessionID,
			Project: s.ProjectID, Risk: s.Risk, Kind: s.Kind, Tool: s.ToolName, ExpiresAt: s.ExpiresAt,
			Link: e.Link(key),
		},
	}
}

func headline(s *wire.Summary) string {
	who := cmp.Or(s.AgentName, s.Owner)
	if k, ok := hitl.LookupKind(s.Kind); s.ToolName != "" && !(ok && k.Has(hitl.VerbAnswer)) {
		return who + " wants to use " + s.ToolName
	}
	return who + " " + hitl.Asks(s.Kind)
}

// addEnd says how it ended. Nobody decided where the system did: silence is
// never a person's answer.
func addEnd(a *channel.Alert, c *wire.Closed, at time.Time) {
	at = at.UTC()
	a.Data.Outcome, a.Data.At = c.Outcome, &at
	if c.Decision != nil && c.Decision.Principal.Kind != "system" {
		p := c.Decision.Principal
		a.Data.DecidedBy = &p
	}
}

// logEnd is said once for each interaction, whether anybody was told of it or not.
func (e *Engine) logEnd(ref subject.Ref, c *wire.Closed) {
	if c.Outcome == hitl.Expired {
		e.Logger.Warn("expired: nobody decided in time", "interaction", ref.String(), "kind", c.Kind, "tool", c.ToolName)
		return
	}
	e.Logger.Debug("over", "interaction", ref.String(), "outcome", c.Outcome)
}
