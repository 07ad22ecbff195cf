// Package metrics serves what the parts of a process count, in the form that
// Prometheus reads. A label has one of a few values that are known beforehand:
// never an id, a name of a person or of an owner, or anything that an agent wrote.
package metrics

import (
	"net/http"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// scrapeLimit bounds one reading.
const scrapeLimit = 10 * time.Second

// Handler answers with what the parts count, and with the process's own figures.
func Handler(program string, parts ...prometheus.Gatherer) http.Handler {
	all := append(prometheus.Gatherers{Process(program)}, parts...)
	return promhttp.HandlerFor(all, promhttp.HandlerOpts{
		MaxRequestsInFlight: 2, Timeout: scrapeLimit,
		// What can be read is worth having when something else cannot.
		ErrorHandling: promhttp.ContinueOnError,
	})
}

// Process is the figures of a process: its build, the Go runtime, the operating
// system.
func Process(program string) *prometheus.Registry {
	reg := prometheus.NewRegistry()
	version, revision := Version()
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "banksman_build_info", Help: "1; the labels say which build of which program runs.",
		ConstLabels: prometheus.Labels{"program": program, "version": version, "revision": revision, "goversion": runtime.Version()},
	})
	build.Set(1)
	reg.MustRegister(build, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return reg
}

// Unknown is the version or revision of a build that does not say.
const Unknown = "unknown"

// Stamp is the version where it is named at the build, for builds without a
// repository: -ldflags "-X github.com/banksman/banksman/pkg/metrics.Stamp=v1.2.3".
var Stamp string

// Version is what the program was built from.
func Version() (version, revision string) {
	version, revision = Unknown, Unknown
	defer func() {
		if Stamp != "" {
			version = Stamp
		}
	}()
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return version, revision
	}
	if info.Main.Version != "" {
		version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			revision += "-modified"
		}
	}
	return version, revision
}

// Part makes the registry of a service, with whether it is ready: nil of health.
func Part(name string, health func() error) *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "banksman_ready", Help: "1 while this part can do its work, as /readyz says; else 0.",
		ConstLabels: prometheus.Labels{"part": name},
	}, func() float64 {
		if health() == nil {
			return 1
		}
		return 0
	}))
	return reg
}

// Conn adds a part's connection to NATS.
func Conn(reg prometheus.Registerer, part, connection string, nc *nats.Conn) {
	labels := prometheus.Labels{"part": part, "connection": connection}
	reg.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "banksman_nats_connected", Help: "1 while this connection to the NATS server stands, else 0.", ConstLabels: labels,
		}, func() float64 {
			if nc.IsConnected() {
				return 1
			}
			return 0
		}),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "banksman_nats_reconnects_total", Help: "How often this connection to the NATS server came back.", ConstLabels: labels,
		}, func() float64 { return float64(nc.Stats().Reconnects) }),
	)
}

// Counters are the counters of a name for the values of one label, all made at
// the start: counting takes no lock, and a value that is not known counts as
// "other", so that nobody can make series.
type Counters map[string]prometheus.Counter

// NewCounters makes and registers them.
func NewCounters(reg prometheus.Registerer, name, help, label string, values ...string) Counters {
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	reg.MustRegister(vec)
	c := Counters{}
	for _, v := range append(values, Other) {
		c[v] = vec.WithLabelValues(v)
	}
	return c
}

// Inc counts one.
func (c Counters) Inc(value string) { pick(c, value).Inc() }

// Histograms are the same for durations, in seconds.
type Histograms map[string]prometheus.Observer

// NewHistograms makes and registers them.
func NewHistograms(reg prometheus.Registerer, name, help, label string, buckets []float64, values ...string) Histograms {
	vec := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, []string{label})
	reg.MustRegister(vec)
	h := Histograms{}
	for _, v := range append(values, Other) {
		h[v] = vec.WithLabelValues(v)
	}
	return h
}

// Observe counts one duration.
func (h Histograms) Observe(value string, d time.Duration) { pick(h, value).Observe(d.Seconds()) }

// Other stands for a value that is not known.
const Other = "other"

func pick[V any](m map[string]V, value string) V {
	if v, ok := m[value]; ok {
		return v
	}
	return m[Other]
}

// People are the buckets of how long people take, in seconds.
func People() []float64 {
	return []float64{0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 4 * 3600, 24 * 3600}
}
