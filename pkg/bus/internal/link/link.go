package link

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	pingInterval  = 20 * time.Second
	reconnectWait = 500 * time.Millisecond
	// closeWait bounds how long Close waits for withdrawals and for the drain.
	closeWait = 10 * time.Second
	// TryTimeout bounds one try of a request to the server.
	TryTimeout = 5 * time.Second
)

// Options wire a Link.
type Options struct {
	URLs   []string
	Name   string
	Auth   nats.Option
	Logger *slog.Logger
	// More options of the connection. Reconnecting and the handlers stay the
	// link's own.
	More []nats.Option
}

// Link is a connection that outlives its servers. Its methods are safe for
// concurrent use.
type Link struct {
	log *slog.Logger
	nc  *nats.Conn

	// life ends, with its cause, when the link is closed or the connection is
	// gone for good.
	life context.Context
	end  context.CancelCauseFunc

	mu sync.Mutex
	// epoch ends at the next connect and is replaced then.
	epoch     context.Context
	nextEpoch context.CancelFunc
	// denials are the calls to tell when the server forbids a subject.
	denials map[string]map[*context.CancelCauseFunc]struct{}
	// work counts calls and background withdrawals; none begin after closing.
	work    sync.WaitGroup
	closing bool

	closed chan struct{} // closed by the connection's ClosedHandler
}

// Connect makes the connection and waits until it stands or ctx ends; a server
// that is not there yet is waited for. The caller owns the Link and closes it.
func Connect(ctx context.Context, o Options) (*Link, error) {
	c := &Link{
		log:     o.Logger,
		denials: map[string]map[*context.CancelCauseFunc]struct{}{},
		closed:  make(chan struct{}),
	}
	c.life, c.end = context.WithCancelCause(context.Background())
	c.epoch, c.nextEpoch = context.WithCancel(context.Background())
	first := c.Connected()
	opts := slices.Concat([]nats.Option{
		nats.Timeout(5 * time.Second),
		nats.ReconnectWait(reconnectWait),
		nats.ReconnectJitter(reconnectWait, time.Second),
	}, o.More, []nats.Option{
		o.Auth,
		nats.Name(o.Name),
		nats.MaxReconnects(-1),
		nats.RetryOnFailedConnect(true),
		nats.PingInterval(pingInterval),
		nats.DrainTimeout(closeWait),
		// What could not be sent is sent by the call that waits for it or not
		// at all, never later on its own.
		nats.ReconnectBufSize(-1),
		nats.ConnectHandler(func(*nats.Conn) { c.turn() }),
		nats.ReconnectHandler(func(*nats.Conn) {
			c.log.Info("bus connected again")
			c.turn()
		}),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if c.life.Err() == nil {
				c.log.Warn("bus connection lost", "error", err)
			}
		}),
		nats.ClosedHandler(func(nc *nats.Conn) {
			err := ErrClosed
			if last := nc.LastError(); last != nil {
				err = fmt.Errorf("%w: %w", ErrClosed, last)
			}
			c.end(err)
			close(c.closed)
		}),
		nats.ErrorHandler(c.asyncError),
	})
	urls := strings.Join(o.URLs, ",")
	var err error
	if c.nc, err = nats.Connect(urls, opts...); err != nil {
		c.end(ErrClosed)
		return nil, fmt.Errorf("bus: connect: %w", err)
	}
	for {
		select {
		case <-first:
			// The handler runs a moment after the fact.
			if c.nc.IsConnected() {
				return c, nil
			}
			first = c.Connected()
		case <-c.life.Done():
			return nil, fmt.Errorf("bus: connect: %w", context.Cause(c.life))
		case <-ctx.Done():
			last := c.nc.LastError()
			c.Close()
			return nil, fmt.Errorf("bus: connect to %s: %w", urls, errors.Join(context.Cause(ctx), last))
		}
	}
}

// Conn is the connection, for subscriptions and plain publishes.
func (c *Link) Conn() *nats.Conn { return c.nc }

// Done is closed when the link can do nothing any more: after Close, or when
// the connection is gone for good. Err then says why.
func (c *Link) Done() <-chan struct{} { return c.life.Done() }

// Err is nil as long as the link works.
func (c *Link) Err() error { return context.Cause(c.life) }

// Close ends every call with ErrClosed, waits for withdrawals under way and
// drains the connection, all of it bounded. More calls wait for the first.
func (c *Link) Close() {
	c.mu.Lock()
	first := !c.closing
	c.closing = true
	c.mu.Unlock()
	if !first {
		<-c.closed
		return
	}
	c.end(ErrClosed)
	c.work.Wait() // each call's last words are bounded
	if err := c.nc.Drain(); err != nil {
		c.nc.Close()
	}
	select {
	case <-c.closed:
	case <-time.After(closeWait + time.Second):
		c.nc.Close()
		<-c.closed
	}
}

// Begin counts a call in; false after Close. The caller calls End.
func (c *Link) Begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing || c.life.Err() != nil {
		return false
	}
	c.work.Add(1)
	return true
}

// End counts a call out.
func (c *Link) End() { c.work.Done() }

// Later runs fn in the background, for at most d. The caller is a counted call,
// so that Close waits for fn too.
func (c *Link) Later(d time.Duration, fn func(context.Context)) {
	c.work.Add(1)
	go func() {
		defer c.work.Done()
		ctx, cancel := context.WithTimeout(context.Background(), d)
		defer cancel()
		fn(ctx)
	}()
}

// Bound returns ctx as it is for one call: it also ends with the link.
func (c *Link) Bound(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	run, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.life, func() { cancel(context.Cause(c.life)) })
	return run, func(cause error) {
		stop()
		cancel(cause)
	}
}

// current is a context that ends at the next connect.
func (c *Link) current() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.epoch
}

// Connected returns a channel that is closed at the next connect.
func (c *Link) Connected() <-chan struct{} { return c.current().Done() }

func (c *Link) turn() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nextEpoch()
	c.epoch, c.nextEpoch = context.WithCancel(context.Background())
}

// Pause waits for d, or for the connection to come back if it is away.
func (c *Link) Pause(ctx context.Context, d time.Duration) error {
	next := c.Connected()
	timer := time.NewTimer(d)
	defer timer.Stop()
	if c.nc.IsConnected() {
		next = nil
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
	case <-next:
	}
	return nil
}

// denied matches what the server says about a forbidden step.
var denied = regexp.MustCompile(`(?i)permissions violation for (?:publish|subscription)(?: with reply of)? to "([^"]+)"`)

// asyncError hands a refusal to the calls that wait on its subject: on the
// connection itself a forbidden publish is indistinguishable from silence.
func (c *Link) asyncError(_ *nats.Conn, _ *nats.Subscription, err error) {
	if m := denied.FindStringSubmatch(err.Error()); m != nil {
		c.mu.Lock()
		calls := slices.Collect(maps.Keys(c.denials[m[1]]))
		c.mu.Unlock()
		for _, cancel := range calls {
			(*cancel)(fmt.Errorf("%w: %s", ErrForbidden, m[1]))
		}
		if len(calls) > 0 {
			return
		}
	}
	if errors.Is(err, nats.ErrSlowConsumer) {
		c.log.Warn("bus subscription is slow; missed messages are read back", "error", err)
		return
	}
	c.log.Error("bus error", "error", err)
}

// WatchDenial returns ctx as it is for a step on subj: it ends with
// ErrForbidden when the server refuses the step.
func (c *Link) WatchDenial(ctx context.Context, subj string) (context.Context, func()) {
	run, cancel := context.WithCancelCause(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.denials[subj] == nil {
		c.denials[subj] = map[*context.CancelCauseFunc]struct{}{}
	}
	c.denials[subj][&cancel] = struct{}{}
	return run, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.denials[subj], &cancel)
		if len(c.denials[subj]) == 0 {
			delete(c.denials, subj)
		}
		cancel(nil)
	}
}
