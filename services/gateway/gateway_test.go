package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/hitltest"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/natsd"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway"
	"github.com/banksman/banksman/services/gateway/internal/contract/contracttest"
)

func TestMain(m *testing.M) {
	if serveAsProcess() {
		return
	}
	goleak.VerifyTestMain(m,
		// The embedded server's own, which outlive its shutdown by a moment.
		goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server.(*fileStore).flushLoop"),
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*fileStore).syncBlocks"),
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.startSystemInfo"),
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server/pse.updateUsage"),
	)
}

const patience = 20 * time.Second

// site is a real server with accounts and streams.
type site struct {
	t   *testing.T
	dir string
	srv *natsd.Server
}

func newSite(t *testing.T) *site {
	t.Helper()
	return newSiteOn(t, natsd.DurabilityRelaxed, false)
}

// newSiteOn is newSite with a server of another durability, or one that is a process
// of its own; then srv is nil.
func newSiteOn(t *testing.T, d natsd.Durability, process bool) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir()}
	require.NoError(t, natsd.Write(natsd.Plan{
		Dir: s.dir, Port: natsd.RandomPort, Durability: d,
		Owners:  []natsd.Owner{{Name: "agents", Pool: true}, {Name: "cli", Caller: true}},
		Callers: []natsd.Caller{{Name: "ci"}},
	}))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if process {
		hitltest.Again(t, serverConfig+"="+natsd.ConfigFile(s.dir))
	} else {
		var err error
		s.srv, err = natsd.Start(ctx, natsd.StartOptions{ConfigFile: natsd.ConfigFile(s.dir)})
		require.NoError(t, err)
		t.Cleanup(s.srv.Shutdown)
	}
	require.NoError(t, journal.Provision(ctx, s.connect(bus.RoleProvisioner), journal.Config{
		Pools: []journal.Pool{{Tenant: bus.DefaultTenant, Pool: "agents"}},
	}))
	return s
}

// creds are those of the default tenant, or of the one that the name begins with:
// other/ci.
func (s *site) creds(role bus.Role, name string) *bus.Credentials {
	s.t.Helper()
	tenant := bus.DefaultTenant
	if t, rest, ok := strings.Cut(name, "/"); ok {
		tenant, name = t, rest
	}
	c, err := bus.LoadCredentials(natsd.CredentialsFile(s.dir, role, tenant, name))
	require.NoError(s.t, err)
	return c
}

func (s *site) connect(role bus.Role) *nats.Conn {
	s.t.Helper()
	creds := s.creds(role, "")
	option, err := creds.Auth()
	require.NoError(s.t, err)
	closed := make(chan struct{})
	nc, err := nats.Connect(creds.URLs[0], option, nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
	require.NoError(s.t, err)
	s.t.Cleanup(func() {
		nc.Close()
		<-closed
	})
	return nc
}

func (s *site) client(name string) *bus.Client {
	s.t.Helper()
	c, err := bus.Connect(s.t.Context(), s.creds(bus.RoleOwner, name), bus.Options{})
	require.NoError(s.t, err)
	s.t.Cleanup(c.Close)
	return c
}

func (s *site) options() gateway.Options {
	return gateway.Options{
		Credentials: s.creds(bus.RoleGateway, ""), Addr: "127.0.0.1:0", PersonName: "Ada",
		TestLogin: filepath.Join(s.dir, "login"),
	}
}

// running is a gateway that runs until the test ends or stop is called.
type running struct {
	*gateway.Gateway
	t     *testing.T
	token string
	stop  func() error
}

func (s *site) gateway(change ...func(*gateway.Options)) *running {
	s.t.Helper()
	o := s.options()
	for _, fn := range change {
		fn(&o)
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	g, err := gateway.New(ctx, o)
	require.NoError(s.t, err)
	raw, err := os.ReadFile(o.TestLogin)
	require.NoError(s.t, err)
	r := &running{Gateway: g, t: s.t, token: strings.TrimSpace(string(raw))}
	run, cancelRun := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Run(run) }()
	r.stop = sync.OnceValue(func() error {
		cancelRun()
		return <-done
	})
	s.t.Cleanup(func() { _ = r.stop() })
	select {
	case <-g.Ready():
	case err := <-done:
		done <- err
		s.t.Fatalf("the gateway ended: %v", err)
	case <-time.After(patience):
		s.t.Fatal("the gateway never got ready")
	}
	return r
}

func (r *running) call(method, path, token, body string) (int, []byte) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, "http://"+r.Addr()+path, strings.NewReader(body))
	require.NoError(r.t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := r.client().Do(req)
	require.NoError(r.t, err)
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	require.NoError(r.t, err)
	return res.StatusCode, raw
}

var published = sync.OnceValues(contracttest.Load)

// client makes a connection for each request, and holds every answer and event
// against the published contract.
func (r *running) client() *http.Client {
	r.t.Helper()
	c, err := published()
	require.NoError(r.t, err)
	return &http.Client{Transport: &contracttest.Transport{
		Contract: c, Base: &http.Transport{DisableKeepAlives: true},
		Report: func(err error) { r.t.Errorf("the contract: %v", err) },
	}}
}

// socket signs in and hands every frame to fn until fn is satisfied.
func (r *running) socket(fn func(send func(any), frame json.RawMessage) (done bool)) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, "ws://"+r.Addr()+"/api/ws", nil)
	require.NoError(r.t, err)
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(64 << 20)
	c, err := published()
	require.NoError(r.t, err)
	told := contracttest.Socket{Contract: c}
	send := func(v any) {
		raw, err := hitl.Marshal(v)
		require.NoError(r.t, err)
		told.Sent(raw)
		require.NoError(r.t, conn.Write(ctx, websocket.MessageText, raw))
	}
	send(wire.Client{Type: wire.TypeAuth, Token: r.token})
	for {
		_, raw, err := conn.Read(ctx)
		require.NoError(r.t, err)
		require.NoError(r.t, told.Received(raw))
		frames := []json.RawMessage{raw}
		if bytes.HasPrefix(raw, []byte("[")) {
			require.NoError(r.t, json.Unmarshal(raw, &frames))
		}
		for _, f := range frames {
			if fn(send, f) {
				return
			}
		}
	}
}

func request(key string) *hitl.Request {
	return &hitl.Request{
		Key: key, Kind: hitl.KindApproval, SessionID: "s1", Title: "Run make test", ToolCallID: "call-" + key,
		Tool: &hitl.Tool{Name: "Bash", Input: json.RawMessage(`{"command":"make test"}`)},
	}
}

// ask asks in the background.
func ask(t *testing.T, c *bus.Client, key string) <-chan *bus.Answer {
	t.Helper()
	got := make(chan *bus.Answer, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		a, err := c.Ask(t.Context(), request(key))
		if err != nil {
			a = nil
		}
		got <- a
	}()
	t.Cleanup(func() { <-done })
	return got
}

func take(t *testing.T, got <-chan *bus.Answer) *bus.Answer {
	t.Helper()
	select {
	case a := <-got:
		require.NotNil(t, a, "the asker got no decision")
		return a
	case <-time.After(patience):
		t.Fatal("the asker got nothing")
		return nil
	}
}

func TestFromAskerToBrowserAndBack(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	g := s.gateway()
	got := ask(t, s.client("agents"), "k1")
	var receipt *wire.Receipt
	var settled bool
	answered := false
	g.socket(func(send func(any), frame json.RawMessage) bool {
		var f struct {
			Type     string              `json:"type"`
			Sessions []wire.ProcessState `json:"sessions"`
			wire.ProcessState
		}
		require.NoError(t, json.Unmarshal(frame, &f))
		switch f.Type {
		case wire.TypeActiveProcesses, wire.TypeProcessState:
			for _, st := range append(f.Sessions, f.ProcessState) {
				if p := st.PendingRequest; p != nil && !answered {
					answered = true
					send(map[string]any{
						"type": wire.TypeResponse, "ref": "r", "session_id": p.SessionKey, "request_id": p.Key,
						"request_type": p.RequestType, "digest": p.Digest, "decision": "allow",
					})
				}
			}
			settled = settled || len(f.Closed) > 0
		case wire.TypeReceipt:
			receipt = new(wire.Receipt)
			require.NoError(t, json.Unmarshal(frame, receipt))
		}
		return receipt != nil && settled
	})
	require.Equal(t, hitl.Accepted, receipt.Status, receipt.Error)
	a := take(t, got)
	require.Equal(t, hitl.Allowed, a.Decision.Outcome)
	require.Equal(t, hitl.Principal{Kind: "person", ID: "owner", Name: "Ada"}, a.Decision.Principal)
	require.Equal(t, "web", a.Decision.Channel)
	require.Equal(t, "session", a.Decision.Assurance)
}

func TestTerminalLoginDecides(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	g := s.gateway()
	cli := s.client("cli")
	got := ask(t, s.client("agents"), "k1")
	var list []wire.Interaction
	require.Eventually(t, func() bool {
		var err error
		list, err = cli.List(t.Context(), wire.ListCall{})
		return err == nil && len(list) == 1
	}, patience, 5*time.Millisecond)
	deny := wire.DecideCall{ID: list[0].ID, Response: hitl.Response{Decision: "deny", Message: "not now", Digest: list[0].Digest}}
	rec, err := cli.Decide(t.Context(), deny)
	require.NoError(t, err)
	require.Equal(t, hitl.Forbidden, rec.Status)
	begun, err := cli.Login(t.Context(), wire.LoginCall{CLI: true, Name: "laptop"})
	require.NoError(t, err)
	status, raw := g.call(http.MethodPost, "/api/cli-logins/"+begun.Code, g.token, `{"allow":true}`)
	require.Equal(t, 200, status, string(raw))
	in, err := cli.Login(t.Context(), wire.LoginCall{CLI: true, Poll: begun.Poll})
	require.NoError(t, err)
	deny.Token = in.Token
	rec, err = cli.Decide(t.Context(), deny)
	require.NoError(t, err)
	require.Equal(t, hitl.Accepted, rec.Status, rec.Error)
	a := take(t, got)
	require.Equal(t, hitl.Denied, a.Decision.Outcome)
	require.Equal(t, "not now", a.Decision.Message)
	require.Equal(t, "cli", a.Decision.Channel)
}

func TestLinkSignsInAcrossGatewaysAndRestarts(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	one := s.gateway()
	link, err := one.Login(t.Context())
	require.NoError(t, err)
	token, ok := strings.CutPrefix(link, "http://"+one.Addr()+"/#login=")
	require.True(t, ok, link)
	two := s.gateway()
	status, raw := two.call(http.MethodPost, "/api/login", "", fmt.Sprintf(`{"token":%q}`, token))
	require.Equal(t, 200, status, string(raw))
	var in struct{ Token string }
	require.NoError(t, json.Unmarshal(raw, &in))
	status, _ = one.call(http.MethodPost, "/api/login", "", fmt.Sprintf(`{"token":%q}`, token))
	require.Equal(t, 401, status)
	status, _ = one.call(http.MethodGet, "/api/me", in.Token, "")
	require.Equal(t, 200, status)
	require.NoError(t, one.stop())
	require.NoError(t, two.stop())
	three := s.gateway()
	status, _ = three.call(http.MethodGet, "/api/me", in.Token, "")
	require.Equal(t, 200, status)
	status, raw = three.call(http.MethodGet, "/", "", "")
	require.Equal(t, 200, status)
	require.Contains(t, string(raw), "<!doctype html>")
}

func TestTestLoginIsPrivateAndLoud(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var log bytes.Buffer
	g := s.gateway(func(o *gateway.Options) { o.Logger = slog.New(slog.NewTextHandler(&lockedWriter{w: &log}, nil)) })
	require.NoError(t, g.stop())
	info, err := os.Stat(filepath.Join(s.dir, "login"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.Contains(t, log.String(), "level=WARN msg=\"TEST LOGIN")
	raw, err := os.ReadFile(filepath.Join(s.dir, "login"))
	require.NoError(t, err)
	require.NotContains(t, log.String(), strings.TrimSpace(string(raw)))
}

type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	rows := []struct {
		name   string
		change func(*gateway.Options)
		text   string
	}{
		{"no credentials", func(o *gateway.Options) { o.Credentials = nil }, "no credentials"},
		{"an owner's credentials", func(o *gateway.Options) { o.Credentials = s.creds(bus.RoleOwner, "cli") }, "want a gateway's"},
		{"every address", func(o *gateway.Options) { o.Addr = ":0" }, "no loopback address"},
		{"another address", func(o *gateway.Options) { o.Addr = "0.0.0.0:0" }, "no loopback address"},
		{"a name", func(o *gateway.Options) { o.Addr = "example.org:80" }, "no loopback address"},
		{"remote without TLS", func(o *gateway.Options) { o.Addr, o.AllowRemote, o.BaseURL = "0.0.0.0:0", true, "http://h.example" }, "https://"},
		{"remote without an address", func(o *gateway.Options) { o.Addr, o.AllowRemote = "0.0.0.0:0", true }, "https://"},
		{"a base URL that is none", func(o *gateway.Options) { o.BaseURL = "ftp://x" }, "-base-url: "},
		{"an origin that is none", func(o *gateway.Options) { o.Origins = []string{"wiki.example.org"} }, "-origin: "},
		{"every origin", func(o *gateway.Options) { o.Origins = []string{"*"} }, "-origin: "},
		{"a pattern of origins", func(o *gateway.Options) { o.Origins = []string{"https://*.example.org"} }, "-origin: "},
		{"an origin with a path", func(o *gateway.Options) { o.Origins = []string{"https://wiki.example.org/page"} }, "-origin: "},
		{"an origin without TLS", func(o *gateway.Options) { o.Origins = []string{"http://wiki.example.org"} }, "want https"},
		{"a base URL with a path", func(o *gateway.Options) { o.BaseURL = "https://x.example/hitl" }, "-base-url: "},
		{"a silence of less than nothing", func(o *gateway.Options) { o.OrphanAfter = -time.Minute }, "-orphan-after: -1m0s is less than 0"},
		{"a drain of less than nothing", func(o *gateway.Options) { o.Drain = -time.Second }, "-drain: -1s is less than 0"},
		{"a tenant that is no token", func(o *gateway.Options) { o.Tenant = "a b.c" }, `-tenant: "a b.c" is not a token`},
		{"a pool that is no token", func(o *gateway.Options) { o.Pool = "a.c" }, `-pool: "a.c" is not a token`},
		{"no port", func(o *gateway.Options) { o.Addr = "127.0.0.1" }, "-listen: "},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			o := s.options()
			r.change(&o)
			g, err := gateway.New(t.Context(), o)
			require.ErrorContains(t, err, r.text)
			require.Nil(t, g)
		})
	}
	t.Run("a listener beyond loopback, and closes it", func(t *testing.T) {
		o := s.options()
		var err error
		o.Listener, err = net.Listen("tcp", "0.0.0.0:0")
		require.NoError(t, err)
		_, err = gateway.New(t.Context(), o)
		require.ErrorContains(t, err, "no loopback address")
		_, err = o.Listener.Accept()
		require.ErrorIs(t, err, net.ErrClosed)
	})
	t.Run("a server that is not there", func(t *testing.T) {
		o := s.options()
		c := *o.Credentials
		c.URLs = []string{"nats://127.0.0.1:1"}
		o.Credentials = &c
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := gateway.New(ctx, o)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
	t.Run("streams that have lost a guarantee", func(t *testing.T) {
		s := newSite(t)
		js, err := jetstream.New(s.connect(bus.RoleProvisioner))
		require.NoError(t, err)
		stream, err := js.Stream(t.Context(), journal.Transcripts)
		require.NoError(t, err)
		cfg := stream.CachedInfo().Config
		cfg.AllowRollup = true
		_, err = js.UpdateStream(t.Context(), cfg)
		require.NoError(t, err)
		_, err = gateway.New(t.Context(), s.options())
		require.ErrorIs(t, err, journal.ErrDrift)
		require.ErrorContains(t, err, journal.Transcripts)
	})
}

func TestClosedConnectionEndsRun(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	g, err := gateway.New(t.Context(), s.options())
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- g.Run(t.Context()) }()
	<-g.Ready()
	// In the server's place comes one that does not know the gateway.
	addr, err := url.Parse(s.creds(bus.RoleGateway, "").URLs[0])
	require.NoError(t, err)
	port, err := strconv.Atoi(addr.Port())
	require.NoError(t, err)
	s.srv.Shutdown()
	stranger, err := nkeys.CreateUser()
	require.NoError(t, err)
	pub, err := stranger.PublicKey()
	require.NoError(t, err)
	other, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: port, NoSigs: true, NoLog: true, Nkeys: []*server.NkeyUser{{Nkey: pub}},
	})
	require.NoError(t, err)
	other.Start()
	defer func() {
		other.Shutdown()
		other.WaitForShutdown()
	}()
	select {
	case err := <-done:
		require.ErrorContains(t, err, "connection to NATS is closed")
		require.ErrorIs(t, err, nats.ErrAuthorization)
	case <-time.After(patience):
		t.Fatal("the gateway goes on without a connection")
	}
	_, err = net.Dial("tcp", g.Addr())
	require.Error(t, err, "nobody is served any more")
}
