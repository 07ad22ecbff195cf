// Package metrics is what an agent worker counts of its work.
package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/metrics"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/agent/internal/gate"
)

// Part is the worker's name in labels.
const Part = "agent"

// None is the outcome of an ask that ended without a decision.
const None = "none"

// Metrics counts. The zero of it, nil, counts nothing.
type Metrics struct {
	Registry *prometheus.Registry

	open     prometheus.Gauge
	asks     metrics.Histograms
	receipts metrics.Counters
	claims   metrics.Counters
}

// New makes the metrics of a worker; health is what /readyz says, sessions how many
// it has.
func New(health func() error, sessions func() int) *Metrics {
	reg := metrics.Part(Part, health)
	m := &Metrics{
		Registry: reg,
		open: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "banksman_agent_asks_open", Help: "Asks of this worker's agents that wait for a decision.",
		}),
		asks: metrics.NewHistograms(reg, "banksman_agent_ask_seconds",
			"How long agents waited for a decision, by outcome; none: there was no decision.", "outcome", metrics.People(),
			string(hitl.Allowed), string(hitl.Denied), string(hitl.Answered), string(hitl.Clarify), string(hitl.Dismissed),
			string(hitl.Expired), string(hitl.Cancelled), string(hitl.Orphaned), string(hitl.InvalidIX), None),
		receipts: metrics.NewCounters(reg, "banksman_agent_receipts_total",
			"What became of decisions here: delivered, then applied or refused.", "stage", hitl.Delivered, hitl.Applied, hitl.Refused),
		claims: metrics.NewCounters(reg, "banksman_agent_claims_total",
			"Claims of the use of an approval: won, lost to another worker's, or not to be had. Nothing runs but after a claim that was won.", "result",
			"won", "lost", "failed"),
	}
	reg.MustRegister(m.open, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "banksman_agent_sessions", Help: "Sessions in this worker's care.",
	}, func() float64 { return float64(sessions()) }))
	return m
}

// Over is an asker whose asks are counted.
func (m *Metrics) Over(a gate.Asker) gate.Asker {
	if m == nil {
		return a
	}
	return counted{a, m}
}

type counted struct {
	gate.Asker
	m *Metrics
}

// Ask implements gate.Asker.
func (c counted) Ask(ctx context.Context, r *hitl.Request, opts ...bus.AskOption) (*bus.Answer, error) {
	c.m.open.Inc()
	defer c.m.open.Dec()
	began := time.Now()
	a, err := c.Asker.Ask(ctx, r, opts...)
	outcome := None
	if err == nil && a != nil {
		outcome = string(a.Decision.Outcome)
	}
	c.m.asks.Observe(outcome, time.Since(began))
	return a, err
}

// Ack implements gate.Asker.
func (c counted) Ack(ctx context.Context, ref subject.Ref, stage, decisionID, detail string) error {
	err := c.Asker.Ack(ctx, ref, stage, decisionID, detail)
	if err == nil {
		c.m.receipts.Inc(stage)
	}
	return err
}

// Take implements gate.Asker.
func (c counted) Take(ctx context.Context, ref subject.Ref, decisionID, by string) (bool, error) {
	won, err := c.Asker.Take(ctx, ref, decisionID, by)
	switch {
	case err != nil:
		c.m.claims.Inc("failed")
	case won:
		c.m.claims.Inc("won")
	default:
		c.m.claims.Inc("lost")
	}
	return won, err
}
