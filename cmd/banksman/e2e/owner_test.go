package e2e

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// An owner that is added while everything runs may ask as soon as the server has
// looked at its accounts again, a second later at most: nothing is restarted.
func TestAnOwnerIsAddedWhileItRuns(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.up()
	r := h.run("creds", "--owner", "ci", "--provision")
	require.Zero(t, r.code, r.stderr)
	ask := func() *process {
		return h.ask("--creds", filepath.Join(h.data, "creds", "owner-ci.json"), "--tool", "Bash", "--input", `{"command":"make"}`)
	}
	p := ask()
	require.Eventually(t, func() bool {
		select {
		case <-p.done:
			require.Contains(t, p.output(), "Authorization Violation") // not yet
			p = ask()
		default:
		}
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
