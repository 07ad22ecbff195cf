package projection

import (
	"slices"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/cursor"
)

// listStep is how many are looked at before others have their turn with the lock:
// whoever lists must not hold up who decides.
const listStep = 256

// waits is one that a list looks at.
type waits struct {
	ordered
	unreachable bool
}

// ListOpen lists what waits, oldest first, and says whether there is more.
func (p *Projection) ListOpen(q api.List) (out []wire.Interaction, more bool) {
	out = []wire.Interaction{}
	at := q.After
	for {
		step, last := p.next(q.Tenant, &at)
		now := p.now().UTC()
		for _, w := range step {
			if q.Sees != nil && !q.Sees(&w.en.summary) {
				continue
			}
			if len(out) == q.Limit {
				return out, true
			}
			sum := w.en.summary
			sum.ServerTime, sum.Unreachable = now, w.unreachable
			out = append(out, wire.Interaction{ID: sum.RequestID, Summary: sum, State: wire.StatePending})
		}
		if last {
			return out, false
		}
	}
}

// next is what waits behind at, which it moves on, for one step. What an entry says of
// itself does not change any more and is read without the lock.
func (p *Projection) next(tenant string, at *cursor.Row) (step []waits, last bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var rows []ordered
	if tenant != "" {
		if o := p.orders[tenant]; o != nil {
			rows = o.after(*at, listStep, rows)
		}
	} else {
		for _, o := range p.orders {
			rows = o.after(*at, listStep, rows)
		}
		slices.SortFunc(rows, func(a, b ordered) int { return a.Compare(b.Row) })
	}
	if len(rows) > listStep {
		rows = rows[:listStep]
	}
	for _, r := range rows {
		*at = r.Row
		if p.isDecided(r.en.Ref) {
			continue
		}
		s := p.sessions[r.en.session]
		step = append(step, waits{r, s != nil && s.known && p.unreachable(s)})
	}
	return step, len(rows) < listStep
}

// ListClosed lists what was decided lately, newest first, and says whether there is
// more.
func (p *Projection) ListClosed(q api.List) (out []wire.Interaction, more bool) {
	type row struct {
		*wire.Closed
		trail []hitl.Ack // which changes
	}
	p.mu.Lock()
	var rows []row
	for _, c := range p.closed.Newest() {
		rows = append(rows, row{c, c.Trail})
	}
	p.mu.Unlock()
	out = []wire.Interaction{}
	now := p.now().UTC()
	behind := q.After == (cursor.Row{})
	for _, c := range rows {
		if !behind {
			behind = c.Key == q.After.Ref.String()
			continue
		}
		if q.Tenant != "" && subject.Token(c.Tenant) != q.Tenant || q.Sees != nil && !q.Sees(&c.Summary) {
			continue
		}
		if len(out) == q.Limit {
			return out, true
		}
		sum := c.Summary
		sum.ServerTime = now
		out = append(out, wire.Interaction{
			ID: c.RequestID, Summary: sum, State: wire.StateClosed, Outcome: c.Outcome, Decision: c.Decision, Trail: c.trail,
		})
	}
	return out, false
}
