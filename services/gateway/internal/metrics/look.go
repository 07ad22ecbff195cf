package metrics

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/metrics"
)

// desc describes a metric of the collectors below.
func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

var (
	pendingDesc = desc("banksman_pending_interactions",
		"Interactions in the open set, by kind, risk and state. Every gateway knows all of them: take the maximum over gateways, not the sum.", "kind", "risk", "state")
	oldestDesc = desc("banksman_oldest_pending_age_seconds",
		"How long the oldest interaction that waits for a person has waited; 0: none does.")
	workersDesc = desc("banksman_workers",
		"Agent workers by whether their heartbeats come. Every gateway knows all of them.", "state")
	sessionsDesc = desc("banksman_sessions", "Sessions that this gateway holds, by state. Every gateway knows all of them.", "state")
	skewDesc     = desc("banksman_clock_offset_seconds",
		"How far this machine's clock is certainly before the NATS server's (negative: behind), which deadlines count by.")
	socketsDesc = desc("banksman_sockets", "WebSockets that are open here.")
	queuedDesc  = desc("banksman_sockets_queued_bytes", "Bytes that wait for the readers of WebSockets.")
	slowDesc    = desc("banksman_sockets_slow_total", "WebSockets that were cut because their reader was too slow.")
	sseDesc     = desc("banksman_event_streams", "Streams of server-sent events that are open here.")
)

// Look adds what is looked at when somebody asks.
func (m *Metrics) Look(s Source) { m.Registry.MustRegister(looker{s}) }

type looker struct{ Source }

// Describe implements prometheus.Collector.
func (looker) Describe(c chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{pendingDesc, oldestDesc, workersDesc, sessionsDesc, skewDesc, socketsDesc, queuedDesc, slowDesc, sseDesc} {
		c <- d
	}
}

// Collect implements prometheus.Collector.
func (l looker) Collect(c chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		c <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	type key struct{ kind, risk, state string }
	pending := map[key]int{}
	for _, k := range append(kinds, metrics.Other) {
		for _, r := range append(risks, metrics.Other) {
			for _, s := range states {
				pending[key{k, r, s}] = 0
			}
		}
	}
	var oldest time.Time
	l.Open(func(o Open) {
		pending[key{known(o.Kind, kinds), known(o.Risk, risks), o.State}]++
		if o.State != Ending && (oldest.IsZero() || o.Asked.Before(oldest)) {
			oldest = o.Asked
		}
	})
	for k, n := range pending {
		gauge(pendingDesc, float64(n), k.kind, k.risk, k.state)
	}
	age := time.Duration(0)
	if !oldest.IsZero() {
		age = max(l.Clock().Sub(oldest), 0)
	}
	gauge(oldestDesc, age.Seconds())

	reachable, unreachable := l.Workers()
	gauge(workersDesc, float64(reachable), "reachable")
	gauge(workersDesc, float64(unreachable), "unreachable")
	names := []string{hitl.StateStarting, hitl.StateAssistantTurn, hitl.StateUserTurn, hitl.StateDead}
	sessions := map[string]int{}
	l.Sessions(func(state string) { sessions[known(state, names)]++ })
	for _, s := range append(names, metrics.Other) {
		gauge(sessionsDesc, float64(sessions[s]), s)
	}
	gauge(skewDesc, l.Skew().Seconds())
	s := l.Sockets()
	gauge(socketsDesc, float64(s.Open))
	gauge(queuedDesc, float64(s.Queued))
	gauge(sseDesc, float64(s.Streams))
	c <- prometheus.MustNewConstMetric(slowDesc, prometheus.CounterValue, float64(s.Slow))
}

func known(v string, of []string) string {
	if slices.Contains(of, v) {
		return v
	}
	return metrics.Other
}
