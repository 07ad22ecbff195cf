package ledger

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/notifier/internal/plan"
)

// ClaimOnce is Claim for a recipient of the interaction, until then or half of the time
// that is left. ErrNotFound: nothing is planned.
func (l *Ledger) ClaimOnce(ctx context.Context, ref subject.Ref, recipient string, until, now time.Time) (plan.Claim, error) {
	p, err := l.PlanOf(ctx, ref)
	if err != nil {
		return plan.Claim{}, err
	}
	var names []string
	for _, d := range p.Deliveries {
		if name, _, ok := strings.Cut(d.Address, "/"); ok {
			names = append(names, name)
		}
	}
	// Whoever is told nothing would keep everybody from being told.
	if !slices.Contains(names, recipient) {
		slices.Sort(names)
		return plan.Claim{}, fmt.Errorf("%q is none of its recipients: %s", recipient, cmp.Or(strings.Join(slices.Compact(names), ", "), "it has none"))
	}
	stored, err := l.Deliveries(ctx, ref)
	if err != nil {
		return plan.Claim{}, err
	}
	for _, r := range stored { // what is still to be sent has its alert
		if r.Alert == nil {
			continue
		}
		if at := r.Alert.Data.ExpiresAt; at != nil {
			until = plan.Earlier(until, now.Add(at.Sub(now)/2))
		}
	}
	return l.Claim(ctx, ref, plan.Claim{By: recipient, Until: until.UTC()}, now)
}
