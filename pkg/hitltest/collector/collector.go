// Package collector is a receiver of OpenTelemetry traces for tests: OTLP over HTTP, as
// protobuf.
package collector

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	receiver "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Span is a span as it came.
type Span struct {
	Service           string
	Name              string
	Trace, ID, Parent string // hexadecimal
	Kind              tracev1.Span_SpanKind
	Attributes        map[string]string
	Links             []string // trace and span id with a dash between
	Failed            bool
}

// Collector receives.
type Collector struct {
	URL string

	mu    sync.Mutex
	raw   bytes.Buffer
	spans []Span
	auth  []string
}

// New starts one that ends with the test.
func New(t testing.TB) *Collector {
	t.Helper()
	c := &Collector{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/traces", c.take)
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	c.URL = srv.URL
	return c
}

func (c *Collector) take(w http.ResponseWriter, r *http.Request) {
	var body io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = z
	}
	raw, err := io.ReadAll(body)
	in := &receiver.ExportTraceServiceRequest{}
	if err == nil {
		err = proto.Unmarshal(raw, in)
	}
	if err != nil || r.Header.Get("Content-Type") != "application/x-protobuf" {
		http.Error(w, "not OTLP as protobuf", http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	c.raw.Write(raw)
	c.auth = append(c.auth, r.Header.Get("Authorization"))
	for _, part := range in.ResourceSpans {
		service := attributes(part.Resource.GetAttributes())["service.name"]
		for _, scope := range part.ScopeSpans {
			for _, s := range scope.Spans {
				c.spans = append(c.spans, span(service, s))
			}
		}
	}
	c.mu.Unlock()
	out, _ := proto.Marshal(&receiver.ExportTraceServiceResponse{}) // an empty message always encodes
	w.Header().Set("Content-Type", "application/x-protobuf")
	_, _ = w.Write(out)
}

func span(service string, s *tracev1.Span) Span {
	out := Span{
		Service: service, Name: s.Name, Kind: s.Kind, Attributes: attributes(s.Attributes),
		Trace: hex.EncodeToString(s.TraceId), ID: hex.EncodeToString(s.SpanId), Parent: hex.EncodeToString(s.ParentSpanId),
		Failed: s.Status.GetCode() == tracev1.Status_STATUS_CODE_ERROR,
	}
	for _, l := range s.Links {
		out.Links = append(out.Links, hex.EncodeToString(l.TraceId)+"-"+hex.EncodeToString(l.SpanId))
	}
	return out
}

func attributes(all []*common.KeyValue) map[string]string {
	out := map[string]string{}
	for _, kv := range all {
		out[kv.Key] = kv.Value.GetStringValue()
	}
	return out
}

// Spans are those that came so far.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Span(nil), c.spans...)
}

// Raw is all that came, undone from its compression.
func (c *Collector) Raw() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Clone(c.raw.Bytes())
}

// Auth are the Authorization headers that came.
func (c *Collector) Auth() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.auth...)
}

// Wait waits until every name has a span, and returns the first of each.
func (c *Collector) Wait(t testing.TB, patience time.Duration, names ...string) map[string]Span {
	t.Helper()
	found := map[string]Span{}
	require.Eventually(t, func() bool {
		for _, s := range c.Spans() {
			if _, ok := found[s.Name]; !ok {
				found[s.Name] = s
			}
		}
		for _, n := range names {
			if _, ok := found[n]; !ok {
				return false
			}
		}
		return true
	}, patience, patience/1000, "%v", names)
	return found
}
