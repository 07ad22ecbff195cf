package trace_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/trace"
)

// A line says where it was written if that is in a trace, whatever was added to the
// log before, and is as it was if it is not.
func TestALogLineSaysWhereInATraceItIs(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := trace.Log(slog.NewJSONHandler(&out, nil)).With("component", "gateway")
	line := func(ctx context.Context) map[string]any {
		t.Helper()
		out.Reset()
		log.InfoContext(ctx, "decided", "interaction", "a.b.c")
		var got map[string]any
		require.NoError(t, json.Unmarshal(out.Bytes(), &got), out.String())
		require.NotEmpty(t, got["time"])
		delete(got, "time")
		return got
	}
	want := map[string]any{"level": "INFO", "msg": "decided", "component": "gateway", "interaction": "a.b.c"}
	require.Equal(t, want, line(t.Context()))
	require.Equal(t, want, line(trace.Parse("no trace", "").In(t.Context())))
	want["trace_id"], want["span_id"] = id, span
	require.Equal(t, want, line(trace.Parse(parent, "").In(t.Context())))
	log = log.WithGroup("more")
	got := line(trace.Parse(parent, "").In(t.Context()))
	require.Equal(t, map[string]any{"interaction": "a.b.c", "trace_id": id, "span_id": span}, got["more"])
}
