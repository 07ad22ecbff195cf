package natsd_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitltest"
	"github.com/banksman/banksman/pkg/natsd"
)

// childConfig names the configuration a re-executed test binary serves.
const childConfig = "NATSD_TEST_CHILD_CONFIG"

func runAsChild() bool {
	config := os.Getenv(childConfig)
	if config == "" {
		return false
	}
	limitFiles()
	srv, err := natsd.Start(context.Background(), natsd.StartOptions{ConfigFile: config})
	if err != nil {
		fmt.Println(err)
		return true
	}
	fmt.Println("ready")
	select {
	case err := <-srv.Broken():
		fmt.Println("broken:", err)
		srv.Shutdown()
	case <-srv.Done(): // never: the parent kills this process
	}
	return true
}

func natsdFreePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

func startConfig(t *testing.T, config string) *natsd.Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	srv, err := natsd.Start(ctx, natsd.StartOptions{ConfigFile: config})
	require.NoError(t, err)
	t.Cleanup(srv.Shutdown)
	return srv
}

func TestStartRefusesUnsafeConfigurations(t *testing.T) {
	t.Parallel()
	const users = "accounts { A { jetstream: enabled, users: [{user: u, password: p}] } }\n"
	for name, c := range map[string]struct{ text, want string }{
		"no host":              {"port: 4333\njetstream { store_dir: \"STORE\" }\n" + users, "host is empty"},
		"open host, no users":  {"host: \"0.0.0.0\"\nport: 4333\njetstream { store_dir: \"STORE\" }\n", "no users"},
		"open host, anonymous": {"host: \"::\"\nport: 4333\nno_auth_user: u\njetstream { store_dir: \"STORE\" }\n" + users, "no_auth_user"},
		"open cluster":         {"host: \"127.0.0.1\"\nport: 4333\ncluster { name: c, host: \"0.0.0.0\", port: 4334 }\njetstream { store_dir: \"STORE\" }\n" + users, "no authorization"},
		"open monitoring":      {"host: \"127.0.0.1\"\nport: 4333\nhttp: \"0.0.0.0:4335\"\njetstream { store_dir: \"STORE\" }\n" + users, "monitoring"},
		"no store directory":   {"host: \"127.0.0.1\"\nport: 4333\njetstream: enabled\n" + users, "store_dir is empty"},
		"no jetstream":         {"host: \"127.0.0.1\"\nport: 4333\n", "jetstream is off"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			config := filepath.Join(dir, "server.conf")
			text := bytes.ReplaceAll([]byte(c.text), []byte("STORE"), []byte(filepath.Join(dir, "store")))
			require.NoError(t, os.WriteFile(config, text, 0o600))
			_, err := natsd.Start(t.Context(), natsd.StartOptions{ConfigFile: config})
			require.ErrorIs(t, err, natsd.ErrUnsafeConfig)
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, config)
			require.NoDirExists(t, filepath.Join(dir, "store"))
		})
	}
	_, err := natsd.Start(t.Context(), natsd.StartOptions{})
	require.ErrorIs(t, err, natsd.ErrUnsafeConfig)
	_, err = natsd.Start(t.Context(), natsd.StartOptions{ConfigFile: filepath.Join(t.TempDir(), "none.conf")})
	require.Error(t, err)
}

func TestCheckFree(t *testing.T) {
	t.Parallel()
	require.NoError(t, natsd.CheckFree(t.TempDir()), "nothing was written there yet")
	n := newNode(t)
	require.ErrorIs(t, natsd.CheckFree(n.dir), natsd.ErrStoreInUse)
	n.srv.Shutdown()
	require.NoError(t, natsd.CheckFree(n.dir))
}

func TestConnectWithoutCredentialIsRefused(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	_, err := nats.Connect(n.srv.ClientURL())
	require.ErrorIs(t, err, nats.ErrAuthorization)
	creds, err := bus.LoadCredentials(natsd.CredentialsFile(n.dir, bus.RoleOwner, "t", "pool"))
	require.NoError(t, err)
	inside := connect(t, creds, n.srv.InProcess())
	inside.store(t, "hitl.req.t.pool.id1", "through memory")
	require.NoError(t, inside.Publish("hitl.dec.t.pool.id1", nil))
	inside.mustRefuse(t, "Publish", "hitl.dec.t.pool.id1")
}

func TestStoreIsLockedAndAKilledServerUnlocksIt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, natsd.Write(testPlan(dir)))
	child := hitltest.Again(t, childConfig+"="+natsd.ConfigFile(dir))

	_, err := natsd.Start(t.Context(), natsd.StartOptions{ConfigFile: natsd.ConfigFile(dir)})
	require.ErrorIs(t, err, natsd.ErrStoreInUse)
	require.ErrorContains(t, err, "process "+strconv.Itoa(child.Process.Pid))
	require.ErrorContains(t, err, filepath.Join(dir, "nats", "store"))

	require.NoError(t, child.Process.Kill())
	_, _ = io.Copy(io.Discard, child.Out)
	_ = child.Wait()
	srv := start(t, dir)

	// Within one process the same holds, and a clean stop unlocks.
	_, err = natsd.Start(t.Context(), natsd.StartOptions{ConfigFile: natsd.ConfigFile(dir)})
	require.ErrorIs(t, err, natsd.ErrStoreInUse)
	srv.Shutdown()
	start(t, dir)
}

func TestAcknowledgedRequestSurvivesARestart_invariant3(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	owner := n.connect(t, bus.RoleOwner, "t", "pool")
	owner.store(t, "hitl.req.t.pool.id1", "request")
	url := n.srv.ClientURL()
	n.srv.Shutdown()
	n.srv.Shutdown() // once more does nothing
	select {
	case <-n.srv.Done():
	default:
		t.Fatal("Done is open after Shutdown")
	}
	require.NoError(t, natsd.Write(testPlan(n.dir)))
	n.srv = start(t, n.dir)
	require.Equal(t, url, n.srv.ClientURL(), "the address is kept")
	require.Eventually(t, owner.IsConnected, patience, 10*time.Millisecond)
	require.Equal(t, "request", string(owner.ask(t, getRequest+"t.pool.id1", "").Data))
}

func TestAddedAndRemovedOwnersNeedNoRestart(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	owner := n.connect(t, bus.RoleOwner, "t", "pool")
	gw := n.connect(t, bus.RoleGateway, "", "")
	inbox := owner.follow(t, "hitl.inbox.t.pool.*")
	calls := gw.follow(t, "hitl.svc.*.*.*")
	people, err := gw.js(t).KeyValue(t.Context(), "hitl_people")
	require.NoError(t, err)
	watch, err := people.WatchAll(t.Context())
	require.NoError(t, err)
	require.Nil(t, <-watch.Updates())
	ordered, err := gw.js(t).OrderedConsumer(t.Context(), "HITL_EVENTS", jetstream.OrderedConsumerConfig{})
	require.NoError(t, err)
	events, err := ordered.Messages()
	require.NoError(t, err)
	t.Cleanup(events.Stop)

	require.NoError(t, natsd.AddOwner(n.dir, natsd.Owner{Tenant: "t", Name: "late", Caller: true}))
	require.NoError(t, n.srv.Reload())

	late := n.connect(t, bus.RoleOwner, "t", "late")
	late.store(t, "hitl.req.t.late.id1", "request")
	require.NoError(t, late.Publish("hitl.svc.t.late.ask", nil))
	require.Equal(t, "hitl.svc.t.late.ask", next(t, calls).Subject)
	require.NoError(t, late.Publish("hitl.req.t.pool.id9", nil))
	late.mustRefuse(t, "Publish", "hitl.req.t.pool.id9")

	// Everybody else's connections, subscriptions and consumers went on.
	owner.store(t, "hitl.req.t.pool.id1", "request")
	gw.store(t, "hitl.dec.t.pool.id1", "decision")
	require.Equal(t, "decision", string(next(t, inbox).Data))
	gw.store(t, "hitl.ixe.t.pool.s1.id1.open", "open")
	event, err := events.Next()
	require.NoError(t, err)
	require.Equal(t, "open", string(event.Data()))
	_, err = people.Put(t.Context(), "ada", []byte("1"))
	require.NoError(t, err)
	require.Equal(t, "ada", (<-watch.Updates()).Key())
	require.NoError(t, watch.Stop())
	require.Zero(t, owner.Stats().Reconnects)
	require.Zero(t, gw.Stats().Reconnects)
	owner.mustBeContent(t)
	gw.mustBeContent(t)

	require.NoError(t, natsd.Remove(n.dir, "t", "late"))
	require.NoError(t, n.srv.Reload())
	require.Eventually(t, func() bool { return !late.IsConnected() }, patience, 10*time.Millisecond)
	owner.store(t, "hitl.req.t.pool.id2", "request")
	require.Zero(t, owner.Stats().Reconnects)
}

func TestReloadRefusesAnUnsafeConfiguration(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	config := natsd.ConfigFile(n.dir)
	require.NoError(t, os.WriteFile(config, []byte("port: 4333\njetstream { store_dir: \"x\" }\n"), 0o600))
	require.ErrorIs(t, n.srv.Reload(), natsd.ErrUnsafeConfig)
	n.connect(t, bus.RoleOwner, "t", "pool").store(t, "hitl.req.t.pool.id1", "still served")
}

func TestStartReportsATakenPortAtOnce(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	plan := testPlan(t.TempDir())
	plan.Port = l.Addr().(*net.TCPAddr).Port
	require.NoError(t, natsd.Write(plan))
	// No deadline: the error must not wait for one.
	var log syncBuffer
	_, err = natsd.Start(context.Background(), natsd.StartOptions{
		ConfigFile: natsd.ConfigFile(plan.Dir), Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	require.ErrorContains(t, err, strconv.Itoa(plan.Port))
	require.ErrorContains(t, err, "in use")
	require.Contains(t, log.String(), "level=ERROR")
	require.NotContains(t, log.String(), "level=INFO", "the banner stays at debug")
	require.NoError(t, l.Close())
	start(t, plan.Dir) // the failed start left no lock
}

func TestStartEndsWithItsContext(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, natsd.Write(testPlan(dir)))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := natsd.Start(ctx, natsd.StartOptions{ConfigFile: natsd.ConfigFile(dir)})
	require.ErrorIs(t, err, context.Canceled)
	start(t, dir)
}

// syncBuffer is a buffer for a logger.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
