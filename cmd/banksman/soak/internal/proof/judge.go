package proof

import (
	"fmt"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
)

// Judgement is what a run proved or did not.
type Judgement struct {
	Errs     []error
	Worst    *Broken // nil: every history has an order
	Broken   int
	Resolved int // attempts of unknown outcome that turned out to be the decision
	Void     int // attempts of unknown outcome that changed nothing
	Ops      int
	Outcomes map[hitl.Outcome]int
}

// Site is what is known of the parts while the clients were at work.
type Site struct {
	// Up is for how long of a time every part was up, Calm the longest stretch of it;
	// times are in ns.
	Up, Calm func(from, to int64) time.Duration
	// OrphanAfter is how long a worker may be silent.
	OrphanAfter time.Duration
}

// Judge holds what the clients saw against the record.
func Judge(h *History, record map[string]Stored, site Site) *Judgement {
	j := &Judgement{Outcomes: map[hitl.Outcome]int{}}
	end := Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []*Interaction
	for key, ix := range h.all {
		rec := record[key]
		if rec.Decision != nil {
			j.Outcomes[rec.Decision.Outcome]++
		}
		j.Errs = append(j.Errs, contradictions(ix, rec, site)...)
		resolve(ix, rec, site, end)
		for _, o := range ix.Ops {
			if o.Kind == OpDecide && o.Saw == SawSilence {
				if o.Verdict.ID != "" {
					j.Resolved++
				} else {
					j.Void++
				}
			}
		}
		j.Ops += len(ix.Ops)
		all = append(all, ix)
	}
	for key := range record {
		if h.all[key] == nil {
			j.Errs = append(j.Errs, fmt.Errorf("%s is in the record and nobody asked it", key))
		}
	}
	bad := linearizable(all, judgeLimit)
	j.Broken = len(bad)
	if len(bad) > 0 {
		j.Worst = &bad[0]
		j.Errs = append(j.Errs, fmt.Errorf("%d interactions have no order that explains them (%s), the smallest is %s",
			len(bad), bad[0].result, bad[0].ix.Ref))
	}
	return j
}
