package notifier_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/trace"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/notifier/internal/ledger"
)

// One message for many is one span, from which the trace of each is found.
func TestADigestIsInTheTracesOfWhatItTells(t *testing.T) {
	t.Parallel()
	b, hook, clk := newBench(t), newReceiver(t, nil), newClock(time.Now())
	spans := tracetest.NewInMemoryExporter()
	o := hook.people(t, onlyAda)
	o.Clock, o.Tracer = clk, sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	n := b.notify(t, o)
	want := map[string]bool{}
	for i := range 3 {
		id := fmt.Sprintf("%032x", i+1)
		want[id] = true
		ctx := trace.Parse("00-"+id+"-00f067aa0ba902b7-01", "").In(t.Context())
		ref := newRef(i)
		data, err := hitl.Marshal(wire.Opened{V: 1, Summary: summary(ref, clk.Now()), RequestSeq: 1})
		require.NoError(t, err)
		_, err = b.gw.WriteEvent(ctx, subject.Event(ref, "s1", subject.Open), data)
		require.NoError(t, err)
	}
	n.queues(t, 3)
	clk.move(5 * time.Second)
	require.Equal(t, 3, hook.next(t).waiting())
	for i := range 3 {
		b.awaitAt(t, newRef(i), "step1", "ada/hook", ledger.Sent)
	}
	got := spans.GetSpans()
	require.Len(t, got, 1)
	require.Equal(t, "notify", got[0].Name)
	found := map[string]bool{got[0].SpanContext.TraceID().String(): true}
	for _, l := range got[0].Links {
		found[l.SpanContext.TraceID().String()] = true
	}
	require.Equal(t, want, found)
}
