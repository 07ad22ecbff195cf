package natsd_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/journal/relay"
	"github.com/banksman/banksman/pkg/natsd"
	"github.com/banksman/banksman/pkg/subject"
)

func TestMain(m *testing.M) {
	if runAsChild() {
		return
	}
	goleak.VerifyTestMain(m)
}

// patience bounds everything that is expected to happen.
const patience = 20 * time.Second

// testPlan has two owners (pool: a worker pool; cli: also a caller), another
// tenant with an owner of the same name, and a caller.
func testPlan(dir string) natsd.Plan {
	return natsd.Plan{
		Dir:  dir,
		Port: natsd.RandomPort,
		// The account rules do not depend on flushing, and tests are many.
		Durability: natsd.DurabilityRelaxed,
		Owners: []natsd.Owner{
			{Tenant: "t", Name: "pool", Pool: true},
			{Tenant: "t", Name: "cli", Caller: true},
			{Tenant: "u", Name: "pool", Pool: true},
		},
		Callers: []natsd.Caller{{Tenant: "t", Name: "ci"}},
	}
}

func start(t *testing.T, dir string) *natsd.Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	srv, err := natsd.Start(ctx, natsd.StartOptions{ConfigFile: natsd.ConfigFile(dir)})
	require.NoError(t, err)
	t.Cleanup(srv.Shutdown)
	return srv
}

// node is a running server with the streams of the product.
type node struct {
	dir string
	srv *natsd.Server
}

func newNode(t *testing.T) *node {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, natsd.Write(testPlan(dir)))
	n := &node{dir: dir, srv: start(t, dir)}
	provision(t, n.connect(t, bus.RoleProvisioner, "", "").js(t), 1)
	passOn(t, n.connect(t, bus.RoleGateway, "", ""))
	return n
}

// passOn lets into the stream what owners say, as a gateway does.
func passOn(t *testing.T, gw *client) {
	t.Helper()
	r, err := relay.Start(relay.Options{Conn: gw.Conn})
	require.NoError(t, err)
	require.NoError(t, gw.Flush())
	t.Cleanup(r.Close)
}

func provision(t *testing.T, js jetstream.JetStream, replicas int) {
	t.Helper()
	ctx := t.Context()
	oncePerSubject := func(c jetstream.StreamConfig) jetstream.StreamConfig {
		c.MaxMsgsPerSubject, c.Discard, c.DiscardNewPerSubject = 1, jetstream.DiscardNew, true
		return c
	}
	for _, c := range []jetstream.StreamConfig{
		oncePerSubject(jetstream.StreamConfig{
			Name: "HITL_REQUESTS", Subjects: []string{"hitl.req.*.*.*", "hitl.cxl.*.*.*"}, MaxMsgSize: 1<<20 + 64<<10,
		}),
		oncePerSubject(jetstream.StreamConfig{
			Name: "HITL_MAILBOX", Subjects: []string{"hitl.box.*.*.*.*"}, Retention: jetstream.WorkQueuePolicy,
		}),
		oncePerSubject(jetstream.StreamConfig{
			Name: "HITL_DECISIONS", Subjects: []string{"hitl.dec.*.*.*"}, DenyDelete: true, DenyPurge: true,
			RePublish: &jetstream.RePublish{Source: "hitl.dec.>", Destination: "hitl.inbox.>"},
		}),
		{Name: "HITL_EVENTS", Subjects: []string{"hitl.ixe.>", "hitl.sgw.>"}, DenyDelete: true},
		{Name: "HITL_TRANSCRIPTS", Subjects: []string{"hitl.ack.>", "hitl.evt.>", "hitl.ses.>"}},
		{Name: "HITL_WORK", Subjects: []string{"hitl.work.*.*"}, Retention: jetstream.WorkQueuePolicy},
		{Name: "KV_hitl_people", Subjects: []string{"$KV.hitl_people.>"}, MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, AllowRollup: true, DenyDelete: true},
	} {
		c.Storage, c.AllowDirect, c.MaxBytes, c.Replicas = jetstream.FileStorage, true, 64<<20, replicas
		_, err := js.CreateStream(ctx, c)
		require.NoError(t, err, c.Name)
	}
	for _, tenant := range []string{"t", "u"} {
		_, err := js.CreateConsumer(ctx, "HITL_WORK", jetstream.ConsumerConfig{
			Durable: subject.WorkConsumer(tenant, "pool"), FilterSubject: "hitl.work." + tenant + ".pool", AckPolicy: jetstream.AckExplicitPolicy,
		})
		require.NoError(t, err)
		_, err = js.CreateConsumer(ctx, "HITL_EVENTS", jetstream.ConsumerConfig{
			Durable: "notifier-" + tenant, FilterSubject: "hitl.ixe." + tenant + ".>", AckPolicy: jetstream.AckExplicitPolicy,
		})
		require.NoError(t, err)
	}
}

// client is one connection and what the server refused it.
type client struct {
	*nats.Conn
	refused chan error
}

func (n *node) connect(t *testing.T, role bus.Role, tenant, name string) *client {
	t.Helper()
	creds, err := bus.LoadCredentials(natsd.CredentialsFile(n.dir, role, tenant, name))
	require.NoError(t, err)
	return connect(t, creds)
}

func connect(t *testing.T, creds *bus.Credentials, more ...nats.Option) *client {
	t.Helper()
	auth, err := creds.Auth()
	require.NoError(t, err)
	return dial(t, creds.URLs[0], append(more, auth)...)
}

func dial(t *testing.T, url string, opts ...nats.Option) *client {
	t.Helper()
	c := &client{refused: make(chan error, 64)}
	nc, err := nats.Connect(url, append(opts,
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { c.refused <- err }),
		nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))...)
	require.NoError(t, err)
	closed := make(chan struct{})
	nc.SetClosedHandler(func(*nats.Conn) { close(closed) })
	t.Cleanup(func() {
		nc.Close()
		<-closed
	})
	c.Conn = nc
	return c
}

func (c *client) js(t *testing.T) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(c.Conn)
	require.NoError(t, err)
	return js
}

// ask is a request with a generous limit.
func (c *client) ask(t *testing.T, subject, body string) *nats.Msg {
	t.Helper()
	m, err := c.Request(subject, []byte(body), patience)
	require.NoError(t, err, subject)
	return m
}

// store publishes and requires the acknowledgement.
func (c *client) store(t *testing.T, subject, body string) {
	t.Helper()
	m := c.ask(t, subject, body)
	require.Contains(t, string(m.Data), `"seq":`, subject)
	require.NotContains(t, string(m.Data), `"error"`, subject)
}

// mustRefuse requires a permission error that names the subject.
func (c *client) mustRefuse(t *testing.T, what, subject string) {
	t.Helper()
	require.NoError(t, c.Flush())
	select {
	case err := <-c.refused:
		require.ErrorIs(t, err, nats.ErrPermissionViolation)
		require.Contains(t, strings.ToLower(err.Error()), strings.ToLower(fmt.Sprintf("%s to %q", what, subject)))
	case <-time.After(patience):
		t.Fatalf("%s to %s was not refused", what, subject)
	}
}

// stored returns what the stream holds on the subject, "" for nothing.
func stored(t *testing.T, js jetstream.JetStream, stream, subject string) string {
	t.Helper()
	s, err := js.Stream(t.Context(), stream)
	require.NoError(t, err)
	m, err := s.GetLastMsgForSubject(t.Context(), subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return ""
	}
	require.NoError(t, err)
	return string(m.Data)
}
