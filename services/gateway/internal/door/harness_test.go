package door_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/coder/websocket"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/auth"
	"github.com/banksman/banksman/services/gateway/internal/contract/contracttest"
	"github.com/banksman/banksman/services/gateway/internal/door"
	"github.com/banksman/banksman/services/gateway/internal/door/socket"
	"github.com/banksman/banksman/services/gateway/internal/presence"
	"github.com/banksman/banksman/services/gateway/internal/pushes"
	"github.com/banksman/banksman/services/gateway/internal/rulebook"
	"github.com/banksman/banksman/services/gateway/internal/ticket"
	"github.com/banksman/banksman/services/gateway/internal/visit"
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

// patience bounds every wait for something that must happen.
const patience = 20 * time.Second

// house is a door on a real server of its own, with a fake engine behind it
// and a real session store.
type house struct {
	t      *testing.T
	fake   *fake
	door   *door.Door
	auth   *auth.Store
	pushes *pushes.Store
	alerts *ticket.Book
	ahead  *atomic.Int64 // of the pushes' clock, in ns
	url    string        // http://127.0.0.1:port
	token  string
	stop   func()
	server *http.Server
	// client holds every answer against the published contract.
	client *http.Client
}

var published = sync.OnceValues(contracttest.Load)

// checked is a transport that holds what passes it against the contract.
func (h *house) checked(base http.RoundTripper) http.RoundTripper {
	h.t.Helper()
	c, err := published()
	require.NoError(h.t, err)
	return &contracttest.Transport{Contract: c, Base: base, Report: func(err error) { h.t.Errorf("the contract: %v", err) }}
}

var webFiles = fstest.MapFS{
	"index.html":           {Data: []byte("<!doctype html><title>page</title>")},
	"assets/app-abc123.js": {Data: []byte("console.log(1)")},
	"favicon.svg":          {Data: []byte("<svg/>")},
}

// servers are the connections of the session stores, for what else lies there.
var servers sync.Map // *auth.Store to *nats.Conn

func newStore(t testing.TB, change ...func(*auth.Options)) *auth.Store {
	t.Helper()
	srv, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: -1, JetStream: true, JetStreamMaxStore: 64 << 30, StoreDir: t.TempDir(), NoSigs: true, NoLog: true, MaxPayload: 8 << 20,
	})
	require.NoError(t, err)
	srv.Start()
	require.True(t, srv.ReadyForConnections(patience))
	closed := make(chan struct{})
	nc, err := nats.Connect(srv.ClientURL(), nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
	require.NoError(t, err)
	t.Cleanup(func() {
		nc.Close()
		<-closed
		srv.Shutdown()
		srv.WaitForShutdown()
	})
	require.NoError(t, journal.Provision(t.Context(), nc, journal.Config{}))
	o := auth.Options{
		Conn: nc, Logger: slog.New(slog.DiscardHandler), Person: hitl.Principal{Kind: "person", ID: "owner", Name: "Ada"},
	}
	for _, fn := range change {
		fn(&o)
	}
	store, err := auth.Open(t.Context(), o)
	require.NoError(t, err)
	servers.Store(store, nc)
	return store
}

// visits notes the use of a store's sessions.
func visits(t testing.TB, store *auth.Store) *visit.Log {
	t.Helper()
	nc, _ := servers.Load(store)
	log, err := visit.Open(t.Context(), visit.Options{Conn: nc.(*nats.Conn), Auth: store, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	return log
}

func newHouse(t *testing.T, change ...func(*door.Options)) *house {
	t.Helper()
	return newHouseOf(t, newStore(t), change...)
}

// newHouseOf is newHouse with a session store of one's own.
func newHouseOf(t *testing.T, store *auth.Store, change ...func(*door.Options)) *house {
	t.Helper()
	h := &house{t: t, fake: newFake(), auth: store, ahead: &atomic.Int64{}}
	h.client = &http.Client{Transport: h.checked(http.DefaultTransport)}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	o := door.Options{
		Engine: h.fake, Asker: h.fake, Auth: h.auth, Logger: slog.New(slog.DiscardHandler), Web: webFiles, Links: http.NotFoundHandler(),
		Hosts: []string{l.Addr().String()}, DefaultCwd: "/home/ada", Tenant: "default", Pool: "agents",
		Limits: socket.Limits{Tick: 5 * time.Millisecond, SignIn: patience},
	}
	o.NotifierListens = func(context.Context) (bool, error) { return true, nil }
	o.Channels = func(context.Context) ([]wire.AlertChannel, error) { return nil, nil }
	o.AlertsOf = func(_ context.Context, key string) (*wire.Alerts, error) {
		return &wire.Alerts{Key: key, Notifier: wire.NotifierSilent, Deliveries: []wire.AlertDelivery{}}, nil
	}
	o.Presence = presence.New(presence.Options{Waiting: h.fake.Waiting, Tell: func(subject.Ref) error { return nil }, Logger: o.Logger})
	nc, _ := servers.Load(store)
	book, err := rulebook.Open(t.Context(), rulebook.Options{Conn: nc.(*nats.Conn), Logger: o.Logger, Rights: store.Standing})
	require.NoError(t, err)
	o.Rules = &rulebook.Desk{Book: book, Engine: h.fake}
	o.Visits = visits(t, store)
	browsers, err := pushes.Open(t.Context(), pushes.Options{Conn: nc.(*nats.Conn), Auth: store, Logger: o.Logger, PublicKey: "key", Clock: func() time.Time {
		return time.Now().Add(time.Duration(h.ahead.Load()))
	}})
	require.NoError(t, err)
	tickets, err := ticket.Open(t.Context(), ticket.Options{Conn: nc.(*nats.Conn), Engine: h.fake, People: store, Logger: o.Logger})
	require.NoError(t, err)
	h.pushes, h.alerts = browsers, tickets
	o.Pushes = &pushes.Desk{Store: browsers, Tickets: tickets, Logger: o.Logger}
	for _, fn := range change {
		fn(&o)
	}
	h.door, err = door.New(o)
	require.NoError(t, err)
	h.url = "http://" + l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	h.server = &http.Server{Handler: h.door.Handler(), ReadHeaderTimeout: patience, WriteTimeout: patience}
	wg.Go(func() { _ = h.server.Serve(smallSends{l}) })
	wg.Go(func() { h.door.Run(ctx) })
	wg.Go(func() { _ = book.Follow(ctx, h.door.RulesChanged) })
	told := make(chan struct{}, 1)
	wg.Go(func() {
		_ = h.auth.Follow(ctx, func(n auth.Notice) {
			h.door.Notice(n)
			select {
			case told <- struct{}{}:
			default:
			}
		})
	})
	var once sync.Once
	h.stop = func() {
		once.Do(func() {
			cancel()
			// As the gateway does. Close would also end a connection whose handshake was
			// answered and that the server has not handed over yet.
			limit, done := context.WithTimeout(context.Background(), patience)
			defer done()
			if h.server.Shutdown(limit) != nil {
				_ = h.server.Close()
			}
			wg.Wait()
		})
	}
	t.Cleanup(func() {
		h.stop()
		http.DefaultClient.CloseIdleConnections()
	})
	// Following has begun when the first sign-in is told.
	require.Eventually(t, func() bool {
		if h.token, _, err = h.auth.Grant(t.Context()); err != nil {
			return false
		}
		select {
		case <-told:
			return true
		case <-time.After(20 * time.Millisecond):
			return false
		}
	}, patience, time.Millisecond)
	return h
}

// smallSends keeps the kernel from swallowing what a slow reader does not read.
type smallSends struct{ net.Listener }

func (l smallSends) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(4 << 10)
	}
	return c, err
}

// call makes a request as the signed-in person; change it as needed.
func (h *house) call(method, path, body string, change ...func(*http.Request)) (int, []byte, http.Header) {
	h.t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(h.t.Context(), method, h.url+path, r)
	require.NoError(h.t, err)
	req.Header.Set("Authorization", "Bearer "+h.token)
	for _, fn := range change {
		fn(req)
	}
	res, err := h.client.Do(req)
	require.NoError(h.t, err)
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	require.NoError(h.t, err)
	return res.StatusCode, raw, res.Header
}

func (h *house) post(path, body string) (int, []byte) {
	h.t.Helper()
	status, raw, _ := h.call(http.MethodPost, path, body)
	return status, raw
}

func (h *house) get(path string) (int, []byte) {
	h.t.Helper()
	status, raw, _ := h.call(http.MethodGet, path, "")
	return status, raw
}

func httpError(t *testing.T, raw []byte) wire.Error {
	t.Helper()
	var e wire.Error
	require.NoError(t, json.Unmarshal(raw, &e), string(raw))
	require.NotEmpty(t, e.Code, string(raw))
	require.NotEmpty(t, e.Error, string(raw))
	return e
}

func fieldNames(fields []hitl.Field) (names []string) {
	for _, f := range fields {
		names = append(names, f.Field)
	}
	return names
}

// tab is a browser tab: a socket that is signed in.
type tab struct {
	h    *house
	conn *websocket.Conn
	box  []json.RawMessage // read, not yet taken
	contracttest.Socket
}

type head struct {
	Type       string `json:"type"`
	Ref        string `json:"ref"`
	RequestID  string `json:"request_id"`
	SessionKey string `json:"session_key"`
	Cursor     string `json:"cursor"`
}

func (h *house) dial(change ...func(*websocket.DialOptions)) (*tab, *http.Response, error) {
	h.t.Helper()
	o := &websocket.DialOptions{}
	for _, fn := range change {
		fn(o)
	}
	// Read first: it takes seconds on a busy machine, and from the handshake on the
	// time for signing in runs.
	c, err := published()
	require.NoError(h.t, err)
	conn, res, err := websocket.Dial(h.t.Context(), "ws"+strings.TrimPrefix(h.url, "http")+"/api/ws", o)
	if err != nil {
		return nil, res, err
	}
	conn.SetReadLimit(64 << 20)
	h.t.Cleanup(func() { _ = conn.CloseNow() })
	return &tab{h: h, conn: conn, Socket: contracttest.Socket{Contract: c}}, res, nil
}

// tab signs in and takes hello and what follows it at once.
func (h *house) tab(cursor string) (tb *tab, hello wire.Hello, snapshot []wire.ProcessState) {
	h.t.Helper()
	tb, _, err := h.dial()
	require.NoError(h.t, err)
	tb.send(map[string]string{"type": "auth", "token": h.token, "cursor": cursor})
	require.NoError(h.t, json.Unmarshal(tb.next(wire.TypeHello), &hello))
	for more := !hello.Recovered; more; {
		var page wire.ActiveProcesses
		require.NoError(h.t, json.Unmarshal(tb.next(wire.TypeActiveProcesses), &page))
		require.Equal(h.t, hello.Cursor, page.Cursor)
		snapshot = append(snapshot, page.Sessions...)
		more = page.More
	}
	return tb, hello, snapshot
}

func (tb *tab) send(v any) {
	tb.h.t.Helper()
	raw, ok := v.(string)
	if !ok {
		raw = string(text(v))
	}
	tb.Sent([]byte(raw))
	require.NoError(tb.h.t, tb.conn.Write(tb.h.t.Context(), websocket.MessageText, []byte(raw)))
}

// frame returns the next frame, whatever it is. A message is one frame or an
// array of them.
func (tb *tab) frame() (json.RawMessage, error) {
	if len(tb.box) == 0 {
		ctx, cancel := context.WithTimeout(tb.h.t.Context(), patience)
		defer cancel()
		_, raw, err := tb.conn.Read(ctx)
		if err != nil {
			return nil, err
		}
		if err := tb.Received(raw); err != nil {
			tb.h.t.Errorf("the contract: %v", err)
		}
		if bytes.HasPrefix(raw, []byte("[")) {
			if err := json.Unmarshal(raw, &tb.box); err != nil {
				return nil, err
			}
		} else {
			tb.box = []json.RawMessage{raw}
		}
	}
	f := tb.box[0]
	tb.box = tb.box[1:]
	return f, nil
}

// next returns the next frame of a type and passes over others.
func (tb *tab) next(typ string) json.RawMessage {
	tb.h.t.Helper()
	return tb.find(func(h head) bool { return h.Type == typ })
}

func (tb *tab) find(want func(head) bool) json.RawMessage {
	tb.h.t.Helper()
	for {
		raw, err := tb.frame()
		require.NoError(tb.h.t, err)
		var h head
		require.NoError(tb.h.t, json.Unmarshal(raw, &h), string(raw))
		if want(h) {
			return raw
		}
	}
}

func (tb *tab) receipt(ref string) wire.Receipt {
	tb.h.t.Helper()
	var rec wire.Receipt
	raw := tb.find(func(h head) bool { return h.Type == wire.TypeReceipt && h.Ref == ref })
	require.NoError(tb.h.t, json.Unmarshal(raw, &rec))
	return rec
}

// code reads until the socket ends and returns its close code.
func (tb *tab) code() int {
	tb.h.t.Helper()
	for {
		if _, err := tb.frame(); err != nil {
			require.NotErrorIs(tb.h.t, err, context.DeadlineExceeded)
			if websocket.CloseStatus(err) < 0 {
				tb.h.t.Log("it ended without a code: ", err)
			}
			return int(websocket.CloseStatus(err))
		}
	}
}

func (tb *tab) answer(a *asked, ref string, more map[string]any) {
	tb.h.t.Helper()
	f := map[string]any{
		"type": "pending_request_response", "ref": ref, "session_id": a.session, "request_id": a.summary.Key,
		"request_type": a.summary.RequestType, "digest": a.summary.Digest,
	}
	for k, v := range more {
		f[k] = v
	}
	tb.send(f)
}

func bash(session, call string) hitl.Request {
	return hitl.Request{
		Kind: hitl.KindApproval, SessionID: session, ToolCallID: call,
		Tool: &hitl.Tool{Name: "Bash", Input: json.RawMessage(`{"command":"make test"}`)},
	}
}

func question(session, call string) hitl.Request {
	return hitl.Request{
		Kind: hitl.KindQuestion, SessionID: session, ToolCallID: call,
		Questions: []hitl.Question{{
			ID: "db", Question: "Which database?", Options: []hitl.Option{{Label: "PostgreSQL"}, {Label: "SQLite"}},
		}},
	}
}

func mustURL(t *testing.T, s string) *url.URL {
	t.Helper()
	u, err := url.Parse(s)
	require.NoError(t, err)
	return u
}
