package engine

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/role"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(holderEnv); url != "" {
		fmt.Fprintln(os.Stderr, hold(url))
		os.Exit(1)
	}
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

// world is a real server with the product's streams, and one signing key.
type world struct {
	t   *testing.T
	srv *server.Server
	key ed25519.PrivateKey
}

func newWorld(t *testing.T) *world {
	t.Helper()
	srv, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: -1, JetStream: true, JetStreamMaxStore: 64 << 30, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
		MaxPayload: 8 << 20,
	})
	require.NoError(t, err)
	srv.Start()
	require.True(t, srv.ReadyForConnections(patience))
	t.Cleanup(func() {
		srv.Shutdown()
		srv.WaitForShutdown()
	})
	_, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	w := &world{t, srv, key}
	require.NoError(t, journal.Provision(t.Context(), w.connect(), journal.Config{
		Pools: []journal.Pool{{Tenant: "default", Pool: "agents"}},
	}))
	return w
}

func (w *world) connect() *nats.Conn {
	w.t.Helper()
	nc, err := nats.Connect(w.srv.ClientURL(), nats.ReconnectBufSize(-1))
	require.NoError(w.t, err)
	w.t.Cleanup(nc.Close)
	return nc
}

func (w *world) journal(nc *nats.Conn) *journal.JetStream {
	return journal.New(nc, journal.Options{Signer: journal.NewSigner(w.key)})
}

// gateway runs one engine until the test ends or stop is called.
func (w *world) gateway(change ...func(*Options)) (e *Engine, stop func()) {
	w.t.Helper()
	nc := w.connect()
	o := Options{Journal: w.journal(nc), Conn: nc, Logger: slog.New(slog.DiscardHandler)}
	for _, fn := range change {
		fn(&o)
	}
	e = New(o)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			require.NoError(w.t, <-done)
		})
	}
	w.t.Cleanup(stop)
	select {
	case <-e.Ready():
	case err := <-done:
		w.t.Fatalf("the engine ended: %v", err)
	case <-time.After(patience):
		w.t.Fatal("the engine never got ready")
	}
	return e, stop
}

// sharing gives a gateway a clock that is the server's as well.
func sharing(now func() time.Time) func(*Options) {
	return func(o *Options) { o.Clock, o.Journal = now, &oneClock{o.Journal, now} }
}

type oneClock struct {
	journal.Journal
	now func() time.Time
}

func (c *oneClock) Position(ctx context.Context, stream string) (journal.Position, error) {
	pos, err := c.Journal.Position(ctx, stream)
	pos.Now = c.now()
	return pos, err
}

// request makes an approval; change it as needed.
func request(key string, change ...func(*hitl.Request)) *hitl.Request {
	r := &hitl.Request{
		V: 1, Key: key, Kind: hitl.KindApproval, Tenant: "default", Owner: "agents", SessionID: "s1",
		Title: "Run make test", ToolCallID: "call-" + key,
		Tool: &hitl.Tool{Name: "Bash", Input: json.RawMessage(`{"command":"make test"}`)},
	}
	for _, fn := range change {
		fn(r)
	}
	r.ID = hitl.ID(r.Tenant, r.Owner, r.Key, 1)
	return r
}

func question(key string) *hitl.Request {
	return request(key, func(r *hitl.Request) {
		r.Kind, r.Tool = hitl.KindQuestion, nil
		r.Questions = []hitl.Question{{Question: "Which database?", Options: []hitl.Option{{Label: "Postgres"}, {Label: "SQLite"}}}}
	})
}

func expiring(d time.Duration) func(*hitl.Request) {
	return func(r *hitl.Request) {
		v := hitl.Duration(d)
		r.ExpiresIn = &v
	}
}

// ask stores a request as its owner would.
func (w *world) ask(nc *nats.Conn, r *hitl.Request) []byte {
	w.t.Helper()
	raw, err := hitl.Marshal(r)
	require.NoError(w.t, err)
	w.store(nc, subject.Request(ref(r)), raw)
	return raw
}

func (w *world) store(nc *nats.Conn, subj string, raw []byte) {
	w.t.Helper()
	m, err := nc.Request(subj, raw, patience)
	require.NoError(w.t, err)
	var ack struct {
		Seq   uint64 `json:"seq"`
		Error any    `json:"error"`
	}
	require.NoError(w.t, json.Unmarshal(m.Data, &ack))
	require.Nil(w.t, ack.Error)
}

func ref(r *hitl.Request) subject.Ref { return subject.NewRef(r.Tenant, r.Owner, r.ID) }

func person(id string) hitl.Principal { return hitl.Principal{Kind: "person", ID: id, Name: id} }

// answer is an attempt on r as a page that shows it would send it.
func answer(r *hitl.Request, raw []byte, who string, change func(*api.Attempt)) api.Attempt {
	a := api.Attempt{Principal: person(who), Rights: role.Everything(), Channel: "web", Assurance: "session"}
	a.RequestID, a.SessionID, a.Digest = r.ID, r.SessionID, hitl.Digest(raw)
	a.RequestType = hitl.RequestTypeOf(r.Kind)
	change(&a)
	return a
}

func allow(a *api.Attempt) { a.Decision = "allow" }
func deny(a *api.Attempt)  { a.Decision = "deny" }

// pending waits until exactly these wait, oldest first.
func pending(t *testing.T, e *Engine, ids ...string) {
	t.Helper()
	require.Eventually(t, func() bool {
		list, err := e.Interactions(t.Context(), wire.StatePending, 0)
		if err != nil || len(list) != len(ids) {
			return false
		}
		for i := range ids {
			if list[i].ID != ids[i] {
				return false
			}
		}
		return true
	}, patience, time.Millisecond)
}

// Interactions is the first page of a list.
func (e *Engine) Interactions(ctx context.Context, state string, _ int) ([]wire.Interaction, error) {
	list, _, err := e.List(ctx, api.List{State: state, Limit: 1000})
	return list, err
}

// outcome waits until r is decided and returns it.
func outcome(t *testing.T, e *Engine, r *hitl.Request) *wire.Interaction {
	t.Helper()
	var ix *wire.Interaction
	require.Eventually(t, func() bool {
		var err error
		ix, err = e.Interaction(t.Context(), ref(r).String())
		return err == nil && ix.State == wire.StateClosed
	}, patience, time.Millisecond)
	return ix
}

// recorder is a watcher that keeps what it got.
type recorder struct {
	mu      sync.Mutex
	updates []api.Update
}

func (r *recorder) add(u api.Update) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.updates = append(r.updates, u)
}

// events returns the types of a session's events so far, interactions only.
func (r *recorder) events(session string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, u := range r.updates {
		for _, ev := range u.Events {
			if u.SessionKey != session {
				continue
			}
			name := ev.Type
			if name == hitl.EventInteractionPending {
				var d struct{ Pending bool }
				_ = json.Unmarshal(ev.Data, &d)
				name += " " + strconv.FormatBool(d.Pending)
			}
			out = append(out, name)
		}
	}
	return out
}

// states decodes the process states of a session so far.
func (r *recorder) states(session string) []wire.ProcessState {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []wire.ProcessState
	for _, u := range r.updates {
		var st wire.ProcessState
		if u.All != nil && json.Unmarshal(u.All, &st) == nil && st.Type == wire.TypeProcessState && st.SessionKey == session {
			out = append(out, st)
		}
	}
	return out
}

func (r *recorder) last(session string) *wire.ProcessState {
	if all := r.states(session); len(all) > 0 {
		return &all[len(all)-1]
	}
	return nil
}

// signal makes the gateway look at its deadlines again, since a clock that is
// moved by hand fires no timer.
func signal(alarm chan<- struct{}) {
	select {
	case alarm <- struct{}{}:
	default:
	}
}
