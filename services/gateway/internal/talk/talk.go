// Package talk holds what owners tell of their sessions to their quotas.
package talk

import (
	"fmt"
	"log/slog"

	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/journal/relay"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/gateway/internal/quota"
)

// Meter charges owners. Its methods are safe for concurrent use.
type Meter struct {
	Ledger *quota.Ledger
	Limits quota.Limits
	// MayLive says whether a session may live beside others of its owner, at most limit.
	MayLive func(s subject.Session, limit int) bool
	Name    string // of this gateway's relay
	Logger  *slog.Logger
}

// Admit says whether something that an owner tells of its sessions goes into the
// stream that all share; for a relay.
func (t *Meter) Admit(at subject.Parsed, size int) error {
	owner := quota.Owner{Tenant: at.Tenant, Name: at.Owner}
	var err error
	switch n, day := t.Limits.Sessions, t.Limits.DayTalk; {
	case at.Kind == "ses" && n > 0 && !t.MayLive(at.SessionRef(), n):
		err = fmt.Errorf("quota.sessions: this owner has %d sessions that live, and no more are taken; one that ends makes room", n)
	case t.Ledger.Talk(owner, size, at.Kind == "evt"):
		return nil
	case at.Kind == "evt":
		err = fmt.Errorf("quota.conversation: this owner has used up its %d bytes of conversation a day; a part is free again later", day-day/4)
	default:
		err = fmt.Errorf("quota.conversation: this owner has used up its %d bytes of conversation, states and receipts a day; a part is free again later", day)
	}
	if t.Ledger.Note(owner) {
		t.Logger.Warn("an owner tells more of its sessions than its quota; the rest is refused", "tenant", owner.Tenant, "owner", owner.Name, "problem", err.Error())
	}
	return err
}

// Overhear charges owners for what other gateways admitted; m is stored. So the
// gateways together let pass what one of them would, but for what is on its way.
func (t *Meter) Overhear(m journal.Message) {
	via := m.Header[relay.HeaderVia]
	if len(via) == 1 && via[0] == t.Name {
		return
	}
	at, err := subject.Parse(m.Subject)
	if err != nil {
		return
	}
	owner := quota.Owner{Tenant: at.Tenant, Name: at.Owner}
	t.Ledger.Told(owner, len(m.Data)+relay.Overhead)
	if len(via) == 0 && at.Kind == "evt" && t.Ledger.Note(owner) {
		t.Logger.Error("a conversation got past the gateways, and so past every quota: the server's accounts are those of an older version; write them anew with banksman creds",
			"tenant", owner.Tenant, "owner", owner.Name)
	}
}
