package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// bin holds the binaries under test, built once from this tree.
var bin string

func TestMain(m *testing.M) { os.Exit(runAll(m)) }

func runAll(m *testing.M) int {
	dir, err := os.MkdirTemp("", "banksman-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	bin = dir
	for name, pkg := range map[string]string{
		"banksman":          "github.com/banksman/banksman/cmd/banksman",
		"banksman-agent":    "github.com/banksman/banksman/services/agent/cmd/banksman-agent",
		"banksman-gateway":  "github.com/banksman/banksman/services/gateway/cmd/banksman-gateway",
		"banksman-notifier": "github.com/banksman/banksman/services/notifier/cmd/banksman-notifier",
		"nats-server":       "github.com/nats-io/nats-server/v2",
	} {
		out, err := exec.Command("go", "build", "-o", filepath.Join(dir, name), pkg).CombinedOutput()
		if err != nil {
			fmt.Fprintf(os.Stderr, "build %s: %v\n%s", name, err, out)
			return 1
		}
	}
	return m.Run()
}
