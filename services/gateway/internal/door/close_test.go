package door_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/door"
	"github.com/banksman/banksman/services/gateway/internal/door/socket"
)

func TestCloseCodes(t *testing.T) {
	t.Parallel()
	dial := func(h *house) *tab {
		tb, _, err := h.dial()
		require.NoError(h.t, err)
		return tb
	}
	// A page on a slow line comes back by itself.
	t.Run("3003 no auth frame in time", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t, quick(socket.Limits{SignIn: 20 * time.Millisecond}))
		code := dial(h).code()
		require.Equal(t, wire.CloseLate, code)
		require.True(t, wire.Reconnect(code))
	})
	t.Run("3503 another frame first", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		ix := h.fake.ask(bash("s1", "c1"))
		tb := dial(h)
		tb.answer(ix, "r", map[string]any{"decision": "allow"})
		require.Equal(t, wire.CloseNoAuth, tb.code())
		require.True(t, h.fake.pending(ix))
	})
	t.Run("3500 bad token", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		for _, token := range []string{"", "x", strings.Repeat("A", 43)} {
			tb := dial(h)
			tb.send(map[string]string{"type": "auth", "token": token})
			require.Equal(t, wire.CloseBadAuth, tb.code())
		}
	})
	t.Run("3501 no JSON", func(t *testing.T) {
		t.Parallel()
		tb := dial(newHouse(t))
		tb.send(`hello`)
		require.Equal(t, wire.CloseBadFrame, tb.code())
	})
	t.Run("3501 too large before signing in", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		tb := dial(h)
		tb.send(map[string]string{"type": "auth", "token": h.token, "from": strings.Repeat("x", 64<<10)})
		require.Equal(t, wire.CloseBadFrame, tb.code())
	})
	t.Run("3501 too large afterwards", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		tb, _, _ := h.tab("")
		tb.send(map[string]string{"type": "send_message", "ref": "fits", "session_id": "none", "text": strings.Repeat("x", 1<<20)})
		require.Equal(t, hitl.NotFound, tb.receipt("fits").Status)
		_ = tb.conn.Write(t.Context(), websocket.MessageText, []byte(`{"text":"`+strings.Repeat("x", 2<<20)+`"}`))
		require.Equal(t, wire.CloseBadFrame, tb.code())
	})
	t.Run("3502 too many of one person", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		var tabs []*tab
		for range 20 {
			tb, _, _ := h.tab("")
			tabs = append(tabs, tb)
		}
		tb := dial(h)
		tb.send(map[string]string{"type": "auth", "token": h.token})
		require.Equal(t, wire.CloseTooMany, tb.code())
		require.NoError(t, tabs[0].conn.Close(websocket.StatusNormalClosure, ""))
		// A place is free as soon as the server has seen the goodbye.
		require.Eventually(t, func() bool {
			tb := dial(h)
			tb.send(map[string]string{"type": "auth", "token": h.token})
			_, err := tb.frame()
			_ = tb.conn.CloseNow()
			return err == nil
		}, patience, 5*time.Millisecond)
	})
	t.Run("3002 no pong", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t, quick(socket.Limits{Ping: 20 * time.Millisecond, Pong: time.Second}))
		tb, _, _ := h.tab("")
		tb.next(wire.TypePing)
		require.Equal(t, wire.CloseStale, tb.code())
	})
	t.Run("who answers pings stays", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t, quick(socket.Limits{Ping: 10 * time.Millisecond, Pong: patience}))
		tb, _, _ := h.tab("")
		for range 5 {
			var p wire.Ping
			require.NoError(t, json.Unmarshal(tb.next(wire.TypePing), &p))
			require.WithinDuration(t, time.Now(), p.ServerTime, time.Minute)
			tb.send(`{"type":"pong"}`)
		}
	})
	t.Run("3500 the session is ended elsewhere", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		tb, _, _ := h.tab("")
		status, _ := h.post("/api/logout", `{}`)
		require.Equal(t, 200, status)
		require.Equal(t, wire.CloseBadAuth, tb.code())
	})
	t.Run("3500 found by the re-check", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t, quick(socket.Limits{Recheck: 20 * time.Millisecond}), func(o *door.Options) {})
		tb, _, _ := h.tab("")
		sess, err := h.auth.Check(t.Context(), h.token)
		require.NoError(t, err)
		require.NoError(t, h.auth.Revoke(t.Context(), sess.Hash))
		require.Equal(t, wire.CloseBadAuth, tb.code())
	})
	t.Run("3001 the server goes away", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		tb, _, _ := h.tab("")
		waits := dial(h)
		done := make(chan struct{})
		go func() {
			h.stop()
			close(done)
		}()
		require.Equal(t, wire.CloseRestart, tb.code())
		require.Equal(t, wire.CloseRestart, waits.code())
		<-done
	})
	t.Run("a peer that says no goodbye is cut", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		conn, err := net.Dial("tcp", strings.TrimPrefix(h.url, "http://"))
		require.NoError(t, err)
		defer func() { _ = conn.Close() }()
		// A frame that announces 3 MiB and never comes.
		_, err = fmt.Fprintf(conn, "GET /api/ws HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
			"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n", strings.TrimPrefix(h.url, "http://"))
		require.NoError(t, err)
		_, err = conn.Write(append([]byte{0x81, 0x80 | 127, 0, 0, 0, 0, 0, 0x30, 0, 0, 0, 0, 0, 0}, make([]byte, 70<<10)...))
		require.NoError(t, err)
		begin := time.Now()
		h.stop()
		require.Less(t, time.Since(begin), patience)
	})
}

// stalled is a signed-in client whose kernel buffers little: what it does not
// read waits in the server.
func stalled(h *house) *tab {
	h.t.Helper()
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			var d net.Dialer
			c, err := d.DialContext(ctx, network, addr)
			if tcp, ok := c.(*net.TCPConn); ok {
				_ = tcp.SetReadBuffer(4 << 10)
			}
			return c, err
		},
	}}
	tb, _, err := h.dial(func(o *websocket.DialOptions) { o.HTTPClient = client })
	require.NoError(h.t, err)
	tb.send(map[string]string{"type": "auth", "token": h.token})
	tb.next(wire.TypeActiveProcesses)
	return tb
}

func TestSlowReaderIsCutAndOthersGoOn(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	key := h.fake.open("s1")
	slow := stalled(h)
	slow.send(map[string]string{"type": "subscribe", "ref": "s", "session_id": key})
	slow.receipt("s")
	other, hello, _ := h.tab("")
	// 100 events of 8 KiB: far more than the limit and the kernel together hold.
	for i := range 100 {
		h.fake.say(key, fmt.Sprintf("%d %s", i, strings.Repeat("x", 8<<10)))
	}
	for range 100 {
		other.next(wire.TypeProcessState)
	}
	require.Equal(t, wire.CloseSlow, slow.code())
	require.EqualValues(t, 1, h.door.Stats().Slow, "it is counted")
	require.True(t, wire.Reconnect(wire.CloseSlow))
	// It comes back with its cursor and misses nothing.
	again, h2, _ := h.tab(hello.Cursor)
	require.True(t, h2.Recovered)
	for i := range 100 {
		var st wire.ProcessState
		require.NoError(t, json.Unmarshal(again.next(wire.TypeProcessState), &st))
		require.Equal(t, cursorAt(int64(i+1)), st.Cursor)
	}
}

// What nobody reads holds no place for longer than a write may take, and no
// longer than a goodbye may take once it is cut as too slow.
func TestAWriteThatNobodyReadsEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limits socket.Limits
		frames int
	}{
		"one frame, by the limit of a write":   {socket.Limits{Sockets: 1, Write: 50 * time.Millisecond, Ping: time.Hour}, 1},
		"many frames, as one that is too slow": {socket.Limits{Sockets: 1, Write: time.Hour, Ping: time.Hour, Queue: 64 << 10}, 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, quick(c.limits))
			key := h.fake.open("s1")
			slow := stalled(h)
			slow.send(map[string]string{"type": "subscribe", "ref": "s", "session_id": key})
			slow.receipt("s")
			for range c.frames {
				h.fake.delta(key, strings.Repeat("x", 1<<20))
			}
			require.Eventually(t, func() bool {
				tb, _, err := h.dial()
				require.NoError(t, err)
				defer func() { _ = tb.conn.CloseNow() }()
				tb.send(map[string]string{"type": "auth", "token": h.token})
				_, err = tb.frame()
				return err == nil
			}, patience, 20*time.Millisecond, "its place is free")
		})
	}
}

func TestOneLargeEventIsNoReasonToCut(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	key := h.fake.open("s1")
	tb, _, _ := h.tab("")
	tb.send(map[string]string{"type": "subscribe", "ref": "s", "session_id": key})
	tb.receipt("s")
	tb.next(wire.TypeEvent)
	h.fake.delta(key, strings.Repeat("x", 1<<20))
	var f wire.Events
	require.NoError(t, json.Unmarshal(tb.next(wire.TypeEvent), &f))
	require.Greater(t, len(f.Events[0].Data), 1<<20)
}

func TestLargeReplayWaitsForTheReader(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	key := h.fake.open("s1")
	const n = 500
	for i := range n { // 5 MB
		h.fake.say(key, fmt.Sprintf("%d %s", i, strings.Repeat("x", 10_000)))
	}
	tb, _, _ := h.tab("")
	tb.send(map[string]string{"type": "subscribe", "ref": "s", "session_id": key})
	all := tb.events(key, func(_ []wire.Event, f wire.Events) bool { return !f.More })
	require.Len(t, all, n)
}

func TestFastTalkerIsSlowedDownAndLosesNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t, quick(socket.Limits{Rate: 500, Burst: 5}))
	tb, _, _ := h.tab("")
	begin := time.Now()
	for i := range 55 {
		tb.send(fmt.Sprintf(`{"type":"nonsense","ref":"%d"}`, i))
	}
	for i := range 55 {
		require.Equal(t, hitl.BadInput, tb.receipt(fmt.Sprint(i)).Status)
	}
	require.Greater(t, time.Since(begin), 90*time.Millisecond, "50 frames above the burst at 500 a second")
}
