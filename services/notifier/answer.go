package notifier

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/notifier/internal/ledger"
	"github.com/banksman/banksman/services/notifier/internal/plan"
)

const (
	// notifiers is the queue group of the replicas of a tenant.
	notifiers = "notifiers"
	// answerLimit bounds one answer; who asks waits a little longer.
	answerLimit = 3 * time.Second
	// answering is how many questions are answered at a time, waiting how many wait.
	answering, waiting = 4, 256
	// acrossAccounts is what replies begin with that come from gateways.
	acrossAccounts = "_R_."
)

// answer tells gateways what became of alerts, until ctx ends.
func (n *Notifier) answer(ctx context.Context) error {
	questions := make(chan *nats.Msg, waiting) // never closed
	sub, err := n.conn.QueueSubscribe(subject.Alerts(n.tenant, wire.VerbExplain), notifiers, func(m *nats.Msg) {
		if !strings.HasPrefix(m.Reply, acrossAccounts) {
			return
		}
		select {
		case questions <- m:
		default: // who asks takes silence for an answer
		}
	})
	if err != nil {
		return fmt.Errorf("notifier: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }() // fails on a closed connection only
	var wg sync.WaitGroup
	defer wg.Wait()
	for range answering {
		wg.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case m := <-questions:
					n.explain(ctx, m)
				}
			}
		})
	}
	<-ctx.Done()
	return nil
}

func (n *Notifier) explain(ctx context.Context, m *nats.Msg) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	var in wire.AlertsCall
	err := json.Unmarshal(m.Data, &in)
	if err == nil && in.Channels {
		all, _ := n.engine.Channels()
		n.tell(m, all.Wire())
		return
	}
	ref, ok := subject.Ref{}, false
	if err == nil {
		ref, ok = subject.ParseRef(in.Key)
	}
	if !ok || ref.Tenant != n.tenant {
		n.log.Warn("a question about alerts cannot be read")
		return
	}
	x, err := explain(ctx, n.ledger, ref)
	switch {
	case errors.Is(err, ErrUnknown):
		x = &wire.Alerts{Key: in.Key, Deliveries: []wire.AlertDelivery{}}
	case err != nil:
		n.log.Warn("what became of alerts cannot be told now", "interaction", in.Key, "error", err)
		return
	}
	x.Notifier = wire.NotifierAnswered
	n.complete(ctx, x)
	n.tell(m, x)
}

func (n *Notifier) tell(m *nats.Msg, what any) {
	raw, err := hitl.Marshal(what)
	if err == nil {
		err = m.Respond(raw)
	}
	if err != nil {
		n.log.Warn("a question about alerts was not answered", "error", err)
	}
}

// complete adds what only the configuration tells.
func (n *Notifier) complete(ctx context.Context, x *wire.Alerts) {
	now := n.clock.Now()
	for i := range x.Deliveries {
		d := &x.Deliveries[i]
		name, ch, ok := strings.Cut(d.Address, "/")
		if !ok {
			ch = d.Address
		}
		d.ChannelType = n.types[ch]
		if r := n.policy.Recipient(name); ok && r != nil && d.State == string(ledger.Planned) && !d.DueAt.After(now) && d.Held == "" && x.OverAt == nil {
			if p, err := n.ledger.PaceOf(ctx, d.Address); err == nil {
				d.Held = paced(r, p.Sent, now)
			}
		}
	}
}

// paced is why what is due to a recipient waits; empty: it is about to go out.
func paced(r *plan.Recipient, sent []time.Time, now time.Time) string {
	if r.Pace().Messages == 0 {
		return ""
	}
	pick, at := r.Pace().Turn([]plan.Ready{{Due: now}}, sent, now)
	if len(pick) > 0 {
		return ""
	}
	return fmt.Sprintf("it is grouped with what else comes: the next message to %s may leave at %s", r.Name, at.UTC().Format(time.RFC3339))
}
