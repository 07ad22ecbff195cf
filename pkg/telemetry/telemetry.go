// Package telemetry sends a program's spans to a receiver of OpenTelemetry traces, over
// OTLP/HTTP. Programs alone use it: the packages that make spans know its interface
// (package trace).
//
// A receiver that is slow or gone holds nobody up: spans wait in a bounded queue, and
// what does not fit is dropped.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/banksman/banksman/pkg/metrics"
)

// FromEnv, in place of an address, leaves that to OpenTelemetry's own variables.
const FromEnv = "env"

const (
	// sendLimit bounds one attempt, closeLimit what the end of a program waits for.
	sendLimit  = 5 * time.Second
	closeLimit = 3 * time.Second
)

// Export sends spans. A nil one sends none.
type Export struct {
	provider *sdk.TracerProvider
	log      *slog.Logger
}

// Start begins to send a program's spans to a receiver: to is its URL, FromEnv, or
// empty for none. How much is sampled, how the program is called and what else goes
// with it the environment says (OTEL_...). The caller calls Close.
func Start(ctx context.Context, program, to string, log *slog.Logger) (*Export, error) {
	if err := Check(to); err != nil || !on(to) {
		return nil, err
	}
	options := []otlptracehttp.Option{
		otlptracehttp.WithTimeout(sendLimit),
		// The queue is what bridges a pause: what is tried again holds up the rest.
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{}),
	}
	if to != FromEnv {
		u, err := url.Parse(to)
		if err != nil { // Check has looked
			return nil, errors.New("-traces: not a URL")
		}
		if strings.Trim(u.Path, "/") == "" {
			u.Path = "/v1/traces"
		}
		options = append(options, otlptracehttp.WithEndpointURL(u.String()))
	}
	exporter, err := otlptracehttp.New(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	version, _ := metrics.Version()
	who, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(
		attribute.String("service.name", program), attribute.String("service.version", version),
	), resource.WithFromEnv())
	if err != nil {
		return nil, errors.New("traces: OTEL_RESOURCE_ATTRIBUTES cannot be read")
	}
	log = log.With("component", "traces")
	return &Export{
		log:      log,
		provider: sdk.NewTracerProvider(sdk.WithResource(who), sdk.WithBatcher(&told{SpanExporter: exporter, log: log})),
	}, nil
}

// Provider is where spans go; nil for nowhere.
func (e *Export) Provider() trace.TracerProvider {
	if e == nil {
		return nil
	}
	return e.provider
}

// Close sends what waits, for a moment at most.
func (e *Export) Close() {
	if e == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	if err := e.provider.Shutdown(ctx); err != nil {
		e.log.Debug("spans were left behind", "error", err)
	}
}

// on reports whether anything is to be sent.
func on(to string) bool {
	return to != "" && !strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") && os.Getenv("OTEL_TRACES_EXPORTER") != "none"
}

// Check looks at where Start would send to, and reads what the SDK would pass over in
// silence, or quote in its log. No error says what a setting holds.
func Check(to string) error {
	if !on(to) {
		return nil
	}
	if v := os.Getenv("OTEL_TRACES_EXPORTER"); v != "" && v != "otlp" {
		return errors.New("OTEL_TRACES_EXPORTER: only otlp and none are possible")
	}
	if to != FromEnv {
		if err := address(to); err != nil {
			return fmt.Errorf("-traces: %w", err)
		}
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"} {
		if v := os.Getenv(name); v != "" && v != "http/protobuf" {
			return fmt.Errorf("%s: only http/protobuf is possible", name)
		}
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"} {
		for _, pair := range strings.FieldsFunc(os.Getenv(name), func(r rune) bool { return r == ',' }) {
			key, value, ok := strings.Cut(pair, "=")
			if _, err := url.PathUnescape(value); !ok || err != nil || strings.TrimSpace(key) == "" {
				return fmt.Errorf("%s: want NAME=VALUE, several with commas between", name)
			}
		}
	}
	found := to != FromEnv
	for _, name := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} {
		if v := os.Getenv(name); v != "" && to == FromEnv {
			if err := address(v); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			found = true
		}
	}
	if !found {
		return errors.New("traces go where OTEL_EXPORTER_OTLP_ENDPOINT says, and it is not set")
	}
	return nil
}

// address checks a receiver's URL. A secret has its place in
// OTEL_EXPORTER_OTLP_HEADERS.
func address(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return errors.New("want http(s)://host[:port][/path]")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("only scheme, host, port and path are possible")
	}
	return nil
}

// told says once that spans cannot be sent, and once that they can again.
type told struct {
	sdk.SpanExporter
	log     *slog.Logger
	failing atomic.Bool
}

// ExportSpans implements sdk.SpanExporter. Its error would go to the SDK's own log.
func (t *told) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := t.SpanExporter.ExportSpans(ctx, spans)
	switch {
	case err == nil && t.failing.Swap(false):
		t.log.Info("traces are sent again")
	case err != nil && !t.failing.Swap(true):
		t.log.Warn("traces cannot be sent and are dropped; nothing else waits for them", "error", why(err))
	}
	return nil
}

// why words an error without what the receiver said.
func why(err error) string {
	var u *url.Error
	switch {
	case errors.As(err, &u):
		return u.Err.Error()
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	}
	return "the receiver refused them"
}
