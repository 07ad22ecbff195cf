package socket

import (
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/auth"
)

// heldLine is a connection to the store on which nothing leaves while it is held.
type heldLine struct {
	net.Conn
	mu   sync.Mutex
	hold bool
	free chan struct{} // closed when it may leave
}

func (l *heldLine) Write(p []byte) (int, error) {
	l.mu.Lock()
	hold := l.hold
	l.mu.Unlock()
	if hold {
		<-l.free
	}
	return l.Conn.Write(p)
}

func (l *heldLine) Dial(network, address string) (net.Conn, error) {
	c, err := net.Dial(network, address)
	l.Conn = c
	return l, err
}

// The time to sign in is the client's: a token that came in time and is still being
// checked is judged, however long the store takes (invariant6).
func TestATokenThatCameInTimeIsJudgedAlsoOnASlowStore(t *testing.T) {
	t.Parallel()
	srv, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, JetStreamMaxStore: 64 << 30, StoreDir: t.TempDir(), NoSigs: true, NoLog: true, MaxPayload: 8 << 20})
	require.NoError(t, err)
	srv.Start()
	require.True(t, srv.ReadyForConnections(time.Minute))
	t.Cleanup(func() {
		srv.Shutdown()
		srv.WaitForShutdown()
	})
	line := &heldLine{free: make(chan struct{})}
	nc, err := nats.Connect(srv.ClientURL(), nats.SetCustomDialer(line))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	require.NoError(t, journal.Provision(t.Context(), nc, journal.Config{}))
	store, err := auth.Open(t.Context(), auth.Options{Conn: nc, Logger: slog.New(slog.DiscardHandler), Person: hitl.Principal{Kind: "person", ID: "owner", Name: "Ada"}})
	require.NoError(t, err)

	h := NewHub(Options{Auth: store, Logger: slog.New(slog.DiscardHandler), Limits: Limits{SignIn: time.Minute}.WithDefaults()})
	web := httptest.NewServer(http.HandlerFunc(h.Accept))
	t.Cleanup(web.Close)
	t.Cleanup(h.shutdown)
	dial := func() *websocket.Conn {
		conn, _, err := websocket.Dial(t.Context(), strings.Replace(web.URL, "http", "ws", 1), nil)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.CloseNow() })
		return conn
	}
	code := func(conn *websocket.Conn) int {
		_, _, err := conn.Read(t.Context())
		return int(websocket.CloseStatus(err))
	}
	silent, signs := dial(), dial()
	counted := func(which func(*socket) bool) (n int) {
		for _, s := range h.all() {
			s.mu.Lock()
			if which(s) {
				n++
			}
			s.mu.Unlock()
		}
		return n
	}
	require.Eventually(t, func() bool { return counted(func(*socket) bool { return true }) == 2 }, time.Minute, time.Millisecond)
	line.mu.Lock()
	line.hold = true
	line.mu.Unlock()
	require.NoError(t, signs.Write(t.Context(), websocket.MessageText, []byte(`{"type":"auth","token":"`+strings.Repeat("A", 43)+`"}`)))
	require.Eventually(t, func() bool { return counted(func(s *socket) bool { return s.asked }) == 1 }, time.Minute, time.Millisecond)
	for _, s := range h.all() {
		s.pulse(time.Now().Add(2*time.Minute), nil)
	}
	require.Equal(t, wire.CloseLate, code(silent), "who says nothing is late")
	close(line.free)
	require.Equal(t, wire.CloseBadAuth, code(signs))
}
