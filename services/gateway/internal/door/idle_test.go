package door_test

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const tick = 5 * time.Millisecond

// The count is of the sockets' own goroutines, so other tests do not disturb
// it; but it must not run beside tests that open sockets, so it is not parallel.
func TestIdleSocketCostsOneGoroutine(t *testing.T) {
	h := newHouse(t)
	const n = 20
	for range n {
		h.tab("")
	}
	count := func(name string) int {
		buf := make([]byte, 8<<20)
		return strings.Count(string(buf[:runtime.Stack(buf, true)]), name+"(")
	}
	require.Eventually(t, func() bool {
		return count("socket.(*socket).write")+count("socket.(*socket).serve") == 0
	}, patience, tick)
	require.Equal(t, n, count("socket.(*socket).loop"))
	require.Eventually(t, func() bool { return count("net/http.(*conn).serve") == 0 }, patience, tick,
		"the server's own goroutine has returned")
}
