package pushes

import (
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/services/gateway/internal/auth"
)

// Where it cannot be read any more what was signed out, no button counts that was told
// before.
func TestNoButtonCountsWhereWhatWasSignedOutCannotBeRead(t *testing.T) {
	t.Parallel()
	srv, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, JetStreamMaxStore: 64 << 30, StoreDir: t.TempDir(), NoSigs: true, NoLog: true, MaxPayload: 8 << 20})
	require.NoError(t, err)
	srv.Start()
	require.True(t, srv.ReadyForConnections(20*time.Second))
	nc, err := nats.Connect(srv.ClientURL())
	require.NoError(t, err)
	t.Cleanup(func() {
		nc.Close()
		srv.Shutdown()
		srv.WaitForShutdown()
	})
	require.NoError(t, journal.Provision(t.Context(), nc, journal.Config{}))
	logger := slog.New(slog.DiscardHandler)
	people, err := auth.Open(t.Context(), auth.Options{Conn: nc, Logger: logger, Person: hitl.Principal{Kind: "person", ID: "owner"}})
	require.NoError(t, err)
	s, err := Open(t.Context(), Options{Conn: nc, Auth: people, Logger: logger, PublicKey: "key"})
	require.NoError(t, err)
	told := time.Now().Add(-time.Minute)
	counts, err := s.Counts(t.Context(), "ada", told)
	require.NoError(t, err)
	require.True(t, counts, "nobody was signed out")
	for _, raw := range []string{`{"v":2,"browsers":[]}`, `{`, ``, `{"v":1,"since":"2126-01-01T00:00:00Z","Since":"0001-01-01T00:00:00Z"}`} {
		_, err := s.kv.PutString(t.Context(), "ada", raw)
		require.NoError(t, err)
		counts, err := s.Counts(t.Context(), "ada", told)
		require.NoError(t, err)
		require.False(t, counts, "%q", raw)
	}
}
