package modelapi

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// ErrNoCLI means that the pinned Claude Code is not installed.
var ErrNoCLI = errors.New("the pinned Claude Code CLI is not installed: run `make setup` (npm ci in tools/claude)")

// FindCLI returns the Claude Code executable pinned by tools/claude, looking
// upwards from the working directory. The native binary of the platform package
// goes first: it is there even when npm was told to run no install scripts.
func FindCLI() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	arch := map[string]string{"amd64": "x64"}[runtime.GOARCH]
	if arch == "" {
		arch = runtime.GOARCH
	}
	for {
		mods := filepath.Join(dir, "tools", "claude", "node_modules")
		for _, p := range []string{
			filepath.Join(mods, "@anthropic-ai", "claude-code-"+runtime.GOOS+"-"+arch, "claude"),
			filepath.Join(mods, ".bin", "claude"),
		} {
			if st, err := os.Stat(p); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
				return p, nil
			}
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", fmt.Errorf("%w (looked for tools/claude/node_modules above the working directory)", ErrNoCLI)
		}
		dir = up
	}
}

// RequireCLI is FindCLI for tests: without the CLI the test fails, it is never
// skipped.
func RequireCLI(t TB) string {
	t.Helper()
	p, err := FindCLI()
	if err != nil {
		t.Fatalf("%v", err)
	}
	return p
}
