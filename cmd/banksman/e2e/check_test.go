package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// A program's own -check says what banksman config check says of the same settings, and
// ends with the same code.
func TestCheckOfAProgramIsThatOfTheCommandLine(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	r := h.run("creds", "--port", strconv.Itoa(freePort(t)))
	require.Zero(t, r.code, r.stderr)
	for what, creds := range map[string]string{"gateway": "gateway.json", "agent": "owner-agents.json", "notifier": "notifier.json"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			good := "creds: " + h.creds(creds) + "\n"
			if what == "agent" {
				good += "data: " + h.work + "\n"
			}
			for _, c := range []struct {
				text string
				code int
			}{{good, 0}, {good + "status: nonsense\n", 2}, {"creds: /none\n", 2}} {
				file := filepath.Join(t.TempDir(), "settings.yaml")
				require.NoError(t, os.WriteFile(file, []byte(c.text), 0o600))
				said := command(t, h.env, "", "banksman", "config", "check", what, file)
				require.Equal(t, c.code, said.code, said.stderr)
				own := command(t, h.env, "", "banksman-"+what, "-settings", file, "-check")
				require.Equal(t, c.code, own.code, own.stderr)
				require.Equal(t, said.stdout, own.stdout)
			}
		})
	}
}
