package claude

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// LookPath finds the user's own CLI: on the PATH, else where its installers put
// it below the home directory. The error is ErrNotInstalled, and says what to do.
func LookPath() (string, error) {
	if p, err := exec.LookPath("claude"); err == nil {
		return p, nil
	}
	if home, err := os.UserHomeDir(); err == nil {
		for _, rel := range []string{".local/bin/claude", ".claude/local/claude"} {
			if p, err := exec.LookPath(filepath.Join(home, rel)); err == nil {
				return p, nil
			}
		}
	}
	return "", ErrNotInstalled
}

// Resolve checks an executable named by the caller; empty means LookPath.
func Resolve(name string) (string, error) {
	if name == "" {
		return LookPath()
	}
	p, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("%s: %w", name, ErrNotInstalled)
	}
	return p, err
}

// UserEnv is the environment for a real session: the user's own, without what
// would show the agent where the product keeps its credentials, and without the
// mark that makes the CLI think it runs inside itself.
func UserEnv(environ []string) []string {
	var out []string
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		upper := strings.ToUpper(name)
		if strings.HasPrefix(upper, "OTEL_EXPORTER_") && strings.HasSuffix(upper, "HEADERS") { // the secret of a collector
			continue
		}
		if strings.HasPrefix(upper, "BANKSMAN_") || strings.HasPrefix(upper, "NATS_") || upper == "CLAUDECODE" {
			continue
		}
		out = append(out, kv)
	}
	return out
}
