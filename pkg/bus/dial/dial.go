// Package dial makes the connection of a service: one that stands before the
// service starts, comes back by itself, sends nothing late, and tells when it
// is gone for good.
package dial

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
	drainWait     = 3 * time.Second
	reconnectWait = 250 * time.Millisecond
)

// Conn is a service's connection to the bus.
type Conn struct {
	*nats.Conn
	closed chan struct{} // closed by the connection's ClosedHandler
}

// Service waits until the connection of the service called name stands or ctx
// ends. Nothing is buffered while it is away: what could not be sent is sent
// again by whoever knows whether it still should be. The caller ends it with
// Shut.
func Service(ctx context.Context, name string, creds *bus.Credentials, more []nats.Option, log *slog.Logger) (*Conn, error) {
	auth, err := creds.Auth()
	if err != nil {
		return nil, fmt.Errorf("%s: credentials: %w", name, err)
	}
	c := &Conn{closed: make(chan struct{})}
	up := make(chan struct{}, 1)
	opts := slices.Concat(more, []nats.Option{
		auth,
		nats.Name("banksman " + name),
		nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true), nats.ReconnectBufSize(-1),
		nats.ReconnectWait(reconnectWait), nats.PingInterval(20 * time.Second), nats.DrainTimeout(drainWait),
		nats.ConnectHandler(func(*nats.Conn) { up <- struct{}{} }),
		nats.ReconnectHandler(func(*nats.Conn) { log.Info("connected to NATS again") }),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Warn("connection to NATS lost", "error", err)
			}
		}),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			attrs := []any{"error", err}
			if sub != nil {
				attrs = append(attrs, "subject", sub.Subject)
			}
			log.Error("NATS reports an error", attrs...)
		}),
		nats.ClosedHandler(func(*nats.Conn) { close(c.closed) }),
	})
	urls := strings.Join(creds.URLs, ",")
	if c.Conn, err = nats.Connect(urls, opts...); err != nil {
		return nil, fmt.Errorf("%s: connect to NATS: %w", name, err)
	}
	select {
	case <-up:
		return c, nil
	case <-c.closed:
		return nil, fmt.Errorf("%s: connect to NATS: %w", name, c.Why())
	case <-ctx.Done():
		err := fmt.Errorf("%s: connect to NATS at %s: %w", name, urls, errors.Join(context.Cause(ctx), c.LastError()))
		c.Shut()
		return nil, err
	}
}

// Gone is closed when the connection is gone for good.
func (c *Conn) Gone() <-chan struct{} { return c.closed }

// Why is the reason for that.
func (c *Conn) Why() error {
	if err := c.LastError(); err != nil {
		return err
	}
	return nats.ErrConnectionClosed
}

// Shut sends what is written and waits until nothing of the connection runs.
func (c *Conn) Shut() {
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
