package trace

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel/trace"
)

// Log is a log whose lines say where in a trace they were written, as trace_id and
// span_id, where their context has one: from a line one finds the trace, whoever
// began it. All else is h's.
func Log(h slog.Handler) *slog.Logger { return slog.New(&logged{h}) }

type logged struct{ slog.Handler }

// Handle implements slog.Handler.
func (l *logged) Handle(ctx context.Context, r slog.Record) error {
	if sc := trace.SpanContextFromContext(ctx); sc.IsValid() {
		r = r.Clone() // its attributes may be shared
		r.AddAttrs(slog.String("trace_id", sc.TraceID().String()), slog.String("span_id", sc.SpanID().String()))
	}
	return l.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (l *logged) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &logged{l.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (l *logged) WithGroup(name string) slog.Handler { return &logged{l.Handler.WithGroup(name)} }
