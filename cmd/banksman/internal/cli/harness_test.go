package cli_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/banksman/banksman/cmd/banksman/internal/cli"
	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/journal/relay"
	"github.com/banksman/banksman/pkg/natsd"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/gateway"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds everything that is expected to happen.
const patience = 30 * time.Second

// instance is a bus with the product's streams, and with a gateway if one was
// started.
type instance struct {
	dir     string
	journal *journal.JetStream
	conn    *nats.Conn // with a gateway's rights
	http    string
	token   string // of a person who is signed in
}

func credentials(t *testing.T, dir string, role bus.Role, name string) *bus.Credentials {
	t.Helper()
	cred, err := bus.LoadCredentials(natsd.CredentialsFile(dir, role, bus.DefaultTenant, name))
	require.NoError(t, err)
	return cred
}

func dial(t *testing.T, cred *bus.Credentials) *nats.Conn {
	t.Helper()
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

// newBus is an instance without a gateway.
func newBus(t *testing.T) *instance {
	t.Helper()
	in := &instance{dir: t.TempDir()}
	require.NoError(t, natsd.Write(natsd.Plan{
		Dir: in.dir, Port: natsd.RandomPort, Durability: natsd.DurabilityRelaxed,
		Owners: []natsd.Owner{{Name: "agents", Pool: true}, {Name: "cli", Caller: true}},
	}))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	srv, err := natsd.Start(ctx, natsd.StartOptions{ConfigFile: natsd.ConfigFile(in.dir)})
	require.NoError(t, err)
	t.Cleanup(srv.Shutdown)
	require.NoError(t, journal.Provision(ctx, dial(t, credentials(t, in.dir, bus.RoleProvisioner, "")), journal.Config{
		Pools: []journal.Pool{{Tenant: bus.DefaultTenant, Pool: "agents"}},
	}))
	cred := credentials(t, in.dir, bus.RoleGateway, "")
	_, key, err := cred.Signer()
	require.NoError(t, err)
	in.conn = dial(t, cred)
	in.journal = journal.New(in.conn, journal.Options{Signer: journal.NewSigner(key)})
	passOn, err := relay.Start(relay.Options{Conn: in.conn})
	require.NoError(t, err)
	t.Cleanup(passOn.Close)
	return in
}

// newInstance is an instance with a gateway.
func newInstance(t *testing.T) *instance {
	t.Helper()
	in := newBus(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	in.http = "http://" + l.Addr().String()
	tokens := filepath.Join(t.TempDir(), "token")
	ctx, cancel := context.WithCancel(context.Background())
	g, err := gateway.New(ctx, gateway.Options{
		Credentials: credentials(t, in.dir, bus.RoleGateway, ""), Listener: l, TestLogin: tokens, PersonName: "Ada",
		Web: fstest.MapFS{"index.html": {Data: []byte("<!doctype html><title>t</title>")}},
	})
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("gateway: %v", err)
		}
	})
	raw, err := os.ReadFile(tokens)
	require.NoError(t, err)
	in.token = strings.TrimSpace(string(raw))
	require.NoError(t, cli.Instance{PID: os.Getpid(), HTTP: in.http, StartedAt: time.Now()}.Write(in.dir))
	return in
}

// signIn puts a person's login into the data directory.
func (in *instance) signIn(t *testing.T, token string, expires time.Time) {
	t.Helper()
	raw, err := json.Marshal(map[string]any{"v": 1, "token": token, "expires_at": expires})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(in.dir, "cli-login.json"), raw, 0o600))
}

// decide decides as a gateway does.
func (in *instance) decide(t *testing.T, id string, content hitl.Content) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ref := subject.NewRef(bus.DefaultTenant, "cli", id)
	m, err := in.journal.Request(ctx, ref)
	require.NoError(t, err)
	_, won, err := in.journal.Decide(ctx, ref, &hitl.Decision{
		V: 1, DecisionID: "d-" + id, InteractionID: id, Digest: hitl.Digest(m.Data), Content: content,
		Principal: hitl.Principal{Kind: "person", ID: "ada", Name: "Ada"}, Channel: "web", DecidedAt: time.Now().UTC(),
		RequestSeq: m.Seq, RequestedAt: m.Time, RequestB64: base64.StdEncoding.EncodeToString(m.Data),
	})
	require.NoError(t, err)
	require.True(t, won)
	require.NoError(t, in.journal.DeleteRequest(ctx, m.Seq))
}

// acks lists the stages that an asker told.
func (in *instance) acks(t *testing.T, id string) []string {
	t.Helper()
	var stages []string
	prefix := "hitl.ack." + subject.NewRef(bus.DefaultTenant, "cli", id).String() + "."
	require.NoError(t, in.journal.Last(t.Context(), journal.Transcripts, []string{prefix + "*"}, func(m journal.Message) error {
		stages = append(stages, strings.TrimPrefix(m.Subject, prefix))
		return nil
	}))
	return stages
}

// output is what a command writes, for reading while it runs.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

type commandFunc func(context.Context, []string, cli.Stdio) int

// running is a command under way.
type running struct {
	out, err output
	code     int
	done     chan struct{} // closed when code is set
	cancel   context.CancelFunc
}

func start(t *testing.T, do commandFunc, dir, stdin string, args ...string) *running {
	t.Helper()
	r := &running{done: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	go func() {
		defer close(r.done)
		r.code = do(ctx, args, cli.Stdio{In: strings.NewReader(stdin), Out: &r.out, Err: &r.err, DataDir: dir})
	}()
	t.Cleanup(func() {
		cancel()
		<-r.done
	})
	return r
}

func (r *running) wait(t *testing.T) *running {
	t.Helper()
	select {
	case <-r.done:
	case <-time.After(patience):
		t.Fatalf("the command does not end; it said %q", r.err.String())
	}
	return r
}

// run is a command from start to end.
func run(t *testing.T, do commandFunc, dir, stdin string, args ...string) *running {
	t.Helper()
	return start(t, do, dir, stdin, args...).wait(t)
}

var interaction = regexp.MustCompile(`Interaction ([0-9a-f-]{36})`)

// id waits until the question is open.
func (r *running) id(t *testing.T) string {
	t.Helper()
	var id string
	require.Eventually(t, func() bool {
		m := interaction.FindStringSubmatch(r.err.String())
		if m != nil {
			id = m[1]
		}
		return m != nil
	}, patience, 5*time.Millisecond, "it said %q", r.err.String())
	return id
}

// decode reads the one line on standard output.
func decode[T any](t *testing.T, r *running) T {
	t.Helper()
	var v T
	require.Equal(t, 1, strings.Count(r.out.String(), "\n"), "one line: %q", r.out.String())
	require.NoError(t, json.Unmarshal([]byte(r.out.String()), &v))
	return v
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
