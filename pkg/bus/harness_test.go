package bus_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal/relay"
	"github.com/banksman/banksman/pkg/natsd"
	"github.com/banksman/banksman/pkg/subject"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds everything that is expected to happen.
const patience = 30 * time.Second

// node is a server with the product's accounts and streams.
type node struct {
	dir string
	srv *natsd.Server
	// core is a connection of the streams' account that may use any subject.
	core *nats.Conn
	// gateway is a connection with a gateway's rights.
	gateway *nats.Conn
	// js has a provisioner's rights.
	js  jetstream.JetStream
	id  string
	key ed25519.PrivateKey
	// overQuota makes the gateway refuse what owners tell of their sessions.
	overQuota *atomic.Bool
}

func (n *node) admit(at subject.Parsed, size int) error {
	if n.overQuota.Load() {
		return fmt.Errorf("quota.conversation: no room for %s, %d bytes", at.Kind, size)
	}
	return nil
}

type streamChange func(*jetstream.StreamConfig)

func noRepublish(c *jetstream.StreamConfig) { c.RePublish = nil }
func noDirect(c *jetstream.StreamConfig)    { c.AllowDirect = c.Name != "HITL_DECISIONS" }

func newNode(t *testing.T, changes ...streamChange) *node {
	t.Helper()
	n := &node{dir: t.TempDir(), overQuota: &atomic.Bool{}}
	require.NoError(t, natsd.Write(natsd.Plan{
		Dir: n.dir, Port: natsd.RandomPort, Durability: natsd.DurabilityRelaxed,
		Owners:  []natsd.Owner{{Name: "agents", Pool: true, Caller: true}, {Name: "cli", Caller: true}, {Name: "quiet"}},
		Callers: []natsd.Caller{{Name: "ci"}},
	}))
	n.letMeSee(t)
	n.start(t)
	t.Cleanup(func() { n.srv.Shutdown() })
	creds, err := bus.LoadCredentials(natsd.CredentialsFile(n.dir, bus.RoleGateway, bus.DefaultTenant, ""))
	require.NoError(t, err)
	n.id, n.key, err = creds.Signer()
	require.NoError(t, err)

	n.core = n.dial(t, creds.URLs[0], nats.UserInfo("eye", "eye"))
	gatewayAuth, err := creds.Auth()
	require.NoError(t, err)
	n.gateway = n.dial(t, creds.URLs[0], gatewayAuth)
	prov, err := bus.LoadCredentials(natsd.CredentialsFile(n.dir, bus.RoleProvisioner, bus.DefaultTenant, ""))
	require.NoError(t, err)
	auth, err := prov.Auth()
	require.NoError(t, err)
	provisioner := n.dial(t, prov.URLs[0], auth)
	n.js, err = jetstream.New(provisioner)
	require.NoError(t, err)
	n.provision(t, changes)
	passOn, err := relay.Start(relay.Options{Conn: n.dial(t, creds.URLs[0], gatewayAuth), Admit: n.admit})
	require.NoError(t, err)
	t.Cleanup(passOn.Close)
	return n
}

// letMeSee adds a user with every right to the account of the streams.
func (n *node) letMeSee(t *testing.T) {
	t.Helper()
	path := filepath.Join(filepath.Dir(natsd.ConfigFile(n.dir)), "accounts.conf")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	place := regexp.MustCompile(`(?s)( CORE \{.*?users: \[\n)`)
	require.True(t, place.Match(text), "no users in CORE")
	first := place.FindIndex(text)[1]
	text = slices.Concat(text[:first], []byte("{ user: eye, password: eye }\n"), text[first:])
	require.NoError(t, os.WriteFile(path, text, 0o600))
}

// forbid takes a subscription away from the owner's users.
func (n *node) forbid(t *testing.T, subj string) {
	t.Helper()
	path := filepath.Join(filepath.Dir(natsd.ConfigFile(n.dir)), "accounts.conf")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	allowed := regexp.MustCompile(`(subscribe: \{ allow: \[[^]]*)"` + regexp.QuoteMeta(subj) + `",? ?`)
	require.True(t, allowed.Match(text), "%s is not allowed in %s", subj, text)
	require.NoError(t, os.WriteFile(path, allowed.ReplaceAll(text, []byte("$1")), 0o600))
	require.NoError(t, n.srv.Reload())
}

func (n *node) dial(t *testing.T, url string, auth nats.Option) *nats.Conn {
	t.Helper()
	closed := make(chan struct{})
	nc, err := nats.Connect(url, auth, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond),
		nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
	require.NoError(t, err)
	t.Cleanup(func() {
		nc.Close()
		<-closed
	})
	return nc
}

func (n *node) start(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	srv, err := natsd.Start(ctx, natsd.StartOptions{ConfigFile: natsd.ConfigFile(n.dir)})
	require.NoError(t, err)
	n.srv = srv
}

func (n *node) provision(t *testing.T, changes []streamChange) {
	t.Helper()
	once := jetstream.StreamConfig{MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, DiscardNewPerSubject: true}
	requests, decisions, mailbox := once, once, once
	mailbox.Name, mailbox.Subjects, mailbox.Retention = "HITL_MAILBOX", []string{"hitl.box.>"}, jetstream.WorkQueuePolicy
	requests.Name, requests.Subjects = "HITL_REQUESTS", []string{"hitl.req.>", "hitl.cxl.>"}
	requests.MaxMsgSize = 1<<20 + 64<<10
	decisions.Name, decisions.Subjects = "HITL_DECISIONS", []string{"hitl.dec.>"}
	decisions.RePublish = &jetstream.RePublish{Source: "hitl.dec.>", Destination: "hitl.inbox.>"}
	for _, c := range []jetstream.StreamConfig{
		requests, decisions, mailbox,
		{Name: "HITL_TRANSCRIPTS", Subjects: []string{"hitl.ack.>", "hitl.evt.>", "hitl.ses.>"}},
		{Name: "HITL_WORK", Subjects: []string{"hitl.work.>"}, Retention: jetstream.WorkQueuePolicy},
	} {
		c.Storage, c.AllowDirect = jetstream.FileStorage, true
		for _, change := range changes {
			change(&c)
		}
		_, err := n.js.CreateStream(t.Context(), c)
		require.NoError(t, err)
	}
	_, err := n.js.CreateConsumer(t.Context(), "HITL_WORK", jetstream.ConsumerConfig{
		Durable:       subject.WorkConsumer(bus.DefaultTenant, "agents"),
		FilterSubject: subject.Work(bus.DefaultTenant, "agents"), AckPolicy: jetstream.AckExplicitPolicy,
	})
	require.NoError(t, err)
}

// logs is what a client logged.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (n *node) client(t *testing.T, role bus.Role, name string, more ...nats.Option) (*bus.Client, *logs) {
	t.Helper()
	creds, err := bus.LoadCredentials(natsd.CredentialsFile(n.dir, role, bus.DefaultTenant, name))
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	l := &logs{}
	c, err := bus.Connect(ctx, creds, bus.Options{Worker: "w1", Logger: slog.New(slog.NewTextHandler(l, nil)), Nats: more})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c, l
}

func (n *node) owner(t *testing.T, more ...nats.Option) *bus.Client {
	t.Helper()
	c, _ := n.client(t, bus.RoleOwner, "agents", more...)
	return c
}

// stored reads a message of a stream; nil if there is none.
func (n *node) stored(t require.TestingT, stream, subj string) *jetstream.RawStreamMsg {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := n.js.Stream(ctx, stream)
	require.NoError(t, err)
	m, err := s.GetLastMsgForSubject(ctx, subj)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil
	}
	require.NoError(t, err)
	return m
}

func (n *node) count(t require.TestingT, stream, filter string) int {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := n.js.Stream(ctx, stream)
	require.NoError(t, err)
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(filter))
	require.NoError(t, err)
	total := 0
	for _, k := range info.State.Subjects {
		total += int(k)
	}
	return total
}

// decision is what a gateway would write about the stored request.
func (n *node) decision(t require.TestingT, ref subject.Ref, content hitl.Content) *hitl.Decision {
	// A subscriber hears of a request before it is stored.
	m := n.stored(t, "HITL_REQUESTS", subject.Request(ref))
	for deadline := time.Now().Add(patience); m == nil && time.Now().Before(deadline); {
		m = n.stored(t, "HITL_REQUESTS", subject.Request(ref))
	}
	require.NotNil(t, m, "no request is stored")
	return &hitl.Decision{
		V: 1, DecisionID: "d-" + ref.ID, InteractionID: ref.ID, Digest: hitl.Digest(m.Data), Content: content,
		Principal: hitl.Principal{Kind: "person", ID: "ada"}, Channel: "web", DecidedAt: time.Now().UTC(),
		RequestSeq: m.Sequence, RequestedAt: m.Time, RequestB64: base64.StdEncoding.EncodeToString(m.Data),
	}
}

// signed is d as a gateway publishes it for ref.
func (n *node) signed(t require.TestingT, ref subject.Ref, d *hitl.Decision) *nats.Msg {
	m := nats.NewMsg(subject.Decision(ref))
	var err error
	m.Data, err = hitl.Marshal(d)
	require.NoError(t, err)
	m.Header.Set(hitl.HeaderSigner, n.id)
	m.Header.Set(hitl.HeaderSignature, hitl.Sign(n.key, m.Subject, m.Data))
	m.Header.Set("Nats-Expected-Last-Subject-Sequence", "0")
	return m
}

func (n *node) write(t require.TestingT, m *nats.Msg) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := n.js.PublishMsg(ctx, m)
	require.NoError(t, err)
}

// decide stores a decision and deletes the request, as gateways do.
func (n *node) decide(t require.TestingT, ref subject.Ref, content hitl.Content) *hitl.Decision {
	d := n.decision(t, ref, content)
	n.write(t, n.signed(t, ref, d))
	n.sweep(t, ref)
	return d
}

func (n *node) sweep(t require.TestingT, ref subject.Ref) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := n.js.Stream(ctx, "HITL_REQUESTS")
	require.NoError(t, err)
	if m := n.stored(t, "HITL_REQUESTS", subject.Request(ref)); m != nil {
		require.NoError(t, s.DeleteMsg(ctx, m.Sequence))
	}
}

// approval is a request without a key.
func approval(input string) *hitl.Request {
	return &hitl.Request{
		Kind: hitl.KindApproval, SessionID: "s1", Title: "Run it",
		Tool: &hitl.Tool{Name: "Bash", Input: json.RawMessage(input)},
	}
}

func keyed(key, input string) *hitl.Request {
	r := approval(input)
	r.Key = key
	return r
}

func lasting(r *hitl.Request, d time.Duration) *hitl.Request {
	v := hitl.Duration(d)
	r.ExpiresIn = &v
	return r
}

// asking is an Ask under way.
type asking struct {
	opened chan bus.Opened
	done   chan struct{} // closed when answer and err are set
	answer *bus.Answer
	err    error
	cancel context.CancelCauseFunc
}

func ask(t *testing.T, c *bus.Client, r *hitl.Request, opts ...bus.AskOption) *asking {
	t.Helper()
	ctx, cancel := context.WithCancelCause(context.Background())
	a := &asking{opened: make(chan bus.Opened, 8), done: make(chan struct{}), cancel: cancel}
	go func() {
		defer close(a.done)
		a.answer, a.err = c.Ask(ctx, r, append(opts, bus.OnOpen(func(o bus.Opened) { a.opened <- o }))...)
	}()
	t.Cleanup(func() {
		cancel(nil)
		<-a.done
	})
	return a
}

func (a *asking) open(t *testing.T) bus.Opened {
	t.Helper()
	select {
	case o := <-a.opened:
		return o
	case <-a.done:
		require.NoError(t, a.err)
		t.Fatal("answered before it was open")
	case <-time.After(patience):
		t.Fatal("the request was not stored")
	}
	panic("unreachable")
}

func (a *asking) wait(t *testing.T) (*bus.Answer, error) {
	t.Helper()
	select {
	case <-a.done:
		return a.answer, a.err
	case <-time.After(patience):
		t.Fatal("Ask did not return")
	}
	panic("unreachable")
}

func (a *asking) waiting(t *testing.T) {
	t.Helper()
	select {
	case <-a.done:
		t.Fatalf("Ask returned %v, %v", a.answer, a.err)
	default:
	}
}

// deafDialer makes connections that stop to hear the server at the first write
// with a marker in it: what the server answers is lost.
type deafDialer struct {
	mu     sync.Mutex
	marker string // empty: never
	last   *deafConn
	sent   []byte // over all connections
}

type deafConn struct {
	net.Conn
	dialer *deafDialer
	deaf   atomic.Bool
}

func (d *deafDialer) Dial(network, address string) (net.Conn, error) {
	conn, err := net.Dial(network, address)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last = &deafConn{Conn: conn, dialer: d}
	return d.last, nil
}

// arm waits for one write with the marker.
func (d *deafDialer) arm(marker string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.marker = marker
}

// cut breaks the connection.
func (d *deafDialer) cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	_ = d.last.Close()
}

// said is what the client has written so far.
func (d *deafDialer) said() []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return bytes.Clone(d.sent)
}

func (c *deafConn) Write(p []byte) (int, error) {
	c.dialer.mu.Lock()
	c.dialer.sent = append(c.dialer.sent, p...)
	if c.dialer.marker != "" && bytes.Contains(p, []byte(c.dialer.marker)) {
		c.deaf.Store(true)
		c.dialer.marker = ""
	}
	c.dialer.mu.Unlock()
	return c.Conn.Write(p)
}

func (c *deafConn) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if err != nil || !c.deaf.Load() {
			return n, err
		}
	}
}

func numbered(prefix string, i int) string { return prefix + strconv.Itoa(i) }

func b64(raw []byte) string { return base64.StdEncoding.EncodeToString(raw) }

func contains(data []byte, s string) bool { return bytes.Contains(data, []byte(s)) }
