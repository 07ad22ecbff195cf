package notifier

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/banksman/banksman/pkg/bus"
)

const (
	drainWait     = 2 * time.Second
	reconnectWait = 250 * time.Millisecond
)

// connection is the notifier's connection to the bus.
type connection struct {
	*nats.Conn
	closed chan struct{} // closed when the connection is gone for good
}

// connect waits until the connection stands or ctx ends. Nothing is buffered
// while it is away: a write that was given up must not happen later.
func connect(ctx context.Context, creds *bus.Credentials, more []nats.Option, log *slog.Logger) (*connection, error) {
	auth, err := creds.Auth()
	if err != nil {
		return nil, fmt.Errorf("notifier: Credentials: %w", err)
	}
	c := &connection{closed: make(chan struct{})}
	up := make(chan struct{}, 1)
	opts := slices.Concat(more, []nats.Option{
		auth, nats.Name("banksman notifier"),
		nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true), nats.ReconnectBufSize(-1),
		nats.ReconnectWait(reconnectWait), nats.PingInterval(20 * time.Second), nats.DrainTimeout(drainWait),
		nats.ConnectHandler(func(*nats.Conn) { up <- struct{}{} }),
		nats.ReconnectHandler(func(*nats.Conn) { log.Info("connected to NATS again") }),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Warn("connection to NATS lost", "error", err)
			}
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			log.Error("NATS reports an error", "error", err)
		}),
		nats.ClosedHandler(func(*nats.Conn) { close(c.closed) }),
	})
	if c.Conn, err = nats.Connect(strings.Join(creds.URLs, ","), opts...); err != nil {
		return nil, fmt.Errorf("notifier: connect to NATS: %w", err)
	}
	select {
	case <-up:
		return c, nil
	case <-c.closed:
		return nil, fmt.Errorf("notifier: connect to NATS: %w", c.why())
	case <-ctx.Done():
		err := fmt.Errorf("notifier: connect to NATS at %s: %w", strings.Join(creds.URLs, ", "), errors.Join(context.Cause(ctx), c.LastError()))
		c.close()
		return nil, err
	}
}

func (c *connection) why() error {
	if err := c.LastError(); err != nil {
		return err
	}
	return nats.ErrConnectionClosed
}

// close sends what is written and waits until nothing of the connection runs.
func (c *connection) close() {
	if c.Drain() != nil {
		c.Close()
	}
	select {
	case <-c.closed:
	case <-time.After(drainWait + time.Second):
		c.Close()
		<-c.closed
	}
}
