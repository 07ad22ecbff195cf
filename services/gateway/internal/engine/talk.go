package engine

import (
	"fmt"

	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/journal/relay"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/gateway/internal/quota"
)

// admitTalk says whether something that an owner tells of its sessions goes into
// the stream that all share.
func (e *Engine) admitTalk(at subject.Parsed, size int) error {
	owner := quota.Owner{Tenant: at.Tenant, Name: at.Owner}
	if e.ledger.Talk(owner, size, at.Kind == "evt") {
		return nil
	}
	limit := e.opts.Quota.DayTalk
	err := fmt.Errorf("quota.conversation: this owner has used up its %d bytes of conversation a day; a part is free again later", limit-limit/4)
	if at.Kind != "evt" {
		err = fmt.Errorf("quota.conversation: this owner has used up its %d bytes of conversation, states and receipts a day; a part is free again later", limit)
	}
	if e.ledger.Note(owner) {
		e.log.Warn("an owner tells more of its sessions than its quota; the rest is refused", "tenant", owner.Tenant, "owner", owner.Name, "problem", err.Error())
	}
	return err
}

// overhear charges owners for what other gateways admitted. So the gateways
// together let pass what one of them would, but for what is on its way.
func (e *Engine) overhear(m journal.Message) {
	via := m.Header[relay.HeaderVia]
	if len(via) == 1 && via[0] == e.name {
		return
	}
	at, err := subject.Parse(m.Subject)
	if err != nil {
		return
	}
	owner := quota.Owner{Tenant: at.Tenant, Name: at.Owner}
	e.ledger.Told(owner, len(m.Data)+relay.Overhead)
	if len(via) == 0 && at.Kind == "evt" && e.ledger.Note(owner) {
		e.log.Error("a conversation got past the gateways, and so past every quota: the server's accounts are those of an older version; write them anew with banksman creds",
			"tenant", owner.Tenant, "owner", owner.Name)
	}
}
