// Package modelapi is a scripted stand-in for the streaming Messages API, made
// for driving a real coding agent without a model.
//
// A script is a list of steps. Each request takes the first unused step that
// fits it: conversation, system prompt, user text and, above all, the tool
// results it carries. The server is strict: a request that no step fits, and a
// tool result that the script does not name, are faults, since a test about
// consent has to notice every word the agent told the model.
package modelapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// MaxBody bounds one request body, in bytes.
const MaxBody = 64 << 20

// ControlPath opens the gate of that name: POST /_control/release/<gate>.
const ControlPath = "/_control/release/"

// TB is the part of testing.TB that New needs. It is spelled out so that
// programs which use Start don't link the testing package.
type TB interface {
	Helper()
	Cleanup(func())
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Failed() bool
}

// Options wire a Server made by Start.
type Options struct {
	// Addr is the loopback address to listen on; empty means a free port.
	Addr string
	// OnFault is called for every fault, from the request's goroutine.
	OnFault func(error)
}

// Server is the stand-in. It is safe for concurrent use.
type Server struct {
	url     string
	srv     *http.Server
	onFault func(error)
	stop    context.CancelFunc
	wg      sync.WaitGroup // Serve and the handlers; Close waits for it

	mu       sync.Mutex
	closed   bool
	steps    []*stepState
	requests []*Request
	faults   []error
	gates    map[string]chan struct{} // closed by Release
	accepted map[string]bool          // tool results already matched, by conversation
	changed  chan struct{}            // closed and replaced whenever requests grow
}

type stepState struct {
	Step
	index int
	used  bool
}

// New starts a server for a test: a fault fails the test at once, and a step
// that was never asked for fails it at the end.
func New(t TB, script ...Step) *Server {
	t.Helper()
	s, err := Start(Options{OnFault: func(err error) { t.Errorf("model API: %v", err) }}, script...)
	if err != nil {
		t.Fatalf("model API: %v", err)
		return nil
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("model API: close: %v", err)
		}
		if left := s.Remaining(); len(left) > 0 && !t.Failed() {
			t.Errorf("model API: steps never asked for: %s", strings.Join(left, "; "))
		}
	})
	return s
}

// Start starts a server outside a test. The caller closes it.
func Start(o Options, script ...Step) (*Server, error) {
	addr := o.Addr
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("addr: %w", err)
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return nil, fmt.Errorf("addr: %q is not a loopback address", addr)
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &Server{
		url: "http://" + ln.Addr().String(), onFault: o.OnFault, stop: stop,
		gates: map[string]chan struct{}{}, accepted: map[string]bool{}, changed: make(chan struct{}),
	}
	if err := s.Add(script...); err != nil {
		stop()
		return nil, errors.Join(err, ln.Close())
	}
	s.srv = &http.Server{
		Handler:           http.HandlerFunc(s.serve),
		ReadHeaderTimeout: 10 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	s.wg.Add(1)
	go func() {
		defer s.wg.Done()
		if err := s.srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			s.fault(fmt.Errorf("serve: %w", err))
		}
	}()
	return s, nil
}

// URL is the base address, the value for ANTHROPIC_BASE_URL.
func (s *Server) URL() string { return s.url }

// Env is a whole clean environment, nothing inherited but the given PATH, in
// which Claude Code talks only to this server. home must be a fresh directory.
func (s *Server) Env(path, home string) []string {
	return []string{
		"PATH=" + path,
		"LANG=C.UTF-8",
		"HOME=" + home,
		"CLAUDE_CODE_TMPDIR=" + home,
		"CLAUDE_CONFIG_DIR=" + home + "/.claude",
		"ANTHROPIC_BASE_URL=" + s.url,
		"ANTHROPIC_API_KEY=dummy",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
		"DISABLE_AUTOUPDATER=1",
	}
}

// Add appends steps to the script.
func (s *Server) Add(steps ...Step) error {
	for _, st := range steps {
		if err := st.validate(); err != nil {
			return fmt.Errorf("step %q: %w", st.Name, err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range steps {
		s.steps = append(s.steps, &stepState{Step: st, index: len(s.steps)})
	}
	return nil
}

// Release opens a gate; steps that wait at it, now or later, go on.
func (s *Server) Release(gate string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.gate(gate)
	select {
	case <-c:
	default:
		close(c)
	}
}

// gate needs s.mu.
func (s *Server) gate(name string) chan struct{} {
	c := s.gates[name]
	if c == nil {
		c = make(chan struct{})
		s.gates[name] = c
	}
	return c
}

// Requests returns what was received so far, in order of arrival.
func (s *Server) Requests() []*Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// WaitRequests waits until at least n requests have come, and returns them.
func (s *Server) WaitRequests(ctx context.Context, n int) ([]*Request, error) {
	for {
		s.mu.Lock()
		got, changed := slices.Clone(s.requests), s.changed
		s.mu.Unlock()
		if len(got) >= n {
			return got, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return got, fmt.Errorf("%d of %d requests: %w", len(got), n, ctx.Err())
		}
	}
}

// Faults returns every breach of the script so far.
func (s *Server) Faults() []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.faults)
}

// Remaining describes the steps that no request has taken, without those
// marked Optional or Repeat.
func (s *Server) Remaining() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var left []string
	for _, st := range s.steps {
		if !st.used && !st.Optional && !st.Repeat {
			left = append(left, st.describe())
		}
	}
	return left
}

// Close stops the server, cuts replies that are held, and waits for them.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true // from here on no handler joins wg
	s.mu.Unlock()
	s.stop()
	err := s.srv.Close()
	s.wg.Wait()
	return err
}

func (s *Server) fault(err error) {
	s.mu.Lock()
	s.faults = append(s.faults, err)
	s.mu.Unlock()
	if s.onFault != nil {
		s.onFault(err)
	}
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.wg.Add(1)
	s.mu.Unlock()
	defer s.wg.Done()
	switch {
	case r.Method == http.MethodHead && r.URL.Path == "/":
		w.WriteHeader(http.StatusOK)
	case r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, ControlPath):
		s.Release(strings.TrimPrefix(r.URL.Path, ControlPath))
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodPost && r.URL.Path == "/v1/messages":
		s.messages(w, r)
	default:
		s.fault(fmt.Errorf("unexpected %s %s", r.Method, r.URL.Path))
		refuse(w, http.StatusNotFound, "not_found_error", "not served here")
	}
}

func (s *Server) messages(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	if err != nil {
		if r.Context().Err() == nil {
			s.fault(fmt.Errorf("read body: %w", err))
		}
		return
	}
	req, err := parseRequest(r.Header, body)
	if err != nil {
		s.fault(err)
		refuse(w, http.StatusBadRequest, "invalid_request_error", "unreadable request")
		return
	}
	st, hold, err := s.take(req)
	if err != nil {
		s.fault(err)
		// 400 is not retried by clients, so one fault stays one fault.
		refuse(w, http.StatusBadRequest, "invalid_request_error", "no step of the script fits")
		return
	}
	for _, c := range hold {
		select {
		case <-c:
		case <-r.Context().Done():
			panic(http.ErrAbortHandler) // a return would be an empty good reply
		}
	}
	if st.Status != 0 {
		refuse(w, st.Status, "api_error", "scripted error")
		return
	}
	blocks := st.Reply
	if st.Respond != nil {
		blocks = st.Respond(req)
	}
	wait := func(name string) bool {
		s.mu.Lock()
		c := s.gate(name)
		s.mu.Unlock()
		select {
		case <-c:
			return true
		case <-r.Context().Done():
			return false
		}
	}
	if err := stream(w, req, st.Step, blocks, wait); err != nil && r.Context().Err() == nil {
		s.fault(fmt.Errorf("%s: %w", st.describe(), err))
	}
}

// take records the request and picks its step.
func (s *Server) take(req *Request) (*stepState, []<-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	req.Seq = len(s.requests) + 1
	s.requests = append(s.requests, req)
	close(s.changed)
	s.changed = make(chan struct{})
	for _, tr := range req.allResults {
		if !s.accepted[req.conversation()+"\x00"+tr.key()] {
			req.Results = append(req.Results, tr)
		}
	}
	var why []string
	for _, st := range s.steps {
		if st.used && !st.Repeat {
			continue
		}
		reason := st.mismatch(req)
		if reason != "" {
			why = append(why, st.describe()+": "+reason)
			continue
		}
		st.used = true
		req.Step = st.Name
		for _, tr := range req.Results {
			s.accepted[req.conversation()+"\x00"+tr.key()] = true
		}
		var hold []<-chan struct{}
		if st.Hold != nil {
			hold = append(hold, st.Hold)
		}
		if st.Gate != "" {
			hold = append(hold, s.gate(st.Gate))
		}
		return st, hold, nil
	}
	return nil, nil, fmt.Errorf("request %d fits no step: %s\n  open steps: %s", req.Seq, req.summary(), strings.Join(why, "\n    "))
}

func refuse(w http.ResponseWriter, status int, kind, msg string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// The client may be gone; there is nobody left to tell.
	_ = json.NewEncoder(w).Encode(map[string]any{
		"type":  "error",
		"error": map[string]string{"type": kind, "message": msg},
	})
}
