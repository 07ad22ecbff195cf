package ledger_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/natsd"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/notifier/internal/channel"
	"github.com/banksman/banksman/services/notifier/internal/ledger"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 20 * time.Second

var (
	ref = subject.Ref{Tenant: "default", Owner: "agents", ID: "id1"}
	key = ledger.Key{Ref: ref, Step: ledger.StepOpen, Channel: "hook"}
)

func planned() ledger.Entry {
	return ledger.Entry{State: ledger.Planned, DueAt: time.Now().UTC(), Alert: &channel.Alert{ID: "msg_1"}}
}

// server returns how to connect with a notifier's rights.
func server(t *testing.T) (connect func() *nats.Conn) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, natsd.Write(natsd.Plan{Dir: dir, Port: natsd.RandomPort, Durability: natsd.DurabilityRelaxed}))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	srv, err := natsd.Start(ctx, natsd.StartOptions{ConfigFile: natsd.ConfigFile(dir)})
	require.NoError(t, err)
	t.Cleanup(srv.Shutdown)
	cred, err := bus.LoadCredentials(natsd.CredentialsFile(dir, bus.RoleNotifier, "", ""))
	require.NoError(t, err)
	return func() *nats.Conn {
		auth, err := cred.Auth()
		require.NoError(t, err)
		closed := make(chan struct{})
		nc, err := nats.Connect(cred.URLs[0], auth, nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
		require.NoError(t, err)
		t.Cleanup(func() {
			nc.Close()
			<-closed
		})
		return nc
	}
}

// cluster starts three servers and returns how to connect with a notifier's rights, and
// how to end one of them by its name.
func cluster(t *testing.T) (connect func() *nats.Conn, end func(name string)) {
	t.Helper()
	const nodes = 3
	port := func() int {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer func() { require.NoError(t, l.Close()) }()
		return l.Addr().(*net.TCPAddr).Port
	}
	var clients, routes [nodes]int
	for i := range nodes {
		clients[i], routes[i] = port(), port()
	}
	var first string
	var urls []string
	running := map[string]*natsd.Server{}
	for i := range nodes {
		dir := t.TempDir()
		if i == 0 {
			first = dir
		} else { // the keys travel; the plan is written again for the node
			require.NoError(t, os.CopyFS(filepath.Join(dir, "creds"), os.DirFS(filepath.Join(first, "creds"))))
			raw, err := os.ReadFile(filepath.Join(first, "nats", "plan.json"))
			require.NoError(t, err)
			require.NoError(t, os.MkdirAll(filepath.Join(dir, "nats"), 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "nats", "plan.json"), raw, 0o600))
			creds, err := filepath.Glob(filepath.Join(dir, "creds", "*"))
			require.NoError(t, err)
			for _, c := range creds {
				require.NoError(t, os.Chmod(c, 0o600))
			}
		}
		c := &natsd.Cluster{Name: "banksman", ServerName: fmt.Sprint("n", i), Port: routes[i], User: "node", Password: "pass"}
		for j := range nodes {
			if j != i {
				c.Routes = append(c.Routes, fmt.Sprintf("nats://node:pass@127.0.0.1:%d", routes[j]))
			}
		}
		require.NoError(t, natsd.Write(natsd.Plan{Dir: dir, Port: clients[i], Durability: natsd.DurabilityRelaxed, Cluster: c}))
		srv, err := natsd.Start(t.Context(), natsd.StartOptions{ConfigFile: natsd.ConfigFile(dir)})
		require.NoError(t, err)
		t.Cleanup(srv.Shutdown)
		running[c.ServerName] = srv
		urls = append(urls, fmt.Sprintf("nats://127.0.0.1:%d", clients[i]))
	}
	cred, err := bus.LoadCredentials(natsd.CredentialsFile(first, bus.RoleNotifier, "", ""))
	require.NoError(t, err)
	return func() *nats.Conn {
		auth, err := cred.Auth()
		require.NoError(t, err)
		closed := make(chan struct{})
		nc, err := nats.Connect(strings.Join(urls, ","), auth, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond),
			nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
		require.NoError(t, err)
		t.Cleanup(func() {
			nc.Close()
			<-closed
		})
		return nc
	}, func(name string) { running[name].Shutdown() }
}

// A cluster keeps three copies of the ledger, also of one that somebody made with fewer,
// so that a lost server keeps nobody from being told.
func TestAClusterKeepsThreeCopies(t *testing.T) {
	t.Parallel()
	connect, end := cluster(t)
	nc := connect()
	ctx := t.Context() // a call that is lost while the servers find each other has its own limit
	l, err := ledger.Open(ctx, nc, 1)
	require.NoError(t, err)
	copies, in, err := l.Copies(ctx)
	require.NoError(t, err)
	require.True(t, in)
	require.Equal(t, 1, copies)

	js, err := jetstream.New(nc)
	require.NoError(t, err)
	var info *jetstream.StreamInfo
	require.Eventually(t, func() bool { // until all three have joined
		if l, err = ledger.Open(ctx, nc, 0); err != nil {
			return false
		}
		if copies, _, err = l.Copies(ctx); err != nil || copies != 3 {
			return false
		}
		s, err := js.Stream(ctx, "KV_"+ledger.Bucket)
		if err != nil {
			return false
		}
		info = s.CachedInfo()
		for _, p := range info.Cluster.Replicas {
			if !p.Current || p.Offline {
				return false
			}
		}
		return info.Cluster.Leader != "" && len(info.Cluster.Replicas) == 2
	}, 3*patience, 50*time.Millisecond)
	_, _, err = l.Create(ctx, key, planned())
	require.NoError(t, err)
	end(info.Cluster.Leader)
	require.Eventually(t, func() bool {
		r, err := l.Get(ctx, key)
		return err == nil && r.State == ledger.Planned
	}, 2*patience, 50*time.Millisecond)
	other := key
	other.Channel = "other"
	require.Eventually(t, func() bool {
		_, _, err := l.Create(ctx, other, planned())
		return err == nil
	}, 2*patience, 50*time.Millisecond, "and goes on writing")
}

// Replicas that start together make one bucket, and of all that claim a delivery
// one gets it.
func TestOneOfManyClaims(t *testing.T) {
	t.Parallel()
	connect := server(t)
	const replicas = 6
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var created, claimed, first atomic.Int32
	var ready, wg sync.WaitGroup
	ready.Add(replicas)
	for range replicas {
		nc := connect()
		wg.Go(func() {
			l, err := ledger.Open(ctx, nc, 1)
			if err != nil {
				t.Error(err)
				ready.Done()
				return
			}
			r, won, err := l.Create(ctx, key, planned())
			if err != nil {
				t.Error(err)
			}
			if won {
				created.Add(1)
			}
			ready.Done()
			ready.Wait() // all hold the same version now
			if r == nil {
				return
			}
			next := r.Entry
			next.State = ledger.Claimed
			stored, won, err := l.Update(ctx, r, next)
			if err != nil || stored == nil || stored.State != ledger.Claimed {
				t.Error("lost without seeing the winner", stored, err)
			}
			if won {
				claimed.Add(1)
			}
			if won, err := l.MarkOver(ctx, ref, ledger.Over{Outcome: "allowed"}); err != nil {
				t.Error(err)
			} else if won {
				first.Add(1)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 1, created.Load())
	require.EqualValues(t, 1, claimed.Load())
	require.EqualValues(t, 1, first.Load())
}

func TestWatchShowsTheNewestThenChanges(t *testing.T) {
	t.Parallel()
	l, err := ledger.Open(t.Context(), server(t)(), 1)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err = l.Get(ctx, key)
	require.ErrorIs(t, err, ledger.ErrNotFound)
	_, err = l.Over(ctx, ref)
	require.ErrorIs(t, err, ledger.ErrNotFound)

	r, won, err := l.Create(ctx, key, planned())
	require.NoError(t, err)
	require.True(t, won)
	next := r.Entry
	next.Tries = 1
	r, won, err = l.Update(ctx, r, next)
	require.NoError(t, err)
	require.True(t, won)
	mark := func(back bool) bool {
		was, err := l.MarkGone(ctx, ledger.Gone{Channel: "hook", Target: "t", Back: back})
		require.NoError(t, err)
		return was
	}
	require.False(t, mark(true), "it was never gone")
	require.True(t, mark(false))
	require.False(t, mark(false), "twice is once")

	seen := make(chan *ledger.Record, 10)
	gone := make(chan ledger.Gone, 10)
	ready := make(chan struct{})
	watch, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		done <- l.Watch(watch, ledger.Watcher{
			Delivery: func(r *ledger.Record) { seen <- r },
			Gone:     func(g ledger.Gone) { gone <- g },
			Ready:    func() { close(ready) },
			Broken:   func(key string, err error) { t.Error(key, err) },
		})
	}()
	<-ready
	require.Len(t, seen, 1)
	require.Equal(t, r, <-seen)
	require.Equal(t, "t", (<-gone).Target)
	require.True(t, mark(true))
	require.False(t, mark(true))
	require.True(t, (<-gone).Back)
	require.True(t, mark(false))
	require.False(t, (<-gone).Back)
	next.State, next.Alert = ledger.Sent, nil
	_, _, err = l.Update(ctx, r, next)
	require.NoError(t, err)
	require.Equal(t, ledger.Sent, (<-seen).State)

	_, won, err = l.Update(ctx, r, next)
	require.NoError(t, err)
	require.False(t, won, "of an old version")
	stop()
	require.ErrorIs(t, <-done, context.Canceled)
}

// A bucket that answers from followers would let a decided interaction pass for
// a pending one.
func TestDriftedBucketIsRefused(t *testing.T) {
	t.Parallel()
	nc := server(t)()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	_, err = js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: ledger.Bucket})
	require.NoError(t, err)
	_, err = ledger.Open(t.Context(), nc, 1)
	require.ErrorIs(t, err, ledger.ErrDrift)
	require.ErrorContains(t, err, "allow_direct")
}

// A closed connection is an end, not a reason to wait.
func TestClosedConnection(t *testing.T) {
	t.Parallel()
	nc := server(t)()
	l, err := ledger.Open(t.Context(), nc, 1)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel) // before the connection's own
	done := make(chan error, 1)
	ready := make(chan struct{})
	go func() {
		done <- l.Watch(ctx, ledger.Watcher{Ready: func() { close(ready) }})
	}()
	<-ready
	nc.Close()
	require.ErrorIs(t, <-done, ledger.ErrWatchEnded)
	_, err = l.Over(ctx, ref)
	require.ErrorIs(t, err, nats.ErrConnectionClosed)
}
