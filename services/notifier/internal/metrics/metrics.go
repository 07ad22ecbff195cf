// Package metrics is what a notifier counts of its work. A channel is counted by
// its type: its name may be a person's.
package metrics

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/banksman/banksman/pkg/metrics"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/notifier/internal/channel"
)

// Part is the notifier's name in labels.
const Part = "notifier"

// Metrics counts. The zero of it, nil, counts nothing.
type Metrics struct {
	Registry *prometheus.Registry

	attempts map[string]metrics.Counters // by type of channel, then by result
	took     metrics.Histograms
	events   metrics.Counters
	muted    prometheus.Counter
	untold   prometheus.Counter
	steps    prometheus.Counter
}

// Results of an attempt.
const (
	Sent    = "sent"
	Failed  = "failed"  // another attempt may do better
	Refused = "refused" // this message will never be taken
	Gone    = "gone"    // the receiver wants nothing ever again
)

// What became of an event.
const (
	Done    = "done"
	Again   = "again"
	Dropped = "dropped"
)

// New makes the metrics of a notifier with channels of these types; health is what
// /readyz says.
func New(health func() error, types ...string) *Metrics {
	reg := metrics.Part(Part, health)
	attempts := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "banksman_notifier_attempts_total", Help: "Attempts to deliver a message, by type of channel and by what came of it.",
	}, []string{"channel", "result"})
	m := &Metrics{
		Registry: reg, attempts: map[string]metrics.Counters{},
		took: metrics.NewHistograms(reg, "banksman_notifier_attempt_seconds", "How long attempts took, by type of channel.", "channel",
			[]float64{0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}, types...),
		muted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "banksman_notifier_muted_total", Help: "Messages that quiet hours hold back beyond the request's deadline: they are never sent.",
		}),
		events: metrics.NewCounters(reg, "banksman_notifier_events_total",
			"Events that the notifier read: done, to be read again, or dropped because they cannot be read.", "result", Done, Again, Dropped),
		untold: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "banksman_notifier_untold_total", Help: "Requests of which no channel tells anybody, be it that all have failed.",
		}),
		steps: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "banksman_notifier_steps_untold_total", Help: "Steps at which nobody was told, because their channels failed for good: the next step was due at once.",
		}),
	}
	reg.MustRegister(m.muted)
	for _, t := range append(types, metrics.Other) {
		m.attempts[t] = metrics.Counters{}
		for _, r := range []string{Sent, Failed, Refused, Gone} {
			m.attempts[t][r] = attempts.WithLabelValues(t, r)
		}
	}
	reg.MustRegister(attempts, m.untold, m.steps)
	return m
}

// Attempt counts one attempt of a channel.
func (m *Metrics) Attempt(typ string, took time.Duration, err error) {
	if m == nil {
		return
	}
	results, ok := m.attempts[typ]
	if !ok {
		results = m.attempts[metrics.Other]
	}
	results[result(err)].Inc()
	m.took.Observe(typ, took)
}

func result(err error) string {
	var p *channel.Problem
	switch {
	case err == nil:
		return Sent
	case !errors.As(err, &p):
		return Failed
	case p.Class == channel.Refused:
		return Refused
	case p.Class == channel.Gone:
		return Gone
	}
	return Failed
}

// Event counts an event.
func (m *Metrics) Event(result string) { m.events.Inc(result) }

// Muted counts a message that is held back until it is too late.
func (m *Metrics) Muted() {
	if m != nil {
		m.muted.Inc()
	}
}

// Untold counts a request of which nobody is told.
func (m *Metrics) Untold() {
	if m != nil {
		m.untold.Inc()
	}
}

// UntoldSteps counts steps at which nobody was told.
func (m *Metrics) UntoldSteps(n int) {
	if m != nil {
		m.steps.Add(float64(n))
	}
}

// Channels are the channels of a type, by how they do.
type Channels map[string]Doing

// Wire is how a gateway gets them: the types in order.
func (c Channels) Wire() wire.AlertChannels {
	out := wire.AlertChannels{Channels: []wire.AlertChannel{}}
	for _, name := range slices.Sorted(maps.Keys(c)) {
		n := c[name]
		ch := wire.AlertChannel{Type: name, Addresses: n.Working + n.Failing + n.Gone, Failing: n.Failing, Gone: n.Gone}
		if !n.Last.IsZero() {
			at := n.Last.UTC()
			ch.LastSuccess = &at
		}
		out.Channels = append(out.Channels, ch)
	}
	return out
}

// Doing is how many do how, and when one of them last worked; zero: never.
type Doing struct {
	Working, Failing, Gone int
	Last                   time.Time
}

// States of a socket by which presses come in.
const (
	SocketOpening = "opening"
	SocketOpen    = "open"
	SocketRefused = "refused" // the provider does not take the token
)

var (
	channelsDesc = prometheus.NewDesc("banksman_notifier_channels",
		"Addresses that this notifier tells, by type of channel: working, failing (the last attempts failed), or gone (the receiver wants nothing any more).",
		[]string{"channel", "state"}, nil)
	waitingDesc = prometheus.NewDesc("banksman_notifier_deliveries_waiting",
		"Messages that are planned and not sent, those that are not due yet included. What may be over already, while events are caught up with, is not.", nil, nil)
	socketsDesc = prometheus.NewDesc("banksman_notifier_sockets",
		"Sockets by which this notifier hears what is pressed in chats: open, opening, or refused (the provider does not take the token).",
		[]string{"state"}, nil)
)

// Look adds what is looked at when somebody asks. sockets are their states.
func (m *Metrics) Look(channels func() (c Channels, waiting int), sockets func() []string) {
	m.Registry.MustRegister(&looker{channels, sockets})
}

type looker struct {
	channels func() (Channels, int)
	sockets  func() []string
}

// Describe implements prometheus.Collector.
func (*looker) Describe(c chan<- *prometheus.Desc) {
	c <- channelsDesc
	c <- waitingDesc
	c <- socketsDesc
}

// Collect implements prometheus.Collector.
func (l *looker) Collect(c chan<- prometheus.Metric) {
	sockets := map[string]int{SocketOpening: 0, SocketOpen: 0, SocketRefused: 0}
	for _, state := range l.sockets() {
		sockets[state]++
	}
	for state, n := range sockets {
		c <- prometheus.MustNewConstMetric(socketsDesc, prometheus.GaugeValue, float64(n), state)
	}
	channels, waiting := l.channels()
	for typ, n := range channels {
		for state, v := range map[string]int{"working": n.Working, "failing": n.Failing, "gone": n.Gone} {
			c <- prometheus.MustNewConstMetric(channelsDesc, prometheus.GaugeValue, float64(v), typ, state)
		}
	}
	c <- prometheus.MustNewConstMetric(waitingDesc, prometheus.GaugeValue, float64(waiting))
}
