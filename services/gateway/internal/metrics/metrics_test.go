package metrics

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
)

func decision() *hitl.Decision {
	now := time.Now()
	return &hitl.Decision{
		Content: hitl.Content{Outcome: hitl.Allowed}, Principal: hitl.Principal{Kind: "person", ID: "ada"},
		RequestedAt: now.Add(-time.Second), DecidedAt: now,
	}
}

// What is counted for a decision makes no garbage, and what nobody foresaw makes
// no series.
func TestCountingADecisionMakesNoGarbageAndNoSeries(t *testing.T) {
	m, d := New(func() error { return nil }), decision()
	series := func() (n int) {
		all, err := m.Registry.Gather()
		require.NoError(t, err)
		for _, f := range all {
			n += len(f.GetMetric())
		}
		return n
	}
	before := series()
	d.Principal.Kind, d.Outcome = "somebody new", "something new"
	require.Zero(t, testing.AllocsPerRun(100, func() {
		m.Decided(d)
		m.Receipt("unheard of")
		m.Asked("poll")
		m.Refused("request.title")
		m.Stored("NEW", true)
	}))
	require.Equal(t, before, series())
}

// What a decision costs: in parallel, since a lock would show there.
func BenchmarkDecision(b *testing.B) {
	d := decision()
	for name, m := range map[string]*Metrics{"without": nil, "with": New(func() error { return nil })} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					m.Decided(d)
					m.Receipt(hitl.Accepted)
					m.Stored("HITL_DECISIONS", true)
				}
			})
		})
	}
}
