package socket

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// linked is a socket that is signed in, and the peer's end of its connection.
func linked(t *testing.T, h *Hub, wrap func(net.Conn) net.Conn) (*socket, net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	peer, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = peer.Close() })
	raw, err := l.Accept()
	require.NoError(t, err)
	raw = wrap(raw)
	t.Cleanup(func() { _ = raw.Close() })
	return &socket{h: h, raw: raw, kernel: kernelOf(raw), cancel: func() {}}, peer
}

func writersOf(most int) *Hub {
	h := &Hub{}
	h.o.Limits = Limits{Queue: 1 << 30}.WithDefaults()
	h.writers = writers{wg: &h.wg, most: most}
	return h
}

const (
	textFrame = 0x81
	pongFrame = 0x8a
)

// nextFrame reads one unmasked frame.
func nextFrame(t *testing.T, r io.Reader) (first byte, text []byte) {
	t.Helper()
	var head [2]byte
	_, err := io.ReadFull(r, head[:])
	require.NoError(t, err)
	n := int(head[1])
	if more := map[int]int{126: 2, 127: 8}[n]; more > 0 {
		size := make([]byte, more)
		_, err := io.ReadFull(r, size)
		require.NoError(t, err)
		n = 0
		for _, b := range size {
			n = n<<8 | int(b)
		}
	}
	require.Less(t, n, 64<<20, "a header")
	text = make([]byte, n)
	_, err = io.ReadFull(r, text)
	require.NoError(t, err)
	return head[0], text
}

// With one writer for all, a reader that takes nothing holds up nobody, and what
// is said to it arrives whole and in order once it reads; an answer of the
// WebSocket library to a ping, in the middle of it, stands between two messages.
func TestAFullBufferHoldsUpNobodyAndBreaksNoMessage(t *testing.T) {
	t.Parallel()
	for name, wrap := range map[string]func(net.Conn) net.Conn{
		"a connection of the kernel":    func(c net.Conn) net.Conn { return c },
		"a connection of somebody else": func(c net.Conn) net.Conn { return struct{ net.Conn }{c} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := writersOf(1)
			slow, slowPeer := linked(t, h, wrap)
			fast, fastPeer := linked(t, h, wrap)
			const frames, size = 64, 256 << 10 // more than the kernel's buffers take
			say := func(i int) []byte {
				return fmt.Appendf(nil, `"%02d%s"`, i, bytes.Repeat([]byte{'a' + byte(i%26)}, size))
			}
			for i := range frames {
				slow.push(say(i))
			}
			require.NoError(t, fastPeer.SetReadDeadline(time.Now().Add(time.Minute)))
			for i := range 3 {
				fast.push(fmt.Appendf(nil, "%d", i))
				first, text := nextFrame(t, fastPeer)
				require.Equal(t, byte(textFrame), first)
				require.Equal(t, fmt.Sprint(i), string(text))
			}
			slow.mu.Lock()
			require.NotEmpty(t, slow.queue, "it was full all the time")
			slow.mu.Unlock()
			var pong sync.WaitGroup
			pong.Go(func() { _, _ = slow.raw.Write([]byte{pongFrame, 0}) }) // waits for the message under way
			require.NoError(t, slowPeer.SetReadDeadline(time.Now().Add(time.Minute)))
			in, got, pongs := bufio.NewReader(slowPeer), 0, 0
			for got < frames || pongs == 0 {
				first, text := nextFrame(t, in)
				if first == pongFrame {
					pongs++
					continue
				}
				require.Equal(t, byte(textFrame), first)
				require.True(t, bytes.Equal(say(got), text), "message %d", got)
				got++
			}
			pong.Wait()
			h.wg.Wait()
			require.Zero(t, h.writers.busy)
			require.False(t, slow.writing || fast.writing || slow.ended)
			require.Zero(t, slow.owed)
		})
	}
}

// What is told to many by few writers reaches each of them whole, once and in order.
func TestFewWritersTellManyEverythingInOrder(t *testing.T) {
	t.Parallel()
	h := writersOf(2)
	const sockets, events = 100, 200
	var all []*socket
	var readers sync.WaitGroup
	got := make([][]int, sockets)
	for i := range sockets {
		s, peer := linked(t, h, func(c net.Conn) net.Conn { return c })
		all = append(all, s)
		require.NoError(t, peer.SetReadDeadline(time.Now().Add(time.Minute)))
		readers.Go(func() {
			for len(got[i]) < events {
				_, text := nextFrame(t, peer)
				if text[0] != '[' {
					text = fmt.Appendf(nil, "[%s]", text)
				}
				var some []int
				if json.Unmarshal(text, &some) != nil {
					return
				}
				got[i] = append(got[i], some...)
			}
		})
	}
	h.wg.Add(1) // as the engine's caller is counted
	var want []int
	for e := range events {
		want = append(want, e)
		for _, s := range all {
			s.push(fmt.Append(nil, e))
		}
		h.writers.mu.Lock()
		require.LessOrEqual(t, h.writers.busy, 2)
		h.writers.mu.Unlock()
	}
	h.wg.Done()
	readers.Wait()
	for i := range got {
		require.Equal(t, want, got[i])
	}
	h.wg.Wait()
	require.Zero(t, h.writers.busy)
	require.Empty(t, h.writers.ready)
}
