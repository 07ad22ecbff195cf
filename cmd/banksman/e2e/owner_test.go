package e2e

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// An owner that is added while everything runs asks at once: nothing is started
// again.
func TestAnOwnerIsAddedWhileItRuns(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.up()
	r := h.run("creds", "--owner", "ci", "--provision")
	require.Zero(t, r.code, r.stderr)
	p := h.ask("--creds", filepath.Join(h.data, "creds", "owner-ci.json"), "--tool", "Bash", "--input", `{"command":"make"}`)
	require.Eventually(t, func() bool {
		for _, ix := range h.pending() {
			if ix.Owner == "ci" {
				return true
			}
		}
		return false
	}, patience, 50*time.Millisecond)
	p.interrupt()
	require.NotZero(t, p.wait())
}
