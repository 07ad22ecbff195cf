package herd

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The clients must see what a server loses or says twice.
func TestWhatIsLostOrDoubledIsCounted(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	conns := make(chan net.Conn, 3)
	go func() {
		for range 3 {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns <- c
		}
	}()
	var h Herd
	defer h.Close()
	do := func(ctx context.Context, j Job) Word {
		w, err := h.Do(ctx, j)
		require.NoError(t, err)
		return w
	}
	do(t.Context(), Job{Op: "open", Addr: l.Addr().String(), Raw: true, Tokens: make([]string, 3)})
	do(t.Context(), Job{Op: "arm", Tag: "e1", Count: 1})
	say := func(c net.Conn, text string) {
		_, err := c.Write(append(Header(len(text)), text...))
		require.NoError(t, err)
	}
	one := Mark("e1") + "1000000000000000000"
	a, b, c := <-conns, <-conns, <-conns
	say(a, one)
	say(b, one+strings.Repeat(" ", 70_000))
	say(b, one)
	say(b, Mark("e0")+"1000000000000000000") // of an earlier time
	// The third is told nothing. What was said is read before the ends are.
	for _, c := range []net.Conn{a, b, c} {
		require.NoError(t, c.Close())
	}
	h.wg.Wait()
	ended, end := context.WithCancel(t.Context())
	end()
	w := do(ended, Job{Op: "wait"})
	require.Equal(t, 1, w.Missing)
	require.Equal(t, 1, w.Doubled)
	require.Len(t, w.Samples, 2)
	require.Equal(t, 3, w.Writes)
}
