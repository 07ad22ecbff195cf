package proof

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/banksman/banksman/pkg/hitl"
)

// judgeLimit bounds the search of one interaction. One that is not decided by
// then counts as broken.
const judgeLimit = 20 * time.Second

// ToldWithin is how long, with every part up, an asker may not know of a
// decision, or fail to store its request: it looks every 30 s at the latest.
const ToldWithin = 30 * time.Second

// Stored is what the streams hold of one interaction in the end.
type Stored struct {
	Decision *hitl.Decision
	Request  bool
}

// resolve completes a history by the record: what the system decided by itself
// becomes an operation, an attempt of which nobody knows the outcome is held
// against the decision that stands, and the record itself is the last read.
func resolve(ix *Interaction, rec Stored, site Site, end int64) {
	v := VerdictOf(rec.Decision)
	for i := range ix.Ops {
		o := &ix.Ops[i]
		if o.Saw != SawSilence {
			continue
		}
		o.Return = never
		if o.Kind == OpDecide && o.mine(v) {
			o.Verdict = v
		}
	}
	if d := rec.Decision; d != nil && !d.Outcome.ByPerson() {
		o := Operation{Kind: OpSettle, Client: "system", Return: never, Verdict: v, Saw: SawClosed}
		switch {
		case d.Outcome == hitl.Expired:
			o.Call = d.RequestedAt.Add(ix.expiry).UnixNano()
		case d.Outcome == hitl.Cancelled && ix.stopped != 0:
			o.Call = ix.stopped
		case d.Outcome == hitl.Orphaned && ix.works:
			o.Call = site.silent(ix, d.DecidedAt.UnixNano())
		default: // nothing caused it: it is broken
			o.Call = end
		}
		o.Call = min(o.Call, end)
		ix.Ops = append(ix.Ops, o)
	}
	last := Operation{Kind: OpRecord, Client: "record", Call: end, Return: end + 1, Saw: SawNothing, Verdict: v}
	switch {
	case rec.Decision != nil:
		last.Saw = SawClosed
	case rec.Request:
		last.Saw = SawPending
	}
	ix.Ops = append(ix.Ops, last)
}

// Broken is an interaction that the model does not explain.
type Broken struct {
	ix     *Interaction
	result porcupine.CheckResult
	info   porcupine.LinearizationInfo
}

// linearizable searches an order for each interaction and returns those that
// have none, or whose search took longer than limit, the smallest first.
func linearizable(all []*Interaction, limit time.Duration) []Broken {
	var mu sync.Mutex
	var out []Broken
	next := make(chan *Interaction) // closed below
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for ix := range next {
				result, info := porcupine.CheckOperationsVerbose(model, operations(ix), limit)
				if result == porcupine.Ok {
					continue
				}
				mu.Lock()
				out = append(out, Broken{ix, result, info})
				mu.Unlock()
			}
		})
	}
	for _, ix := range all {
		next <- ix
	}
	close(next)
	wg.Wait()
	slices.SortFunc(out, func(a, b Broken) int {
		return cmp.Or(cmp.Compare(len(a.ix.Ops), len(b.ix.Ops)), cmp.Compare(a.ix.Ref, b.ix.Ref))
	})
	return out
}

// operations are what the search needs of a history. Of the attempts whose
// outcome nobody knows, those that changed nothing fit everywhere; and of those
// that may be the decision the first can stand for all: none could have been
// stored earlier.
func operations(ix *Interaction) []porcupine.Operation {
	first := -1
	for i, o := range ix.Ops {
		if o.candidate() && (first < 0 || o.Call < ix.Ops[first].Call) {
			first = i
		}
	}
	var out []porcupine.Operation
	for i, o := range ix.Ops {
		if o.Kind == OpDecide && o.Saw == SawSilence && i != first {
			continue
		}
		out = append(out, porcupine.Operation{ClientId: i, Input: o, Call: o.Call, Return: o.Return})
	}
	return out
}

// candidate reports whether an attempt of unknown outcome may be the decision.
func (o *Operation) candidate() bool {
	return o.Kind == OpDecide && o.Saw == SawSilence && o.Verdict.ID != ""
}

// Save writes the history of a broken interaction, for people as a page.
func (b Broken) Save(dir string) (string, error) {
	slices.SortFunc(b.ix.Ops, func(x, y Operation) int { return cmp.Compare(x.Call, y.Call) })
	raw, err := json.MarshalIndent(struct {
		Result string `json:"result"`
		*Interaction
	}{string(b.result), b.ix}, "", "  ")
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "broken.json")
	return file, errors.Join(
		os.WriteFile(file, append(raw, '\n'), 0o600),
		porcupine.VisualizePath(model, b.info, filepath.Join(dir, "broken.html")),
	)
}

// contradictions are what needs no search: everybody was told the decision that
// is in the record, and nobody who asked gave up without it.
func contradictions(ix *Interaction, rec Stored, site Site) []error {
	errs := orphans(ix, rec, site)
	v := VerdictOf(rec.Decision)
	for _, o := range ix.Ops {
		if o.Kind != OpRecord && o.Verdict.ID != "" && o.Verdict != v {
			errs = append(errs, fmt.Errorf("%s: %s of %s was told decision %s (%s), the record has %q (%s)",
				ix.Ref, o.Kind, o.Client, o.Verdict.ID, o.Verdict.Outcome, v.ID, v.Outcome))
		}
	}
	for _, o := range ix.Ops {
		if o.Kind != OpAwait || o.Saw != SawNoDecision {
			continue
		}
		if d := rec.Decision; d != nil {
			if t := site.Up(d.DecidedAt.UnixNano(), o.Return); t > ToldWithin {
				errs = append(errs, fmt.Errorf("%s: %s gave up and was not told of decision %s (%s), which was there for %s with every part up",
					ix.Ref, o.Client, v.ID, v.Outcome, t))
			}
		} else if t := site.Up(o.Call, o.Return); t > ToldWithin && !rec.Request {
			errs = append(errs, fmt.Errorf("%s: %s could not ask in %s with every part up", ix.Ref, o.Client, t))
		}
	}
	if ix.acked && rec.Decision == nil && !rec.Request {
		errs = append(errs, fmt.Errorf("%s: the request was acknowledged and is lost", ix.Ref))
	}
	if d := rec.Decision; d != nil && ix.expiry > 0 {
		deadline := d.RequestedAt.Add(ix.expiry)
		if d.Outcome == hitl.Expired && d.DecidedAt.Before(deadline) {
			errs = append(errs, fmt.Errorf("%s: expired at %s, before its deadline %s", ix.Ref, d.DecidedAt, deadline))
		}
		if d.Outcome.ByPerson() && !d.DecidedAt.Before(deadline) {
			errs = append(errs, fmt.Errorf("%s: %s at %s, after its deadline %s", ix.Ref, d.Outcome, d.DecidedAt, deadline))
		}
	}
	return errs
}
