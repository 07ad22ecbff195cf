// Package metrics is what a gateway counts of its work. Everything that counts is
// made at the start, so that deciding takes no lock for it; what only has to be
// looked at is looked at when somebody asks.
package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/metrics"
)

// Part is the gateway's name in labels.
const Part = "gateway"

// streams are those that a gateway writes to.
var streams = []string{journal.Requests, journal.Decisions, journal.Events, journal.Work}

// Metrics counts. The zero of it, nil, counts nothing.
type Metrics struct {
	Registry *prometheus.Registry

	asked    metrics.Counters
	latency  metrics.Histograms
	deciders metrics.Counters
	receipts metrics.Counters
	refused  metrics.Counters
	stored   metrics.Counters
	failed   metrics.Counters
	restarts metrics.Counters
}

// New makes the metrics of a gateway; health is what /readyz says.
func New(health func() error) *Metrics {
	reg := metrics.Part(Part, health)
	return &Metrics{
		Registry: reg,
		asked: metrics.NewCounters(reg, "banksman_requests_admitted_total",
			"Requests that this gateway put before people, by kind.", "kind", kinds...),
		latency: metrics.NewHistograms(reg, "banksman_decision_latency_seconds",
			"From the moment a request was stored to its decision, of decisions that this gateway stored, by outcome.", "outcome", metrics.People(),
			string(hitl.Allowed), string(hitl.Denied), string(hitl.Answered), string(hitl.Clarify), string(hitl.Dismissed),
			string(hitl.Expired), string(hitl.Cancelled), string(hitl.Orphaned), string(hitl.InvalidIX)),
		deciders: metrics.NewCounters(reg, "banksman_decisions_total",
			"Decisions that this gateway stored, by what decided: a person, a service, a rule, the asker itself, or the system (deadlines).", "by",
			"person", "service", "rule", "system", "asker"),
		receipts: metrics.NewCounters(reg, "banksman_decision_receipts_total",
			"Attempts to decide, by the receipt they got.", "status",
			string(hitl.Accepted), string(hitl.Duplicate), string(hitl.AlreadyDecided), string(hitl.TooLate), string(hitl.NotFound),
			string(hitl.BadInput), string(hitl.Forbidden), string(hitl.DigestMismatch), string(hitl.Unavailable)),
		refused: metrics.NewCounters(reg, "banksman_requests_refused_total",
			"Requests that were refused before anybody saw them, by the quota that was used up; other: the request itself was at fault.", "reason",
			"quota.open", "quota.bytes", "quota.rate"),
		stored: metrics.NewCounters(reg, "banksman_stores_total", "Writes to a stream that ended well.", "stream", streams...),
		failed: metrics.NewCounters(reg, "banksman_store_errors_total",
			"Writes to a stream that failed, or of which it is unknown whether they did. The gateway is not ready for a while after one.", "stream", streams...),
		restarts: metrics.NewCounters(reg, "banksman_watch_restarts_total",
			"How often a watch of a bucket ended and was begun again.", "watch", "sign-ins", "rules"),
	}
}

// Asked counts a request that is put before people.
func (m *Metrics) Asked(kind string) {
	if m != nil {
		m.asked.Inc(kind)
	}
}

// Decided counts a decision that was stored.
func (m *Metrics) Decided(d *hitl.Decision) {
	if m == nil {
		return
	}
	m.latency.Observe(string(d.Outcome), max(d.DecidedAt.Sub(d.RequestedAt), 0))
	m.deciders.Inc(d.Principal.Kind)
}

// Receipt counts an attempt to decide.
func (m *Metrics) Receipt(s hitl.Status) {
	if m != nil {
		m.receipts.Inc(string(s))
	}
}

// Refused counts a request that nobody saw; field is what was wrong.
func (m *Metrics) Refused(field string) {
	if m != nil {
		m.refused.Inc(field)
	}
}

// Stored counts a write.
func (m *Metrics) Stored(stream string, ok bool) {
	switch {
	case m == nil:
	case ok:
		m.stored.Inc(stream)
	default:
		m.failed.Inc(stream)
	}
}

// Restarted counts the restart of a watch.
func (m *Metrics) Restarted(watch string) {
	if m != nil {
		m.restarts.Inc(watch)
	}
}

// The values of labels.
var (
	kinds  = []string{hitl.KindApproval, hitl.KindQuestion, hitl.KindForm}
	risks  = []string{"low", "medium", "high", "critical"}
	states = []string{Waiting, Unreachable, Ending}
)

// States of what is open: its asker waits, misses its heartbeats, or it is decided
// and its end is being told.
const (
	Waiting     = "waiting"
	Unreachable = "unreachable"
	Ending      = "ending"
)

// Open is one interaction of the open set, as far as it is counted.
type Open struct {
	Kind, Risk, State string
	Asked             time.Time
}

// Sockets is what the door says of its readers.
type Sockets struct {
	Open, Queued int // sockets, and bytes that wait for them
	Slow         int64
	Streams      int // of server-sent events
}

// Source is what a gateway looks at when somebody asks.
type Source struct {
	Clock    func() time.Time
	Open     func(each func(Open))
	Workers  func() (reachable, unreachable int)
	Sessions func(each func(state string))
	Skew     func() time.Duration
	Sockets  func() Sockets
}
