package demo

import (
	"context"
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/services/agent/internal/gate"
	"github.com/banksman/banksman/services/agent/internal/runtime"
)

// quiet takes everything; only the asks are noted.
type quiet struct{ asked map[string]bool }

func (q *quiet) Emit(runtime.Event)             {}
func (q *quiet) Ask(a gate.Ask)                 { q.asked[a.ID] = true }
func (q *quiet) Withdraw(string, string)        {}
func (q *quiet) Remember(json.RawMessage) error { return nil }
func (q *quiet) Flush(context.Context) error    { return nil }

// FuzzMemory: a memory that is read is written the same, and a demo that goes on
// from it asks again for what is open, or ends it. Another one is refused.
func FuzzMemory(f *testing.F) {
	for _, m := range []string{
		``, `null`, `{}`, `{"round":1,"step":0,"try":0,"asked":true}`, `{"round":1,"step":-1}`, `{"round":1,"step":99}`, `{"round":1,"step":1,"try":9223372036854775807,"asked":true}`,
		`{"round":1,"step":0,"try":2,"asked":true,"stopped":true}`, `{"round":1,"step":3,"asked":true,"results":{"list":{"content":{"outcome":"allowed"}}}}`, `{"round":1e400}`, `[]`,
		`{"round":1,"step":0,"asked":true,"results":{"list":{"content":{"outcome":"denied","interrupt":true},"text":"no"}}}`, `{"round":2,"bye":true,"step":9}`,
	} {
		for _, open := range []string{"", "demo-1-list-0", "demo-1-list-1", "demo-1-list-99999999999999999999", "-", "demo-2-edit--1"} {
			f.Add([]byte(m), open)
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte, open string) {
		spec := runtime.Spec{SessionID: "s", Memory: raw, Logger: slog.New(slog.DiscardHandler)}
		if open != "" {
			spec.Open = []gate.Kept{{ID: open, Request: &hitl.Request{Kind: hitl.KindApproval}}}
		}
		m, err := decode(raw)
		q := &quiet{asked: map[string]bool{}}
		r, startErr := New(Options{Pace: -1}).Start(t.Context(), spec, q)
		require.Equal(t, err == nil, startErr == nil)
		if err != nil {
			require.Nil(t, r)
			return
		}
		r.Kill()
		again, err := hitl.Marshal(m)
		require.NoError(t, err)
		same, err := decode(again)
		require.NoError(t, err)
		twice, err := hitl.Marshal(same)
		require.NoError(t, err)
		require.Equal(t, string(again), string(twice))
		if open != "" && (m.Round == 0 || m.over()) {
			require.True(t, q.asked[open], "what no step waits for any more is ended")
		}
	})
}
