// Package trace joins what asker, gateway, notifier and worker do for one
// interaction into one OpenTelemetry trace. A place in a trace travels as W3C trace
// context in headers; what stands in a span is what this package lets in: never tool
// input, an answer, or a person's words.
package trace

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/banksman/banksman/pkg/wire"
)

const (
	// maxParent leaves room for later versions of the header, which is 55 bytes now.
	maxParent = 128
	maxState  = 512 // what W3C asks everybody to pass on
)

// overHTTP are the headers' names as Go writes them over HTTP.
var overHTTP = map[string]string{
	wire.HeaderTraceParent: http.CanonicalHeaderKey(wire.HeaderTraceParent),
	wire.HeaderTraceState:  http.CanonicalHeaderKey(wire.HeaderTraceState),
}

// Point is a place in a trace. The zero value is none, and to read or write it costs
// next to nothing.
type Point struct{ at *trace.SpanContext }

// Of is where ctx is.
func Of(ctx context.Context) Point {
	sc := trace.SpanContextFromContext(ctx)
	if !sc.IsValid() {
		return Point{}
	}
	at := sc // only what is one is kept
	return Point{&at}
}

// Read takes the trace context from a message's headers, or a request's over HTTP.
// What is not one, is too long, or is there more than once counts as none: it comes
// from strangers and must not be in anybody's way.
func Read(header map[string][]string) Point {
	parent := value(header, wire.HeaderTraceParent, maxParent)
	if parent == "" {
		return Point{}
	}
	return read(parent, value(header, wire.HeaderTraceState, maxState))
}

// Parse is Read for a program's environment: TRACEPARENT and TRACESTATE.
func Parse(parent, state string) Point {
	if len(parent) > maxParent {
		return Point{}
	}
	if len(state) > maxState {
		state = ""
	}
	return read(parent, state)
}

func read(parent, state string) Point {
	c := propagation.MapCarrier{wire.HeaderTraceParent: parent, wire.HeaderTraceState: state}
	return Of(propagation.TraceContext{}.Extract(context.Background(), c))
}

// value is the one value of a header, whose name HTTP writes in another way.
func value(header map[string][]string, name string, most int) string {
	all, other := header[name], header[overHTTP[name]]
	if len(all) == 0 {
		all, other = other, nil
	}
	if len(all) != 1 || len(other) > 0 || len(all[0]) > most {
		return ""
	}
	return all[0]
}

// Size is how many bytes of a message's headers are trace context, as it was sent.
func Size(header map[string][]string) (n int) {
	for name, other := range overHTTP {
		for _, v := range header[name] {
			n += len(name) + len(v) + len(": \r\n")
		}
		for _, v := range header[other] {
			n += len(other) + len(v) + len(": \r\n")
		}
	}
	return n
}

// IsZero reports whether there is none.
func (p Point) IsZero() bool { return p.at == nil }

// In makes what begins under ctx a part of the trace, below p.
func (p Point) In(ctx context.Context) context.Context {
	if p.at == nil {
		return ctx
	}
	return trace.ContextWithRemoteSpanContext(ctx, *p.at)
}

// Parent is p as a traceparent, for a place of one's own: without the tracestate.
func (p Point) Parent() string {
	header := map[string][]string{}
	p.Write(header)
	if p.at == nil {
		return ""
	}
	return header[wire.HeaderTraceParent][0]
}

// Write puts p into the headers of a message, which has a map for them.
func (p Point) Write(header map[string][]string) {
	if p.at == nil {
		return
	}
	c := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(p.In(context.Background()), c)
	for name, v := range c {
		header[name] = []string{v}
	}
}
