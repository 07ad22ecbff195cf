// Package peer carries the durable round trip of an ask and its answer over
// what people would otherwise build it on: Redis and PostgreSQL, as Debian
// packages them. It starts their servers as processes of its own on loopback.
//
// The round trip is the least that each can do it with. Redis: RPUSH and BLPOP
// there and back. PostgreSQL: a row and NOTIFY there, a conditional update and
// NOTIFY back. Neither signs, checks who may decide, or keeps what was asked
// with what was answered.
package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Kind is whose server it is.
type Kind string

// The kinds.
const (
	Redis    Kind = "redis"
	Postgres Kind = "postgres"
)

const (
	startLimit = 60 * time.Second
	stopLimit  = 20 * time.Second
	workers    = 64 // requests a decider works on at once, as many as a gateway
)

// Server is a running peer.
type Server struct {
	Kind    Kind
	Version string
	url     string
	cmd     *exec.Cmd
	done    chan error // gets the process's end, once
	log     *os.File
}

// Start runs the server of a kind below dir, which must not exist yet and be
// reachable for other users: PostgreSQL does not run as root.
func Start(ctx context.Context, kind Kind, dir string) (*Server, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	s := &Server{Kind: kind, done: make(chan error, 1)}
	if kind == Redis {
		err = s.redis(dir, port)
	} else {
		err = s.postgres(ctx, dir, port)
	}
	if err == nil {
		err = s.run(filepath.Join(dir, "server.log"))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := s.ready(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w", kind, errors.Join(err, s.Stop(), tail(s.log.Name())))
	}
	return s, nil
}

func (s *Server) run(log string) (err error) {
	if s.log, err = os.Create(log); err != nil {
		return err
	}
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	if err := s.cmd.Start(); err != nil {
		return errors.Join(err, s.log.Close())
	}
	go func() { s.done <- s.cmd.Wait() }()
	return nil
}

// ready waits until the server answers, and makes what the round trip needs.
func (s *Server) ready(ctx context.Context) error {
	for {
		err := s.prepare(ctx)
		if err == nil {
			return nil
		}
		select {
		case end := <-s.done:
			s.done <- end
			return fmt.Errorf("it ended: %w", errors.Join(end, err))
		case <-ctx.Done():
			return fmt.Errorf("it does not answer: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Stop ends the server and waits for it.
func (s *Server) Stop() error {
	word := os.Interrupt // PostgreSQL: close connections, write, end
	if s.Kind == Redis {
		word = syscall.SIGTERM
	}
	_ = s.cmd.Process.Signal(word) // fails if it has ended
	late := time.AfterFunc(stopLimit, func() { _ = s.cmd.Process.Kill() })
	defer late.Stop()
	err := <-s.done
	if err != nil {
		err = fmt.Errorf("%s: %w", s.Kind, err)
	}
	return errors.Join(err, s.log.Close())
}

// Asker asks. Its methods are safe for concurrent use.
type Asker interface {
	// Ask stores body under id and waits for the decision.
	Ask(ctx context.Context, id string, body []byte) (decision []byte, err error)
	Close() error
}

// Closer ends something.
type Closer interface{ Close() error }

// Connect connects an asker that waits for so many answers at once. durable
// is whether the server flushes before it acknowledges; otherwise it does soon
// after. It holds for who decides, too.
func (s *Server) Connect(ctx context.Context, durable bool, inFlight int) (Asker, error) {
	if s.Kind == Redis {
		return s.askRedis(ctx, durable, inFlight)
	}
	return s.askPostgres(ctx, durable, inFlight)
}

// URL is the address for who decides.
func (s *Server) URL(durable bool) string {
	if s.Kind == Postgres {
		return s.url + "&synchronous_commit=" + onOff(durable)
	}
	return s.url
}

// Decide answers what is asked until it is closed.
func Decide(ctx context.Context, kind Kind, url string) (Closer, error) {
	if kind == Redis {
		return decideRedis(ctx, url)
	}
	return decidePostgres(ctx, url)
}

// Decision is what is answered: 120 bytes that name the ask.
func Decision(id string) []byte {
	b := make([]byte, 120)
	for i := range b {
		b[i] = ' '
	}
	copy(b, `{"outcome":"allowed","interaction_id":"`+id+`"}`)
	return b
}

// crew is goroutines that work until they are stopped.
type crew struct {
	stop  context.CancelFunc
	wg    sync.WaitGroup
	close func() error
	mu    sync.Mutex
	errs  []error
}

func (c *crew) failed(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.errs) < 3 {
		c.errs = append(c.errs, err)
	}
}

// Close implements Closer; the error is why somebody stopped working.
func (c *crew) Close() error {
	c.stop()
	c.wg.Wait()
	return errors.Join(append(c.errs, c.close())...)
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// program is the path of a program in PATH or in one of the directories, of
// several the last one; empty if there is none.
func program(name string, dirs ...string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	found := ""
	for _, pattern := range dirs {
		paths, _ := filepath.Glob(filepath.Join(pattern, name)) // the patterns are ours
		for _, path := range paths {
			if version(path) >= version(found) {
				found = path
			}
		}
	}
	return found
}

// version is the number in /usr/lib/postgresql/15/bin/postgres.
func version(path string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path)))) // none: 0
	return n
}

// tail is the end of a log as an error.
func tail(file string) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return errors.New("its last words: " + strings.TrimSpace(string(raw[max(0, len(raw)-1000):])))
}
