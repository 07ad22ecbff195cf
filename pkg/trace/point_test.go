package trace_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/trace"
	"github.com/banksman/banksman/pkg/wire"
)

const (
	id     = "4bf92f3577b34da6a3ce929d0e0e4736"
	span   = "00f067aa0ba902b7"
	parent = "00-" + id + "-" + span + "-01"
)

func at(t *testing.T, p trace.Point) oteltrace.SpanContext {
	t.Helper()
	return oteltrace.SpanContextFromContext(p.In(context.Background()))
}

func TestAPointTravelsInHeaders(t *testing.T) {
	t.Parallel()
	p := trace.Read(map[string][]string{wire.HeaderTraceParent: {parent}, wire.HeaderTraceState: {"vendor=a:b,other=1"}})
	require.False(t, p.IsZero())
	sc := at(t, p)
	require.Equal(t, id, sc.TraceID().String())
	require.Equal(t, span, sc.SpanID().String())
	require.True(t, sc.IsSampled())
	require.True(t, sc.IsRemote())
	header := map[string][]string{"Other": {"stays"}}
	p.Write(header)
	require.Equal(t, map[string][]string{
		"Other": {"stays"}, wire.HeaderTraceParent: {parent}, wire.HeaderTraceState: {"vendor=a:b,other=1"},
	}, header)
	require.Equal(t, p, trace.Of(p.In(t.Context())))
	require.Equal(t, p, trace.Parse(parent, "vendor=a:b,other=1"))

	over := http.Header{}
	over.Set("traceparent", parent)
	require.Equal(t, span, at(t, trace.Read(over)).SpanID().String(), "HTTP writes the name in another way")
	unsampled := "00-" + id + "-" + span + "-00"
	require.False(t, at(t, trace.Parse(unsampled, "")).IsSampled())
}

func TestWhatIsNoTraceContextCountsAsNone(t *testing.T) {
	t.Parallel()
	for name, values := range map[string][]string{
		"none":              nil,
		"empty":             {""},
		"text":              {"rm -rf /"},
		"zero trace":        {"00-" + strings.Repeat("0", 32) + "-" + span + "-01"},
		"zero span":         {"00-" + id + "-" + strings.Repeat("0", 16) + "-01"},
		"upper case":        {strings.ToUpper(parent)},
		"more behind it":    {parent + "-x"},
		"version ff":        {"ff" + parent[2:]},
		"a line break":      {parent + "\r\nStatus: 404"},
		"4 KB":              {parent + strings.Repeat("-", 4<<10)},
		"a later version,4": {"01" + parent[2:] + "-" + strings.Repeat("a", 4<<10)},
		"two":               {parent, parent},
	} {
		require.True(t, trace.Read(map[string][]string{wire.HeaderTraceParent: values}).IsZero(), name)
	}
	two := map[string][]string{wire.HeaderTraceParent: {parent}, "Traceparent": {parent}}
	require.True(t, trace.Read(two).IsZero(), "both spellings")
	require.True(t, trace.Parse(parent+strings.Repeat("-", 4<<10), "").IsZero())
	for name, state := range map[string][]string{
		"no pairs": {"<script>"}, "long": {"a=" + strings.Repeat("b", 600)}, "two": {"a=1", "b=2"},
	} {
		p := trace.Read(map[string][]string{wire.HeaderTraceParent: {parent}, wire.HeaderTraceState: state})
		header := map[string][]string{}
		p.Write(header)
		require.Equal(t, map[string][]string{wire.HeaderTraceParent: {parent}}, header, name)
	}
}

func TestNoTraceCostsNothing(t *testing.T) {
	header := map[string][]string{hitl.HeaderAttempt: {"1"}}
	ctx := t.Context()
	var off *trace.Tracer
	r := &hitl.Request{Kind: hitl.KindApproval, Tool: &hitl.Tool{Name: "Bash"}}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		trace.Read(header).Write(header)
		trace.Of(ctx).Write(header)
		ctx, s := off.Start(trace.Point{}.In(ctx), trace.Ask, subject.Ref{})
		s.Asks(r)
		s.Outcome(hitl.Allowed)
		s.End()
		_, s = off.Join(ctx, trace.Decide, subject.Ref{})
		s.End()
	}))
	require.Len(t, header, 1)
}
