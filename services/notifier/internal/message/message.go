// Package message makes the alerts themselves: what is said of a request, of its end,
// and of many at once. Nothing of what a tool is called with is in them.
package message

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/notifier/internal/channel"
	"github.com/banksman/banksman/services/notifier/internal/ledger"
)

// Of says what is known of an interaction, and nothing of what its tool is
// called with: the summary's own headline may name a path or an address.
func Of(typ string, ref subject.Ref, s *wire.Summary, at time.Time, link func(key string) string) channel.Alert {
	key := ref.String()
	return channel.Alert{
		Type: typ, Key: key, Time: at.UTC(),
		Data: channel.Data{
			Title: s.Title, Headline: headline(s), Agent: cmp.Or(s.AgentName, s.Owner), Session: s.SessionID,
			Project: s.ProjectID, Risk: s.Risk, Kind: s.Kind, Tool: s.ToolName, ExpiresAt: s.ExpiresAt,
			Link: link(key),
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

// AddEnd says how it ended. Nobody decided where the system did: silence is
// never a person's answer.
func AddEnd(a *channel.Alert, c *wire.Closed, at time.Time) {
	at = at.UTC()
	a.Data.Outcome, a.Data.At = c.Outcome, &at
	if c.Decision != nil && c.Decision.Principal.Kind != "system" {
		p := c.Decision.Principal
		a.Data.DecidedBy = &p
	}
}

// Recipient is the first part of an address that has two.
func Recipient(address string) (string, bool) {
	name, _, ok := strings.Cut(address, "/")
	if !ok {
		return "", false
	}
	return name, true
}

// ID names the message of a delivery: the same at every attempt, whoever makes it.
func ID(k ledger.Key) string {
	sum := sha256.Sum256([]byte("banksman alert\x00" + k.String()))
	return "msg_" + hex.EncodeToString(sum[:16])
}
