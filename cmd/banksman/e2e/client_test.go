package e2e

import (
	"fmt"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// The TypeScript client as it is built, in Node, over WebSocket and over HTTP
// with server-sent events at once, against the real product, which is killed
// and started again in between.
func TestTypeScriptClientOverBothWays_D0_30_B18_invariant8(t *testing.T) {
	t.Parallel()
	npm(t, "NODE_ENV=production", "build", "--workspace", "@banksman/client")
	h := newHome(t)
	listen := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	in, _, token := h.upWithLogin("--listen", listen)
	var askers []*process
	for i := range 3 {
		askers = append(askers, h.ask("--tool", "Bash", "--input", `{"command":"make deploy"}`, "--title", fmt.Sprintf("Deploy %d", i)))
		h.waiting(i + 1)
	}
	node, err := exec.LookPath("node")
	require.NoError(t, err, "Node is missing: run make setup")
	p := start(t, h.env, node, webDir+"/packages/client/test/real.mjs", in.url, token)
	p.line(`^CUT`)
	in.kill()
	h.up("--listen", listen)
	p.line(`^OK \d+ decisions`)
	require.Zero(t, p.wait(), p.output())
	require.Equal(t, []int{1, 1, 0}, []int{askers[0].wait(), askers[1].wait(), askers[2].wait()})
	require.Empty(t, h.pending())
}
