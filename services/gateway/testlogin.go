package gateway

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

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
