package svc_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/natsd"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/auth"
	"github.com/banksman/banksman/services/gateway/internal/cursor"
	"github.com/banksman/banksman/services/gateway/internal/projection"
	"github.com/banksman/banksman/services/gateway/internal/svc"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// The embedded server's own, which outlive its shutdown by a moment.
		goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server.(*fileStore).flushLoop"),
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*fileStore).syncBlocks"),
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.startSystemInfo"),
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server/pse.updateUsage"),
	)
}

const patience = 20 * time.Second

// stub answers what the service asks of an engine; the rest is not called.
type stub struct {
	api.Engine
	mu       sync.Mutex
	ready    chan struct{}
	list     []wire.Interaction
	view     *projection.Projection // what waits, in place of list
	attempts []api.Attempt
	hold     chan struct{} // get waits for it where set
	calls    atomic.Int64  // of get
}

func (s *stub) Ready() <-chan struct{} { return s.ready }

func (s *stub) List(_ context.Context, q api.List) (out []wire.Interaction, more bool, err error) {
	if s.view != nil {
		out, more = s.view.ListOpen(q)
		return out, more, nil
	}
	behind := q.After == cursor.Row{}
	for _, ix := range s.list {
		switch {
		case !behind:
			behind = cursor.RowOf(&ix) == q.After
		case ix.State != q.State || q.Tenant != "" && ix.Tenant != q.Tenant:
		case len(out) == q.Limit:
			return out, true, nil
		default:
			out = append(out, ix)
		}
	}
	return out, false, nil
}

func (s *stub) Interaction(ctx context.Context, id string) (*wire.Interaction, error) {
	s.calls.Add(1)
	if s.hold != nil && id == "held" {
		select {
		case <-s.hold:
		case <-ctx.Done():
		}
	}
	for _, ix := range s.list {
		if ix.ID == id || ix.Key == id {
			return &ix, nil
		}
	}
	return nil, api.ErrNotFound
}

func (s *stub) Decide(_ context.Context, a api.Attempt) wire.Receipt {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attempts = append(s.attempts, a)
	return wire.Receipt{Receipt: hitl.Receipt{Status: hitl.Accepted, Decision: &hitl.Decision{Principal: a.Principal}}}
}

// Ask waits like get does.
func (s *stub) Ask(ctx context.Context, tenant string, by hitl.Principal, raw []byte, wait time.Duration) (*wire.AskReply, *wire.Error) {
	select {
	case <-s.hold:
	case <-ctx.Done():
	}
	return &wire.AskReply{Status: wire.AskPending, ID: fmt.Sprintf("%s %s:%s %s %s", tenant, by.Kind, by.ID, raw, wait)}, nil
}

func ix(id, tenant, state string) wire.Interaction {
	return wire.Interaction{ID: id, State: state, Summary: wire.Summary{
		RequestID: id, Key: tenant + ".agents." + id, Tenant: tenant, Owner: "agents", Digest: "d", Body: &wire.Body{},
	}}
}

// world is a real server with accounts, and a service on it.
type world struct {
	t    *testing.T
	dir  string
	stub *stub
	auth *auth.Store
	core *nats.Conn
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), stub: &stub{ready: make(chan struct{})}}
	close(w.stub.ready)
	require.NoError(t, natsd.Write(natsd.Plan{
		Dir: w.dir, Port: natsd.RandomPort, Durability: natsd.DurabilityRelaxed,
		Owners:  []natsd.Owner{{Name: "agents", Pool: true}, {Name: "cli", Caller: true}},
		Callers: []natsd.Caller{{Name: "ci"}, {Tenant: "other", Name: "ci"}},
	}))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	srv, err := natsd.Start(ctx, natsd.StartOptions{ConfigFile: natsd.ConfigFile(w.dir)})
	require.NoError(t, err)
	t.Cleanup(srv.Shutdown)
	require.NoError(t, journal.Provision(ctx, w.connect(bus.RoleProvisioner), journal.Config{}))
	w.core = w.connect(bus.RoleGateway)
	w.auth, err = auth.Open(ctx, auth.Options{
		Conn: w.core, Logger: slog.New(slog.DiscardHandler), Person: hitl.Principal{Kind: "person", ID: "owner", Name: "Ada"},
	})
	require.NoError(t, err)
	t.Cleanup(w.serve(w.core))
	// It serves when a call is answered.
	cli := w.caller("", "cli")
	require.Eventually(t, func() bool {
		_, err := cli.List(t.Context(), wire.ListCall{})
		return err == nil
	}, patience, 5*time.Millisecond)
	return w
}

// serve runs a service until stop is called.
func (w *world) serve(nc *nats.Conn) (stop func()) {
	w.t.Helper()
	base, err := url.Parse("http://127.0.0.1:8080")
	require.NoError(w.t, err)
	s := svc.New(svc.Options{
		Conn: nc, Engine: w.stub, Asker: w.stub, Auth: w.auth, Logger: slog.New(slog.DiscardHandler), BaseURL: base,
	})
	run, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(run) }()
	return func() {
		cancel()
		require.NoError(w.t, <-done)
	}
}

func (w *world) connect(role bus.Role) *nats.Conn {
	w.t.Helper()
	creds, err := bus.LoadCredentials(natsd.CredentialsFile(w.dir, role, "", ""))
	require.NoError(w.t, err)
	option, err := creds.Auth()
	require.NoError(w.t, err)
	closed := make(chan struct{})
	nc, err := nats.Connect(creds.URLs[0], option, nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
	require.NoError(w.t, err)
	w.t.Cleanup(func() {
		nc.Close()
		<-closed
	})
	return nc
}

func (w *world) caller(tenant, name string) *bus.Client {
	w.t.Helper()
	role := bus.RoleCaller
	if name == "cli" || name == "agents" {
		role = bus.RoleOwner
	}
	if name == "notifier" {
		role = bus.RoleNotifier
	}
	if tenant == "" {
		tenant = bus.DefaultTenant
	}
	creds, err := bus.LoadCredentials(natsd.CredentialsFile(w.dir, role, tenant, name))
	require.NoError(w.t, err)
	c, err := bus.Connect(w.t.Context(), creds, bus.Options{})
	require.NoError(w.t, err)
	w.t.Cleanup(c.Close)
	return c
}

func refusal(t *testing.T, err error) wire.Error {
	t.Helper()
	var refused *bus.ServiceError
	require.ErrorAs(t, err, &refused)
	require.NotEmpty(t, refused.Body.Error)
	return refused.Body
}

func TestListAndGet(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.stub.list = []wire.Interaction{
		ix("a", "default", wire.StatePending), ix("b", "other", wire.StatePending), ix("c", "default", wire.StateClosed),
	}
	for _, name := range []string{"cli", "ci", "notifier"} {
		t.Run(name, func(t *testing.T) {
			c := w.caller("", name)
			list, err := c.List(t.Context(), wire.ListCall{})
			require.NoError(t, err)
			require.Len(t, list, 1, "of its own tenant only")
			require.Equal(t, "a", list[0].ID)
			require.Nil(t, list[0].Body)
			list, err = c.List(t.Context(), wire.ListCall{State: wire.StateClosed})
			require.NoError(t, err)
			require.Equal(t, "c", list[0].ID)
			got, err := c.Get(t.Context(), "default.agents.a")
			require.NoError(t, err)
			require.NotNil(t, got.Body)
			for _, id := range []string{"b", "other.agents.b", "none"} {
				_, err = c.Get(t.Context(), id)
				require.Equal(t, "not_found", refusal(t, err).Code, id)
			}
			_, err = c.Get(t.Context(), "")
			require.Equal(t, "id", refusal(t, err).Fields[0].Field)
			_, err = c.List(t.Context(), wire.ListCall{State: "open"})
			require.Equal(t, "state", refusal(t, err).Fields[0].Field)
		})
	}
	other, err := w.caller("other", "ci").List(t.Context(), wire.ListCall{})
	require.NoError(t, err)
	require.Equal(t, "b", other[0].ID)
}

func TestListIsCutToWhatTheServerTakes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 900 {
		x := ix(fmt.Sprint(i), "default", wire.StateClosed)
		x.Title = strings.Repeat("x", 16<<10)
		w.stub.list = append(w.stub.list, x)
	}
	list, err := w.caller("", "cli").List(t.Context(), wire.ListCall{State: wire.StateClosed})
	require.NoError(t, err)
	require.Greater(t, len(list), 400)
	require.Less(t, len(list), 900)
}

func TestDecideNeedsAPerson(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.stub.list = []wire.Interaction{ix("a", "default", wire.StatePending), ix("b", "other", wire.StatePending)}
	token, _, err := w.auth.Grant(t.Context())
	require.NoError(t, err)
	link, _, err := w.auth.Link(t.Context())
	require.NoError(t, err)
	allow := hitl.Response{Ref: "r", Decision: "allow", Digest: "d"}
	for _, name := range []string{"cli", "ci", "notifier"} {
		c := w.caller("", name)
		for _, bad := range []string{"", "x", link, strings.Repeat("A", 43)} {
			rec, err := c.Decide(t.Context(), wire.DecideCall{ID: "a", Token: bad, Response: allow})
			require.NoError(t, err)
			require.Equal(t, hitl.Forbidden, rec.Status, "%s with %q", name, bad)
			require.NotEmpty(t, rec.Error)
		}
	}
	require.Empty(t, w.stub.attempts)
	c := w.caller("", "cli")
	rec, err := c.Decide(t.Context(), wire.DecideCall{ID: "b", Token: token, Response: allow})
	require.NoError(t, err)
	require.Equal(t, hitl.NotFound, rec.Status, "of another tenant")
	rec, err = c.Decide(t.Context(), wire.DecideCall{ID: "", Token: token, Response: allow})
	require.NoError(t, err)
	require.Equal(t, hitl.BadInput, rec.Status)
	require.Empty(t, w.stub.attempts)
	rec, err = c.Decide(t.Context(), wire.DecideCall{ID: "a", Token: token, Response: allow})
	require.NoError(t, err)
	require.Equal(t, hitl.Accepted, rec.Status)
	require.Equal(t, "r", rec.Ref)
	require.Len(t, w.stub.attempts, 1)
	got := w.stub.attempts[0]
	require.Equal(t, hitl.Principal{Kind: "person", ID: "owner", Name: "Ada"}, got.Principal)
	require.Equal(t, "cli", got.Channel)
	require.Equal(t, "default.agents.a", got.RequestID)
	require.False(t, got.WaiveDigest)
}

func TestLogin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cli := w.caller("", "cli")
	for _, name := range []string{"ci", "notifier"} {
		for _, call := range []wire.LoginCall{{}, {CLI: true}, {Poll: "x"}} {
			_, err := w.caller("", name).Login(t.Context(), call)
			require.Equal(t, "forbidden", refusal(t, err).Code, name)
		}
	}
	out, err := cli.Login(t.Context(), wire.LoginCall{})
	require.NoError(t, err)
	link, ok := strings.CutPrefix(out.URL, "http://127.0.0.1:8080/#login=")
	require.True(t, ok, out.URL)
	_, _, err = w.auth.Exchange(t.Context(), link)
	require.NoError(t, err)

	begun, err := cli.Login(t.Context(), wire.LoginCall{CLI: true, Name: "laptop"})
	require.NoError(t, err)
	waits, err := cli.Login(t.Context(), wire.LoginCall{CLI: true, Poll: begun.Poll})
	require.NoError(t, err)
	require.Equal(t, begun, waits)
	require.Empty(t, waits.Token)
	require.NoError(t, w.auth.ConfirmCLI(t.Context(), begun.Code, true, hitl.Principal{Kind: "person", ID: "owner"}))
	done, err := cli.Login(t.Context(), wire.LoginCall{Poll: begun.Poll})
	require.NoError(t, err)
	sess, err := w.auth.Check(t.Context(), done.Token)
	require.NoError(t, err)
	require.Equal(t, "cli", sess.Channel)
	_, err = cli.Login(t.Context(), wire.LoginCall{Poll: begun.Poll})
	require.Equal(t, "not_found", refusal(t, err).Code)
	begun, err = cli.Login(t.Context(), wire.LoginCall{CLI: true})
	require.NoError(t, err)
	require.NoError(t, w.auth.ConfirmCLI(t.Context(), begun.Code, false, hitl.Principal{}))
	_, err = cli.Login(t.Context(), wire.LoginCall{Poll: begun.Poll})
	require.Equal(t, "forbidden", refusal(t, err).Code)
}

func TestWhatIsNotOfferedSaysSo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.caller("", "cli")
	for verb, code := range map[string]string{wire.VerbCancel: "unsupported", "drop": "not_found"} {
		require.Equal(t, code, refusal(t, c.Call(t.Context(), verb, struct{}{}, nil)).Code, verb)
	}
	for _, body := range []string{`{`, `[]`, `{"id":1}`, `{"id":"a","id":"b"}`, `{"id":"a","ID":"b"}`} {
		err := c.Call(t.Context(), wire.VerbGet, json.RawMessage(body), nil)
		if !json.Valid([]byte(body)) {
			continue // the client refuses it already
		}
		e := refusal(t, err)
		require.Equal(t, "invalid", e.Code, body)
		require.NotEmpty(t, e.Fields, body)
	}
	w.stub.ready = make(chan struct{})
	_, err := c.List(t.Context(), wire.ListCall{})
	require.Equal(t, "unavailable", refusal(t, err).Code)
}

// A reply subject that a caller chose must never be published to: it could be
// a decision's subject. Only those count that the server itself made.
func TestNoReplyToASubjectOfSomebodysChoice(t *testing.T) {
	t.Parallel()
	conf := filepath.Join(t.TempDir(), "server.conf")
	require.NoError(t, os.WriteFile(conf, []byte(`
		host: 127.0.0.1
		port: -1
		accounts {
			CORE {
				users: [ { user: gateway, password: x }, { user: other, password: x } ]
				exports: [ { service: "hitl.svc.>" } ]
			}
			A {
				users: [ { user: a, password: x } ]
				imports: [ { service: { account: CORE, subject: "hitl.svc.default.a.*" } } ]
			}
		}`), 0o600))
	opts, err := server.ProcessConfigFile(conf)
	require.NoError(t, err)
	opts.NoSigs, opts.NoLog = true, true
	srv, err := server.NewServer(opts)
	require.NoError(t, err)
	srv.Start()
	require.True(t, srv.ReadyForConnections(patience))
	t.Cleanup(func() {
		srv.Shutdown()
		srv.WaitForShutdown()
	})
	dial := func(user string) *nats.Conn {
		closed := make(chan struct{})
		nc, err := nats.Connect(srv.ClientURL(), nats.UserInfo(user, "x"), nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
		require.NoError(t, err)
		t.Cleanup(func() {
			nc.Close()
			<-closed
		})
		return nc
	}
	core, other, a := dial("gateway"), dial("other"), dial("a")
	w := &stub{ready: make(chan struct{})}
	close(w.ready)
	s := svc.New(svc.Options{Conn: core, Engine: w, Logger: slog.New(slog.DiscardHandler)})
	run, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(run) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
	})
	call := func() error {
		_, err := a.Request("hitl.svc.default.a.list", nil, patience)
		return err
	}
	require.Eventually(t, func() bool { return call() == nil }, patience, 5*time.Millisecond)
	heard, err := other.SubscribeSync("hitl.dec.>")
	require.NoError(t, err)
	plain, err := other.SubscribeSync("plain.reply")
	require.NoError(t, err)
	require.NoError(t, other.PublishRequest("hitl.svc.default.a.list", "hitl.dec.default.agents.x", nil))
	require.NoError(t, other.PublishRequest("hitl.svc.default.a.list", "plain.reply", nil))
	require.NoError(t, other.Flush())
	require.NoError(t, call()) // taken after the two
	require.NoError(t, core.Flush())
	require.NoError(t, other.Flush())
	for _, sub := range []*nats.Subscription{heard, plain} {
		n, _, err := sub.Pending()
		require.NoError(t, err)
		require.Zero(t, n, sub.Subject)
	}
}

func TestFloodOfOneCallerLeavesTheOthersAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.stub.list = []wire.Interaction{ix("a", "default", wire.StatePending)}
	w.stub.hold = make(chan struct{})
	flood := w.caller("", "ci")
	var wg sync.WaitGroup
	const n = 1000
	refused := make(chan string, n)
	for range n {
		wg.Go(func() {
			var got *bus.ServiceError
			_, err := flood.Get(t.Context(), "held")
			if errors.As(err, &got) {
				refused <- got.Body.Code
			}
		})
	}
	// Its line is full when a call is turned away, while four are stuck.
	require.Equal(t, "unavailable", <-refused)
	for range 20 { // four of the flood are still stuck, so these went past them
		_, err := w.caller("", "cli").Get(t.Context(), "a")
		require.NoError(t, err)
	}
	close(w.stub.hold)
	wg.Wait()
	require.Len(t, refused, n-1, "every call is answered")
}

// A call that reached a service is answered, also by one that is about to end:
// nobody else has it. Here another one serves meanwhile.
func TestNoCallIsLostWhenAServiceEnds_B48(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.stub.list = []wire.Interaction{ix("a", "default", wire.StatePending)}
	calls, enough := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	for range 4 {
		ci := w.caller("", "ci")
		callers.Go(func() {
			for calls.Err() == nil {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				_, err := ci.Get(ctx, "a")
				cancel()
				if err != nil {
					t.Errorf("a call: %v", err)
					return
				}
			}
		})
	}
	for range 50 {
		stop := w.serve(w.connect(bus.RoleGateway))
		had := w.stub.calls.Load()
		require.Eventually(t, func() bool { return w.stub.calls.Load() > had+100 }, patience, time.Millisecond)
		stop()
	}
	enough()
	callers.Wait()
}

// Who asks is who calls, and asks that wait keep nobody from calling.
func TestAskIsHandedOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.stub.hold = make(chan struct{})
	w.stub.list = []wire.Interaction{ix("a", "default", wire.StatePending)}
	ci := w.caller("", "ci")
	const n = 12 // more than calls of one caller run at a time
	replies := make(chan wire.AskReply, n)
	var asking sync.WaitGroup
	for range n {
		asking.Go(func() {
			var out wire.AskReply
			if ci.Call(t.Context(), wire.VerbAsk, map[string]string{"key": "k"}, &out) == nil {
				replies <- out
			}
		})
	}
	got, err := ci.Get(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, "a", got.ID)
	close(w.stub.hold)
	asking.Wait()
	require.Len(t, replies, n)
	require.Equal(t, wire.AskReply{Status: wire.AskPending, ID: `default service:ci {"key":"k"} 25s`}, <-replies)
}
