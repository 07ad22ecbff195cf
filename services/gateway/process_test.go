package gateway_test

import (
	"fmt"
	"os"

	"github.com/nats-io/nats-server/v2/server"
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
