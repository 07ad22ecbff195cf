package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
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

// connection is the gateway's connection to the bus.
type connection struct {
	*nats.Conn
	closed chan struct{} // closed when the connection is gone for good
}

// connect waits until the connection stands or ctx ends. Nothing is buffered
// while it is away: what could not be sent is sent again by whoever knows
// whether it still should be.
func connect(ctx context.Context, creds *bus.Credentials, more []nats.Option, log *slog.Logger) (*connection, error) {
	auth, err := creds.Auth()
	if err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	c := &connection{closed: make(chan struct{})}
	up := make(chan struct{}, 1)
	opts := slices.Concat(more, []nats.Option{
		auth,
		nats.Name("banksman gateway"),
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
	if c.Conn, err = nats.Connect(strings.Join(creds.URLs, ","), opts...); err != nil {
		return nil, fmt.Errorf("gateway: connect to NATS: %w", err)
	}
	select {
	case <-up:
		return c, nil
	case <-c.closed:
		return nil, fmt.Errorf("gateway: connect to NATS: %w", c.why())
	case <-ctx.Done():
		err := fmt.Errorf("gateway: connect to NATS at %s: %w", strings.Join(creds.URLs, ", "), errors.Join(context.Cause(ctx), c.LastError()))
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

// testLogin writes a session token for tests, and says so loudly.
func (g *Gateway) testLogin(ctx context.Context, path string) error {
	token, sess, err := g.auth.Grant(ctx)
	if err != nil {
		return fmt.Errorf("gateway: test login: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".login-*") // made with mode 0600
	if err != nil {
		return fmt.Errorf("gateway: test login: %w", err)
	}
	_, err = f.WriteString(token + "\n")
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("gateway: test login: %w", errors.Join(err, os.Remove(f.Name())))
	}
	g.log.Warn("TEST LOGIN: whoever reads this file can decide in the name of the owner; never use it in production",
		"file", path, "until", sess.ExpiresAt)
	return nil
}
