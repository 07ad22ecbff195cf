package peer

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Install installs Debian's packages of what is missing. say tells what is
// being done.
func Install(ctx context.Context, say func(string)) error {
	var missing []string
	if redisServer() == "" {
		missing = append(missing, "redis-server")
	}
	if postgresProgram("postgres") == "" || postgresProgram("initdb") == "" {
		missing = append(missing, "postgresql")
	}
	if len(missing) == 0 {
		return nil
	}
	return install(ctx, missing, say)
}

func install(ctx context.Context, missing []string, say func(string)) error {
	names := strings.Join(missing, " ")
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("missing: %s (named as in Debian); there is no apt-get here, so install them by hand or leave the peers out with --peers=false", names)
	}
	say("installing " + names + " (apt-get; --peers=false leaves the peers out)")
	for _, args := range [][]string{{"update", "-q"}, append([]string{"install", "-q", "-y", "--no-install-recommends"}, missing...)} {
		args = append([]string{"apt-get"}, args...)
		if os.Geteuid() != 0 {
			args = append([]string{"sudo", "-n"}, args...)
		}
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			out = out[max(0, len(out)-1000):]
			return fmt.Errorf("missing: %s; %s: %w: %s\ninstall them by hand or leave the peers out with --peers=false", names, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
		}
	}
	return nil
}
