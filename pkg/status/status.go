// Package status serves what operators ask a process: whether it lives, whether
// it can do its work, and its figures. It is a listener of its own, because
// none of that is for the people a service serves.
package status

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"
)

// Options say what is served.
type Options struct {
	Logger *slog.Logger
	// Ready is nil while the process can do its work; the error says why not.
	Ready func() error
	// Metrics answers /metrics; nil: there are none.
	Metrics http.Handler
}

// Server is a listener that Run serves.
type Server struct {
	log      *slog.Logger
	listener net.Listener
	http     *http.Server
}

// CheckAddr reports what is wrong with an address to listen on, as far as that shows
// without listening.
func CheckAddr(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("%q: want host:port", addr)
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return fmt.Errorf("%q: %q is not a port", addr, port)
	}
	if strings.ContainsAny(host, " \t/@?#*") {
		return fmt.Errorf("%q: %q is neither an address nor the name of a host", addr, host)
	}
	return nil
}

// Listen takes the address, so that one that is in use is an error at the start.
// Run or Close gives it up again.
func Listen(addr string, o Options) (*Server, error) {
	if err := CheckAddr(addr); err != nil {
		return nil, fmt.Errorf("-status: %w", err)
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("-status: %w", err)
	}
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := o.Ready(); err != nil {
			say(w, http.StatusServiceUnavailable, "not ready: "+err.Error())
			return
		}
		say(w, http.StatusOK, "ok")
	})
	if o.Metrics != nil {
		mux.Handle("GET /metrics", o.Metrics)
	}
	return &Server{log: log, listener: l, http: &http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}}, nil
}

func say(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = fmt.Fprintln(w, text)
}

// Addr is the address that was taken.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Run serves until ctx ends, which is no error.
func (s *Server) Run(ctx context.Context) error {
	s.log.Info("status is served", "addr", s.Addr())
	stop := context.AfterFunc(ctx, func() { _ = s.http.Close() })
	defer stop()
	if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("status: %w", err)
	}
	return nil
}

// Beside runs work, a service, with its status on addr, or without where addr is
// empty. It ends with work; a status that ends before is a failure of the whole.
func Beside(ctx context.Context, addr string, o Options, work func(context.Context) error) error {
	if addr == "" {
		return work(ctx)
	}
	s, err := Listen(addr, o)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	served := make(chan error, 1)
	// Serving outlasts the work's end by nothing, and a drain has its status.
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		err := s.Run(serving)
		if err != nil {
			cancel(err)
		}
		served <- err
	}()
	err = work(ctx)
	stop()
	cancel(nil)
	return errors.Join(err, <-served)
}
