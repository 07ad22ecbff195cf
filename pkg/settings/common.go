package settings

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"

	"github.com/banksman/banksman/pkg/status"
	"github.com/banksman/banksman/pkg/telemetry"
	"github.com/banksman/banksman/pkg/trace"
)

// Common are the flags that every service has.
type Common struct {
	// Status is where /healthz, /readyz and /metrics are served; empty: nowhere.
	Status string
	// Traces is where traces go, see package telemetry; empty: nowhere.
	Traces string
	// Check asks for nothing but a look at the settings.
	Check bool

	level  slog.Level
	format string
}

// Common adds the flags that every service has; level is the log's default.
func (s *Set) Common(level slog.Level) *Common {
	c := &Common{}
	s.TextVar(&c.level, "log", level, "log `level`: debug, info, warn or error")
	s.StringVar(&c.format, "log-format", "text", "`form` of the log on standard error: text or json")
	s.StringVar(&c.Status, "status", "", "`address` that serves /healthz, /readyz and /metrics, without authentication and beside everything else (default: none)")
	s.Traces(&c.Traces)
	s.BoolVar(&c.Check, "check", false, "read and check the settings, and end")
	return c
}

// Log is the log that the flags describe, onto w. It looks at what else they say.
func (c *Common) Log(w io.Writer) (*slog.Logger, error) {
	if err := telemetry.Check(c.Traces); err != nil {
		return nil, err
	}
	if c.Status != "" {
		if err := status.CheckAddr(c.Status); err != nil {
			return nil, fmt.Errorf("-status: %w", err)
		}
	}
	o := &slog.HandlerOptions{Level: c.level}
	switch c.format {
	case "text":
		return trace.Log(slog.NewTextHandler(w, o)), nil
	case "json":
		return trace.Log(slog.NewJSONHandler(w, o)), nil
	}
	return nil, fmt.Errorf("-log-format: %q is neither text nor json", c.format)
}

// ParseOrHelp is Parse that writes the help to w where it is asked for, about
// first, and nothing else.
func (s *Set) ParseOrHelp(args, environ []string, about string, w io.Writer) error {
	s.SetOutput(io.Discard)
	s.Usage = func() {}
	err := s.Parse(args, environ)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(w, "%sEach flag can also be an environment variable, %sNAME, or stand in the -%s file.\n\n", about, s.prefix, FileFlag)
		s.SetOutput(w)
		s.PrintDefaults()
	}
	return err
}

// Traces adds the flag that says where a program's traces go. Its value is looked at
// later: an error of a flag would quote it.
func (s *Set) Traces(to *string) {
	s.StringVar(to, "traces", "", "`URL` of a receiver of OpenTelemetry traces (OTLP over HTTP), or env to take it from OTEL_EXPORTER_OTLP_ENDPOINT (default: none)")
}
