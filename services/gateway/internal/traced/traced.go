// Package traced makes the gateway's spans, where it meets the streams: a request that
// is taken in, a decision that is stored, a closed event that is written. Whoever asked
// began the trace; what nobody traces there gets no span here.
package traced

import (
	"context"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/trace"
)

// Over is a journal whose steps get spans of t; j itself without one.
func Over(j journal.Journal, t *trace.Tracer) journal.Journal {
	if t == nil {
		return j
	}
	return &traced{j, t}
}

type traced struct {
	journal.Journal
	tracer *trace.Tracer
}

// Intake implements journal.Journal.
func (t *traced) Intake(ctx context.Context, workers int, fn func(context.Context, journal.Delivery)) error {
	return t.Journal.Intake(ctx, workers, func(ctx context.Context, d journal.Delivery) {
		if at := trace.Read(d.Header); !at.IsZero() {
			if p, err := subject.Parse(d.Subject); err == nil {
				step := trace.Intake
				if p.Kind == "cxl" {
					step = trace.Cancel
				}
				var span *trace.Span
				ctx, span = t.tracer.Join(at.In(ctx), step, p.Ref())
				defer span.End()
			}
		}
		fn(ctx, d)
	})
}

// Decide implements journal.Journal. What lost to another decision has no outcome.
func (t *traced) Decide(ctx context.Context, ref subject.Ref, d *hitl.Decision) (*journal.StoredDecision, bool, error) {
	ctx, span := t.tracer.Join(ctx, trace.Decide, ref)
	defer span.End()
	w, won, err := t.Journal.Decide(ctx, ref, d)
	span.Channel(d.Channel)
	switch {
	case err != nil:
		span.Fail("not_stored")
	case won:
		span.Outcome(d.Outcome)
	default:
		span.Fail("already_decided")
	}
	return w, won, err
}

// WriteEvent implements journal.Journal.
func (t *traced) WriteEvent(ctx context.Context, subj string, data []byte) (uint64, error) {
	if p, err := subject.Parse(subj); err == nil && p.Tail == subject.Closed {
		// What follows from the decision belongs below that, not below this write.
		_, span := t.tracer.Join(ctx, trace.Close, p.Ref())
		defer span.End()
	}
	return t.Journal.WriteEvent(ctx, subj, data)
}
