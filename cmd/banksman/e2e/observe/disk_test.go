package observe

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A disk of its own for the server's store, in a mount that only the doctor's
// process sees: with room the doctor names it and finds nothing, nearly full it says
// so. There is no server here, so its other checks have findings of their own.
func TestDoctorFindsADiskThatIsNearlyFull(t *testing.T) {
	t.Parallel()
	data, store := t.TempDir(), t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(data, "nats"), 0o700))
	plan, err := json.Marshal(map[string]any{"plan": map[string]string{"store_dir": store}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(data, "nats", "plan.json"), plan, 0o600))
	for fill, full := range map[int]bool{0: false, 6: false, 15: true} { // MiB of 16
		args := []string{"--mount", "--propagation", "private"}
		if os.Geteuid() != 0 {
			args = append(args, "--user", "--map-root-user")
		}
		cmd := exec.CommandContext(t.Context(), "unshare", append(args, "--", "sh", "-euc",
			`mount -t tmpfs -o size=16m tmpfs "$1"; head -c "$2" /dev/zero > "$1/fill"; exec "$3" doctor --json --data "$4"`,
			"sh", store, fmt.Sprint(fill<<20), filepath.Join(bin, "banksman"), data)...)
		out, _ := cmd.Output() // the missing server alone makes it fail
		var r struct {
			Findings []finding
			Looks    []struct {
				Check, Seen string
				Skipped     bool
			}
		}
		require.NoError(t, json.Unmarshal(out, &r), "%s", out)
		var disk []finding
		for _, f := range r.Findings {
			if f.Check == "disk" {
				disk = append(disk, f)
			}
		}
		if !full {
			require.Empty(t, disk, "%d MiB of 16", fill)
			seen := false
			for _, l := range r.Looks {
				seen = seen || l.Check == "disk" && !l.Skipped && strings.Contains(l.Seen, store)
			}
			require.True(t, seen, "it was looked at: %s", out)
			continue
		}
		require.Len(t, disk, 1)
		require.Contains(t, disk[0].Problem, store)
		require.Contains(t, disk[0].Problem, "1 MiB left")
		require.True(t, strings.HasPrefix(disk[0].Fix, "make room on it"), disk[0].Fix)
	}
}
