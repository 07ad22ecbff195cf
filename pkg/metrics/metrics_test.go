package metrics_test

import (
	"errors"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/metrics"
)

// What is counted is served, beside the process's own figures; a value that nobody
// foresaw is "other".
func TestCountsAreServed(t *testing.T) {
	t.Parallel()
	var well atomic.Bool
	part := metrics.Part("kitchen", func() error {
		if well.Load() {
			return nil
		}
		return errors.New("no gas")
	})
	meals := metrics.NewCounters(part, "banksman_meals_total", "Meals.", "dish", "soup")
	cooked := metrics.NewHistograms(part, "banksman_cooking_seconds", "Cooking.", "dish", metrics.People(), "soup")
	metrics.Disk(part, "kitchen", t.TempDir())
	served := func() string {
		rec := httptest.NewRecorder()
		metrics.Handler("banksman-test", part).ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
		require.Equal(t, 200, rec.Code)
		return rec.Body.String()
	}
	require.Contains(t, served(), `banksman_ready{part="kitchen"} 0`)
	require.Contains(t, served(), `banksman_meals_total{dish="soup"} 0`)
	well.Store(true)
	meals.Inc("soup")
	meals.Inc("stew")
	cooked.Observe("soup", 3*time.Second)
	text := served()
	for _, want := range []string{
		`banksman_ready{part="kitchen"} 1`, `banksman_meals_total{dish="soup"} 1`, `banksman_meals_total{dish="other"} 1`,
		`banksman_cooking_seconds_bucket{dish="soup",le="2"} 0`, `banksman_cooking_seconds_bucket{dish="soup",le="5"} 1`,
		`program="banksman-test"`, "go_goroutines", `banksman_disk_bytes{part="kitchen"}`,
	} {
		require.Contains(t, text, want)
	}
	require.NotContains(t, text, "stew")
}

// One part that cannot be read does not hide the others.
func TestWhatCanBeReadIsServed(t *testing.T) {
	t.Parallel()
	part := metrics.Part("kitchen", func() error { return nil })
	rec := httptest.NewRecorder()
	failing := prometheus.NewRegistry()
	failing.MustRegister(bad{})
	metrics.Handler("banksman-test", failing, part).ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	require.Equal(t, 200, rec.Code)
	require.Contains(t, rec.Body.String(), `banksman_ready{part="kitchen"} 1`)
}

type bad struct{}

var badDesc = prometheus.NewDesc("banksman_bad", "Bad.", nil, nil)

func (bad) Describe(c chan<- *prometheus.Desc) { c <- badDesc }

func (bad) Collect(c chan<- prometheus.Metric) {
	c <- prometheus.NewInvalidMetric(badDesc, errors.New("cannot be read"))
}
