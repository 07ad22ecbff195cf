package observe

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// bin holds the programs under test, built once. root is the tree.
var bin, root string

func TestMain(m *testing.M) { os.Exit(runAll(m)) }

func runAll(m *testing.M) int {
	var err error
	if root, err = filepath.Abs("../../../.."); err == nil {
		bin, err = os.MkdirTemp("", "banksman-observe-")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(bin)
	out, err := exec.Command("go", "build", "-o", bin+"/",
		"github.com/banksman/banksman/cmd/banksman",
		"github.com/banksman/banksman/services/agent/cmd/banksman-agent",
		"github.com/banksman/banksman/services/gateway/cmd/banksman-gateway",
		"github.com/banksman/banksman/services/notifier/cmd/banksman-notifier",
		"github.com/nats-io/nats-server/v2").CombinedOutput()
	if err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
		return 1
	}
	// A worker of another version.
	out, err = exec.Command("go", "build", "-ldflags", "-X github.com/banksman/banksman/pkg/metrics.Stamp=v0.1.0",
		"-o", filepath.Join(bin, "old-agent"), "github.com/banksman/banksman/services/agent/cmd/banksman-agent").CombinedOutput()
	if err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}
