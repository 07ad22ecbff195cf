// Package front runs a gateway in the process of a measurement.
package front

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/natsd"
	"github.com/banksman/banksman/services/gateway"
)

// Serve runs a gateway with the credentials of a data directory on a port of its
// own, and calls work once it is ready, with the token of a session that may
// decide. The gateway ends when work returns, not with ctx.
func Serve(ctx context.Context, dir string, o gateway.Options, work func(g *gateway.Gateway, token string) error) (err error) {
	if o.Credentials, err = bus.LoadCredentials(natsd.CredentialsFile(dir, bus.RoleGateway, bus.DefaultTenant, "")); err != nil {
		return err
	}
	o.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	o.Addr, o.TestLogin = "127.0.0.1:0", filepath.Join(dir, "session")
	g, err := gateway.New(ctx, o)
	if err != nil {
		return err
	}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- g.Run(run) }()
	defer func() {
		stop()
		err = errors.Join(err, <-done)
	}()
	select {
	case <-g.Ready():
	case err := <-done:
		done <- nil
		return fmt.Errorf("the gateway ended: %w", err)
	case <-ctx.Done():
		return ctx.Err()
	}
	token, err := os.ReadFile(o.TestLogin)
	if err != nil {
		return err
	}
	return work(g, strings.TrimSpace(string(token)))
}
