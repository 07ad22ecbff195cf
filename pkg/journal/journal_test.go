package journal_test

import (
	"context"
	"crypto/ed25519"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitltest"
	"github.com/banksman/banksman/pkg/journal"
)

// node is a server with file storage that can be stopped and started again.
type node struct {
	dir  string
	port int
	srv  *server.Server
	// buffered is how many messages a stream takes in before it has stored them; 0: the
	// server's default. Then each of them is flushed, too.
	buffered int
}

func newNode(t testing.TB) *node {
	t.Helper()
	b := &node{dir: t.TempDir(), port: -1}
	b.start(t)
	t.Cleanup(b.stop)
	return b
}

func (b *node) start(t testing.TB) {
	t.Helper()
	srv, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: b.port, StoreDir: b.dir, JetStream: true, JetStreamMaxStore: 64 << 30,
		NoSigs: true, NoLog: true, MaxPayload: 8 << 20,
		StreamMaxBufferedMsgs: b.buffered, SyncAlways: b.buffered > 0,
	})
	require.NoError(t, err)
	srv.Start()
	require.True(t, srv.ReadyForConnections(20*time.Second))
	b.srv = srv
	_, port, err := net.SplitHostPort(srv.Addr().String())
	require.NoError(t, err)
	b.port, err = strconv.Atoi(port)
	require.NoError(t, err)
}

func (b *node) stop() {
	b.srv.Shutdown()
	b.srv.WaitForShutdown()
}

// connect makes a connection as gateways do.
func (b *node) connect(t testing.TB) *nats.Conn {
	t.Helper()
	closed := make(chan struct{}) // closed by the connection's handler
	nc, err := nats.Connect(b.srv.ClientURL(), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond),
		nats.ReconnectBufSize(-1), nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
	require.NoError(t, err)
	t.Cleanup(func() {
		nc.Close()
		<-closed
	})
	return nc
}

// small keeps a test's streams small.
var small = journal.Config{Pools: []journal.Pool{{Tenant: "t", Pool: "p"}}}

func newKey(t testing.TB) journal.Signer {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	return journal.NewSigner(key)
}

func provisioned(t testing.TB) (*node, *nats.Conn) {
	t.Helper()
	b := newNode(t)
	nc := b.connect(t)
	require.NoError(t, journal.Provision(t.Context(), nc, small))
	return b, nc
}

func publish(t testing.TB, nc *nats.Conn, subj string, header map[string][]string, data []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	m, err := nc.RequestMsgWithContext(ctx, &nats.Msg{Subject: subj, Header: header, Data: data})
	require.NoError(t, err)
	require.NotContains(t, string(m.Data), `"error"`)
}

func TestJetStream(t *testing.T) {
	t.Parallel()
	hitltest.JournalSuite(t, func(t testing.TB) hitltest.Env {
		b, nc := provisioned(t)
		signer := newKey(t)
		restart := true
		return hitltest.Env{
			Journal: journal.New(nc, journal.Options{Signer: signer}),
			Another: journal.New(b.connect(t), journal.Options{Signer: signer}),
			Publish: func(t testing.TB, subj string, header map[string][]string, data []byte) {
				t.Helper()
				publish(t, nc, subj, header, data)
			},
			// By turns: the server restarts, the connection is cut.
			Interrupt: func(t testing.TB) {
				t.Helper()
				if restart = !restart; !restart {
					b.stop()
					b.start(t)
					return
				}
				require.NoError(t, nc.ForceReconnect())
			},
		}
	})
}
