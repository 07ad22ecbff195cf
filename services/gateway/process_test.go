package gateway_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"
)

// serverConfig names the configuration that this binary, started once more, serves.
const serverConfig = "GATEWAY_TEST_SERVER_CONFIG"

// serveAsProcess is nats-server with the product's configuration and nothing of the
// product around it. It ends by being killed.
func serveAsProcess() bool {
	config := os.Getenv(serverConfig)
	if config == "" {
		return false
	}
	opts, err := server.ProcessConfigFile(config)
	if err == nil {
		var srv *server.Server
		if srv, err = server.NewServer(opts); err == nil {
			srv.Start()
			if srv.ReadyForConnections(patience) {
				fmt.Println("ready")
				srv.WaitForShutdown()
				return true
			}
		}
	}
	fmt.Println("not ready:", err)
	return true
}

// startProcess serves a configuration by a process of its own until the test ends.
func startProcess(t *testing.T, config string) {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	child := exec.Command(exe)
	child.Env = append(os.Environ(), serverConfig+"="+config)
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	t.Cleanup(func() {
		_ = child.Process.Kill()
		_ = child.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ready\n", line)
}
