//go:build unix

package natsd_test

import (
	"bytes"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitltest"
	"github.com/banksman/banksman/pkg/natsd"
)

// childLimit is the largest file, in bytes, that a re-executed test binary can
// write: what a full disk is to one file.
const childLimit = "NATSD_TEST_CHILD_LIMIT"

func limitFiles() {
	n, err := strconv.ParseUint(os.Getenv(childLimit), 10, 63)
	if err != nil {
		return
	}
	signal.Ignore(syscall.SIGXFSZ) // the write fails instead
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: n, Max: n}); err != nil {
		panic(err)
	}
}

func TestAServerThatCannotWriteSaysSo_invariant4(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	owner := n.connect(t, bus.RoleOwner, "t", "pool")
	owner.store(t, "hitl.req.t.pool.id1", "kept")
	select {
	case err := <-n.srv.Broken():
		t.Fatalf("broken: %v", err)
	default:
	}
	n.srv.Shutdown()

	child := hitltest.Again(t, childConfig+"="+natsd.ConfigFile(n.dir), childLimit+"="+strconv.Itoa(1<<20))
	talker := n.connect(t, bus.RoleGateway, "", "")
	body := bytes.Repeat([]byte("x"), 400<<10)
	for range 4 {
		require.NoError(t, talker.Publish("hitl.evt.t.pool.s1", body))
	}
	line, err := child.Out.ReadString('\n')
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(line, "broken: "), line)
	require.Contains(t, line, "HITL_TRANSCRIPTS")
	require.NoError(t, child.Wait())

	// With room again nothing that was acknowledged is missing.
	n.srv = start(t, n.dir)
	owner = n.connect(t, bus.RoleOwner, "t", "pool")
	require.Equal(t, "kept", string(owner.ask(t, getRequest+"t.pool.id1", "").Data))
}
