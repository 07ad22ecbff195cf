package natsd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// Reasons why Start refuses.
var (
	// ErrUnsafeConfig: the configuration listens where it must not, or has no
	// place for its data.
	ErrUnsafeConfig = errors.New("natsd: unsafe configuration")
	// ErrStoreInUse: another server runs on the same store directory.
	ErrStoreInUse = errors.New("natsd: store is in use")
)

// StartOptions wire an embedded server.
type StartOptions struct {
	ConfigFile string       // a file that Write made
	Logger     *slog.Logger // nil discards
}

// Server is a NATS server inside this process. It installs no signal handlers.
type Server struct {
	srv    *server.Server
	config string
	lock   *fileLock
	done   chan struct{} // closed by watch, after the server and its store are closed
	broken chan error    // capacity 1; see Broken
	stop   sync.Once
}

// readyPoll is how often Start looks whether the server accepts clients.
const readyPoll = 50 * time.Millisecond

// Start runs the server and returns when it accepts clients. ctx bounds the
// start only; when it ends, the half-started server is shut down before Start
// returns. The caller owns the Server and calls Shutdown.
//
// Start refuses a configuration without a host, one that listens beyond
// loopback without authentication, and a store that another server uses.
func Start(ctx context.Context, o StartOptions) (*Server, error) {
	logger := o.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	opts, err := loadConfig(o.ConfigFile)
	if err != nil {
		return nil, err
	}
	lock, err := lockStore(opts.StoreDir)
	if err != nil {
		return nil, err
	}
	srv, err := server.NewServer(opts)
	if err != nil {
		lock.release()
		return nil, fmt.Errorf("natsd: %w", err)
	}
	bridge := &logBridge{log: logger, fatal: make(chan string, 1), broken: make(chan error, 1)}
	srv.SetLoggerV2(bridge, false, false, false)
	s := &Server{srv: srv, config: o.ConfigFile, lock: lock, done: make(chan struct{}), broken: bridge.broken}

	started := make(chan struct{}) // closed when srv.Start has returned
	go func() {
		srv.Start() // recovers the streams, then returns
		close(started)
	}()
	err = s.awaitReady(ctx, started, bridge.fatal)
	if err == nil && !srv.JetStreamEnabled() {
		err = errors.New("natsd: JetStream did not start")
	}
	<-started
	go s.watch()
	if err != nil {
		s.Shutdown()
		return nil, err
	}
	return s, nil
}

func (s *Server) awaitReady(ctx context.Context, started <-chan struct{}, fatal <-chan string) error {
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("natsd: not ready: %w", context.Cause(ctx))
		case msg := <-fatal:
			return fmt.Errorf("natsd: %s", msg)
		case <-started:
			// From here on the poll paces itself.
			started = nil
		default:
			if s.srv.ReadyForConnections(readyPoll) {
				return nil
			}
		}
	}
}

// watch waits for the server's end, whoever caused it. It is the last to touch
// the store, so it gives the lock back.
func (s *Server) watch() {
	s.srv.WaitForShutdown()
	s.lock.release()
	close(s.done)
}

// ClientURL is the address clients connect to.
func (s *Server) ClientURL() string { return s.srv.ClientURL() }

// InProcess makes a connection go through memory instead of the network. The
// credential is checked all the same.
func (s *Server) InProcess() nats.Option { return nats.InProcessServer(s.srv) }

// Reload reads the configuration file again: new owners and removed ones take
// effect, connections of all others stay. A call that is made at that very
// moment can find no responders; like a timeout, that says nothing about it.
func (s *Server) Reload() error {
	opts, err := loadConfig(s.config)
	if err != nil {
		return err
	}
	added := false
	for _, a := range opts.Accounts {
		if _, err := s.srv.LookupAccount(a.Name); err != nil {
			added = true
		}
	}
	if err := s.srv.ReloadOptions(opts); err != nil {
		return fmt.Errorf("natsd: reload: %w", err)
	}
	if !added {
		return nil
	}
	// The first reload makes new accounts known; only the next one connects
	// their service imports (nats-server 2.15.2).
	if opts, err = loadConfig(s.config); err != nil {
		return err
	}
	if err := s.srv.ReloadOptions(opts); err != nil {
		return fmt.Errorf("natsd: reload: %w", err)
	}
	return nil
}

// Broken gives one error when a stream could not be written, for example
// because the disk is full. Such a stream takes nothing more until the server
// is started again, even when there is room by then (nats-server 2.15.2): what
// was acknowledged is kept, and the owner should stop the server.
func (s *Server) Broken() <-chan error { return s.broken }

// Done is closed when the server has stopped and its store is closed.
func (s *Server) Done() <-chan struct{} { return s.done }

// Shutdown stops the server and waits until its store is closed. More calls
// wait for the first.
func (s *Server) Shutdown() {
	s.stop.Do(s.srv.Shutdown)
	<-s.done
}

// loadConfig reads a configuration and refuses an unsafe one.
func loadConfig(path string) (*server.Options, error) {
	if path == "" {
		return nil, fmt.Errorf("%w: no configuration file", ErrUnsafeConfig)
	}
	opts, err := server.ProcessConfigFile(path)
	if err != nil {
		return nil, fmt.Errorf("natsd: %s: %w", path, err)
	}
	opts.NoSigs = true
	if err := checkSafe(opts); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrUnsafeConfig, path, err)
	}
	return opts, nil
}

func checkSafe(o *server.Options) error {
	if o.Host == "" {
		return errors.New("host is empty, which would listen on every address; set 127.0.0.1")
	}
	if !isLoopback(o.Host) {
		hasAuth := len(o.Nkeys) > 0 || len(o.Users) > 0 || o.Username != "" || o.Authorization != "" || len(o.TrustedOperators) > 0
		if !hasAuth {
			return fmt.Errorf("host %s is not a loopback address and there are no users", o.Host)
		}
		if o.NoAuthUser != "" {
			return fmt.Errorf("host %s is not a loopback address and no_auth_user lets anybody in", o.Host)
		}
	}
	if o.Cluster.Port != 0 && o.Cluster.Username == "" && !isLoopback(o.Cluster.Host) {
		return fmt.Errorf("cluster host %q is not a loopback address and has no authorization", o.Cluster.Host)
	}
	if o.HTTPPort != 0 && !isLoopback(o.HTTPHost) {
		return fmt.Errorf("http host %q: monitoring has no authentication and stays on loopback", o.HTTPHost)
	}
	if !o.JetStream {
		return errors.New("jetstream is off: nothing could be stored")
	}
	if o.StoreDir == "" {
		return errors.New("jetstream.store_dir is empty, which would put the streams into a temporary directory")
	}
	return nil
}

// CheckFree returns ErrStoreInUse while a server runs on the store of a data
// directory: a new plan would change the files that its clients read. A
// directory without a plan is free.
func CheckFree(dir string) error {
	st, err := readState(dir)
	if err != nil {
		return fmt.Errorf("natsd: %w", err)
	}
	store := cmp.Or(st.Plan.StoreDir, filepath.Join(natsDir(dir), "store"))
	if _, err := os.Stat(store); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	lock, err := lockStore(store)
	if err != nil {
		return err
	}
	lock.release()
	return nil
}

// lockStore keeps a second server off the store. The pid in the file is for
// people; what counts is the lock.
func lockStore(dir string) (*fileLock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("natsd: %w", err)
	}
	path := filepath.Join(dir, "server.lock")
	lock, err := lockFile(path, false)
	if errors.Is(err, errLocked) {
		holder := "another process"
		if pid, err := os.ReadFile(path); err == nil && len(pid) > 0 {
			holder = "process " + string(pid)
		}
		return nil, fmt.Errorf("%w: %s already runs a server on %s", ErrStoreInUse, holder, dir)
	}
	if err != nil {
		return nil, fmt.Errorf("natsd: %w", err)
	}
	pid := strconv.Itoa(os.Getpid())
	if err := errors.Join(lock.f.Truncate(0), writeAt(lock.f, pid)); err != nil {
		lock.release()
		return nil, fmt.Errorf("natsd: %w", err)
	}
	return lock, nil
}

func writeAt(f *os.File, s string) error {
	_, err := f.WriteAt([]byte(s), 0)
	return err
}

// logBridge hands the server's log to slog. The server's notices are a banner
// and one line per event of its own: debug here. Its debug and trace output,
// which would show payloads, is never switched on.
type logBridge struct {
	log    *slog.Logger
	fatal  chan string // buffer 1, first fatal message; read by Start
	broken chan error  // buffer 1, first failure to write a stream
}

var _ server.Logger = (*logBridge)(nil)

func (l *logBridge) Noticef(f string, v ...any) { l.log.Debug(fmt.Sprintf(f, v...)) }
func (l *logBridge) Warnf(f string, v ...any)   { l.log.Warn(fmt.Sprintf(f, v...)) }
func (l *logBridge) Debugf(string, ...any)      {}
func (l *logBridge) Tracef(string, ...any)      {}

// brokenMark is how the server words that a stream takes nothing more; it has
// no other way to say it. A test holds it to that.
const brokenMark = "critical write error"

func (l *logBridge) Errorf(f string, v ...any) {
	msg := fmt.Sprintf(f, v...)
	l.log.Error(msg)
	if strings.Contains(msg, brokenMark) {
		select {
		case l.broken <- fmt.Errorf("natsd: %s", msg):
		default:
		}
	}
}

// Fatalf does not end the process: Start returns the message.
func (l *logBridge) Fatalf(f string, v ...any) {
	msg := fmt.Sprintf(f, v...)
	l.log.Error(msg)
	select {
	case l.fatal <- msg:
	default:
	}
}
