package pushes

import (
	"context"
	"crypto/rand"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/auth"
	"github.com/banksman/banksman/services/gateway/internal/ticket"
)

// newStore is on a server of its own.
func newStore(t *testing.T, clock func() time.Time) (*auth.Store, *Store) {
	t.Helper()
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
	s, err := Open(t.Context(), Options{Conn: nc, Auth: people, Logger: logger, PublicKey: "key", Clock: clock})
	require.NoError(t, err)
	return people, s
}

// What was given up by a push service is remembered while a button of it may count, and
// not longer; a sign-out that was not written down here is found there, too.
func TestWhatAPushServiceGaveUpIsRememberedForAWhile(t *testing.T) {
	t.Parallel()
	var ahead time.Duration
	people, s := newStore(t, func() time.Time { return time.Now().Add(ahead) })
	owner := hitl.Principal{Kind: "person", ID: "owner"}
	told := time.Now()
	giveUp := func() *auth.Session {
		t.Helper()
		_, sess, err := people.GrantTo(t.Context(), owner)
		require.NoError(t, err)
		endpoint := "https://push.example.com/" + rand.Text()
		_, err = s.Add(t.Context(), sess, wire.PushSubscription{Endpoint: endpoint, Keys: wire.PushKeys{P256dh: someKey, Auth: someAuth}}, "")
		require.NoError(t, err)
		got, err := s.Targets(t.Context(), "default", "owner", []string{id(endpoint)})
		require.NoError(t, err)
		require.Empty(t, got)
		return sess
	}
	holds := func(dropped int, counts bool) {
		t.Helper()
		_, err := s.Targets(t.Context(), "default", "owner", nil)
		require.NoError(t, err)
		l, _, err := s.read(t.Context(), "owner")
		require.NoError(t, err)
		require.Len(t, l.Dropped, dropped)
		got, err := s.Counts(t.Context(), "owner", told)
		require.NoError(t, err)
		require.Equal(t, counts, got)
	}
	giveUp()
	holds(1, true)
	ahead = ticket.Longest + time.Minute
	giveUp()
	holds(1, true) // the first is out of date
	sess := giveUp()
	holds(2, true)
	people.OnRevoke(func(context.Context, string, func(string) bool) {}) // a gateway that was killed in between
	require.NoError(t, people.Revoke(t.Context(), sess.Hash))
	holds(1, false)

	told = time.Now().Add(ahead)
	for range maxDropped - 1 {
		giveUp()
	}
	holds(maxDropped, true)
	giveUp()
	holds(maxDropped, false)
}

// Where it cannot be read any more what was signed out, no button counts that was told
// before.
func TestNoButtonCountsWhereWhatWasSignedOutCannotBeRead(t *testing.T) {
	t.Parallel()
	_, s := newStore(t, time.Now)
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
