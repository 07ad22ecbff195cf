package gateway

import (
	"context"
	"errors"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/door/act"
)

// workerPoll is how often StartDemo looks for a worker.
const workerPoll = 50 * time.Millisecond

// StartDemo asks for the demo session and returns its key. It waits until a
// worker is there, or ctx ends. Run must be running.
func (g *Gateway) StartDemo(ctx context.Context) (string, error) {
	for {
		key, err := g.engine.Start(ctx, &hitl.Start{
			Tenant: g.door.Tenant, Pool: g.door.Pool, Runtime: act.DemoRuntime, Cwd: g.door.DefaultCwd,
			StartedBy: hitl.Principal{Kind: "system", ID: "gateway"},
		})
		if !errors.Is(err, api.ErrNoWorker) {
			return key, err
		}
		select {
		case <-ctx.Done():
			return "", err
		case <-time.After(workerPoll):
		}
	}
}
