package notifier_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/natsd"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/notifier"
	"github.com/banksman/banksman/services/notifier/internal/ledger"
)

const (
	patience = 30 * time.Second // bounds everything that is expected to happen
	tick     = 10 * time.Millisecond
	baseURL  = "https://banksman.test/"
	// toolInput must never leave the house.
	toolInput = "rm -rf /the/tool/input"
)

// What a child process is told; see runAsChild.
const (
	envCreds  = "NOTIFIER_TEST_CREDS"
	envConfig = "NOTIFIER_TEST_CONFIG"
	envLease  = "NOTIFIER_TEST_LEASE"
)

func TestMain(m *testing.M) {
	if os.Getenv(envCreds) != "" {
		runAsChild()
		return
	}
	goleak.VerifyTestMain(m)
}

// runAsChild is a notifier that can be killed.
func runAsChild() {
	cred, err := bus.LoadCredentials(os.Getenv(envCreds))
	if err != nil {
		panic(err)
	}
	cfg, err := notifier.LoadConfig(os.Getenv(envConfig))
	if err != nil {
		panic(err)
	}
	lease, err := time.ParseDuration(os.Getenv(envLease))
	if err != nil {
		panic(err)
	}
	n, err := notifier.New(context.Background(), notifier.Options{Credentials: cred, Config: cfg, BaseURL: baseURL, Lease: lease})
	if err != nil {
		panic(err)
	}
	panic(n.Run(context.Background()))
}

// bench is a server with the product's streams and accounts.
type bench struct {
	dir    string
	srv    *natsd.Server
	gw     *journal.JetStream
	cred   *bus.Credentials // the notifier's
	ledger *ledger.Ledger   // read by the test
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := newBareBench(t)
	b.provision(t)
	return b
}

func (b *bench) provision(t *testing.T) {
	t.Helper()
	require.NoError(t, journal.Provision(t.Context(), b.connect(t, bus.RoleProvisioner), journal.Config{}))
}

// newBareBench has no streams yet.
func newBareBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{dir: t.TempDir()}
	require.NoError(t, natsd.Write(natsd.Plan{
		Dir: b.dir, Port: natsd.RandomPort, Durability: natsd.DurabilityRelaxed, Owners: []natsd.Owner{{Name: "agents"}},
		Callers: []natsd.Caller{{Name: "policy"}, {Name: "other"}},
	}))
	b.start(t)
	b.gw = journal.New(b.connect(t, bus.RoleGateway), journal.Options{})
	var err error
	b.cred, err = bus.LoadCredentials(natsd.CredentialsFile(b.dir, bus.RoleNotifier, "", ""))
	require.NoError(t, err)
	b.ledger, err = ledger.Open(t.Context(), b.connect(t, bus.RoleNotifier), 1)
	require.NoError(t, err)
	return b
}

func (b *bench) start(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	srv, err := natsd.Start(ctx, natsd.StartOptions{ConfigFile: natsd.ConfigFile(b.dir)})
	require.NoError(t, err)
	t.Cleanup(srv.Shutdown)
	b.srv = srv
}

func (b *bench) connect(t *testing.T, role bus.Role) *nats.Conn {
	t.Helper()
	return b.connectAs(t, role, "")
}

func (b *bench) connectAs(t *testing.T, role bus.Role, name string) *nats.Conn {
	t.Helper()
	cred, err := bus.LoadCredentials(natsd.CredentialsFile(b.dir, role, "", name))
	require.NoError(t, err)
	auth, err := cred.Auth()
	require.NoError(t, err)
	closed := make(chan struct{})
	nc, err := nats.Connect(cred.URLs[0], auth, nats.ReconnectBufSize(-1), nats.MaxReconnects(-1),
		nats.ReconnectWait(50*time.Millisecond), nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
	require.NoError(t, err)
	t.Cleanup(func() {
		nc.Close()
		<-closed
	})
	return nc
}

// running is a notifier under test.
type running struct {
	*notifier.Notifier
	log  *logs
	stop func() // waits for its end
}

// notify starts a notifier in this process; it is stopped with the test.
func (b *bench) notify(t *testing.T, o notifier.Options) *running {
	t.Helper()
	r := &running{log: &logs{}}
	o.Credentials = b.cred
	o.Logger = slog.New(slog.NewJSONHandler(r.log, nil))
	if o.BaseURL == "" {
		o.BaseURL = baseURL
	}
	n, err := notifier.New(t.Context(), o)
	require.NoError(t, err)
	r.Notifier = n
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1) // one result
	go func() { done <- n.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			require.NoError(t, err)
		case <-time.After(patience):
			t.Error("the notifier does not stop")
		}
	})
	t.Cleanup(r.stop)
	return r
}

// gauge is one of the notifier's figures now, by its only label's values.
func (r *running) gauge(t *testing.T, name string) map[string]float64 {
	t.Helper()
	families, err := r.Metrics().Gather()
	require.NoError(t, err)
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() != name {
				continue
			}
			label := ""
			for _, l := range m.GetLabel() {
				label = l.GetValue()
			}
			out[label] = m.GetGauge().GetValue()
		}
	}
	return out
}

// queues waits until so many messages are planned and not sent, as the notifier itself
// sees it: what stands in the ledger it may not have heard of yet.
func (r *running) queues(t *testing.T, n float64) {
	t.Helper()
	require.Eventually(t, func() bool { return r.gauge(t, "banksman_notifier_deliveries_waiting")[""] == n }, patience, tick)
}

// child starts a notifier in a process of its own and returns what kills it.
func (b *bench) child(t *testing.T, cfg string) (kill func()) {
	t.Helper()
	return b.childWithLease(t, cfg, notifier.DefaultLease)
}

func (b *bench) childWithLease(t *testing.T, cfg string, lease time.Duration) (kill func()) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "notifier.json")
	require.NoError(t, os.WriteFile(file, []byte(cfg), 0o600))
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envConfig+"="+file, envLease+"="+lease.String(),
		envCreds+"="+natsd.CredentialsFile(b.dir, bus.RoleNotifier, "", ""))
	require.NoError(t, cmd.Start())
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // says that it was killed
	})
	t.Cleanup(kill)
	return kill
}

func newRef(i int) subject.Ref {
	return subject.NewRef(bus.DefaultTenant, "agents", hitl.ID(bus.DefaultTenant, "agents", "ask-"+strconv.Itoa(i), 1))
}

// summary is an approval that waits, without a deadline.
func summary(ref subject.Ref, at time.Time) wire.Summary {
	return wire.Summary{
		RequestID: ref.ID, Key: ref.String(), RequestType: "tool_approval", Kind: hitl.KindApproval, Presentation: "tool",
		SessionID: "s1", SessionKey: "default.agents.s1", Tenant: ref.Tenant, Owner: ref.Owner, ProjectID: "shop",
		AgentName: "build-7", ToolName: "Bash", Headline: "build-7 wants to write " + toolInput, Title: "Clean up the release",
		ToolInput: toolInput, Digest: "d", Risk: "high", CreatedAt: at, ServerTime: at,
	}
}

func (b *bench) open(t *testing.T, ref subject.Ref, s wire.Summary) {
	t.Helper()
	b.event(t, ref, subject.Open, wire.Opened{V: 1, Summary: s, RequestSeq: 1})
}

func (b *bench) event(t *testing.T, ref subject.Ref, phase string, body any) {
	t.Helper()
	data, err := hitl.Marshal(body)
	require.NoError(t, err)
	_, err = b.gw.WriteEvent(t.Context(), subject.Event(ref, "s1", phase), data)
	require.NoError(t, err)
}

var (
	ada     = hitl.Principal{Kind: "person", ID: "ada", Name: "Ada"}
	nobody  = hitl.Principal{Kind: "system", ID: "gateway"}
	decided = time.Date(2026, 3, 1, 14, 2, 0, 0, time.UTC)
)

func (b *bench) end(t *testing.T, ref subject.Ref, s wire.Summary, outcome hitl.Outcome, who hitl.Principal) {
	t.Helper()
	b.event(t, ref, subject.Closed, wire.Ended{V: 1, Closed: wire.Closed{
		Summary: s, State: wire.StateClosed, Outcome: outcome,
		Decision: &hitl.Decision{V: 1, Content: hitl.Content{Outcome: outcome}, Principal: who, DecidedAt: decided},
	}})
}

// entry reads a delivery of the channel "hook".
func (b *bench) entry(t *testing.T, ref subject.Ref, step ledger.Step) *ledger.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := b.ledger.Get(ctx, ledger.Key{Ref: ref, Step: step, Channel: "hook"})
	if err != nil {
		require.ErrorIs(t, err, ledger.ErrNotFound)
		return nil
	}
	return r
}

// await waits until a delivery has the state.
func (b *bench) await(t *testing.T, ref subject.Ref, step ledger.Step, state ledger.State) *ledger.Record {
	t.Helper()
	var r *ledger.Record
	require.Eventually(t, func() bool {
		r = b.entry(t, ref, step)
		return r != nil && r.State == state
	}, patience, tick, "%s is not %s", step, state)
	return r
}

// call is a request that a receiver got, its signature checked.
type call struct {
	ID, Type, Subject string
	Data              map[string]any
	Raw               string
}

// receiver is an endpoint on loopback that checks what it is sent.
type receiver struct {
	*httptest.Server
	calls chan call // never closed
	// answer decides about the nth request, from 1; nil is 204.
	answer func(n int, w http.ResponseWriter, r *http.Request)

	mu  sync.Mutex
	n   int
	bad []string
}

const secret = "whsec_c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0" // 27 bytes

func newReceiver(t *testing.T, answer func(int, http.ResponseWriter, *http.Request)) *receiver {
	t.Helper()
	r := &receiver{calls: make(chan call, 4096), answer: answer}
	r.Server = httptest.NewServer(r)
	t.Cleanup(func() {
		r.Close()
		r.mu.Lock()
		defer r.mu.Unlock()
		require.Empty(t, r.bad)
	})
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	c := call{Raw: string(body)}
	problem := check(req, body, &c)
	r.mu.Lock()
	r.n++
	n := r.n
	if err != nil || problem != "" {
		r.bad = append(r.bad, fmt.Sprint(problem, err))
	}
	r.mu.Unlock()
	r.calls <- c
	if r.answer != nil {
		r.answer(n, w, req)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// check verifies a request the way a receiver would, with no code of ours.
func check(req *http.Request, body []byte, c *call) string {
	id, stamp := req.Header.Get("webhook-id"), req.Header.Get("webhook-timestamp")
	sec, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || time.Since(time.Unix(sec, 0)).Abs() > time.Minute {
		return "timestamp " + stamp
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		return err.Error()
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", id, stamp, body)
	if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); req.Header.Get("webhook-signature") != want {
		return "signature"
	}
	var ev struct {
		SpecVersion, ID, Source, Type, Subject, Time, DataContentType string
		Data                                                          map[string]any
	}
	if err := json.Unmarshal(body, &ev); err != nil {
		return err.Error()
	}
	_, err = time.Parse(time.RFC3339, ev.Time)
	if ev.SpecVersion != "1.0" || ev.ID != id || ev.Source == "" || ev.DataContentType != "application/json" || err != nil ||
		!strings.HasPrefix(req.Header.Get("content-type"), "application/cloudevents+json") || req.Method != http.MethodPost {
		return "envelope " + string(body)
	}
	if bytes.Contains(body, []byte(toolInput)) {
		return "tool input in " + string(body)
	}
	*c = call{ID: id, Type: ev.Type, Subject: ev.Subject, Data: ev.Data, Raw: string(body)}
	return ""
}

// next waits for the next request.
func (r *receiver) next(t *testing.T) call {
	t.Helper()
	select {
	case c := <-r.calls:
		return c
	case <-time.After(patience):
		t.Fatal("no request")
		return call{}
	}
}

// config is a webhook to r, as a file would have it.
func (r *receiver) config(after string) string {
	return fmt.Sprintf(`{"channels":[{"name":"hook","type":"webhook","after":%q,"allow_private":true,"url":%q,"secrets":[%q]}]}`,
		after, r.URL+"/hook?token=hidden", secret)
}

func (r *receiver) options(t *testing.T, after string) notifier.Options {
	t.Helper()
	file := filepath.Join(t.TempDir(), "notifier.json")
	require.NoError(t, os.WriteFile(file, []byte(r.config(after)), 0o600))
	cfg, err := notifier.LoadConfig(file)
	require.NoError(t, err)
	return notifier.Options{Config: cfg}
}

// logs keeps what was logged.
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

// lines returns the logged lines that contain all parts.
func (l *logs) lines(parts ...string) []string {
	var out []string
next:
	for line := range strings.Lines(l.String()) {
		for _, p := range parts {
			if !strings.Contains(line, p) {
				continue next
			}
		}
		out = append(out, line)
	}
	return out
}

// clock stands still until it is moved.
type clock struct {
	mu     sync.Mutex
	now    time.Time
	timers map[chan time.Time]time.Time
}

var _ notifier.Clock = (*clock)(nil)

func newClock(now time.Time) *clock { return &clock{now: now, timers: map[chan time.Time]time.Time{}} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Timer(d time.Duration) (<-chan time.Time, func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ch := make(chan time.Time, 1)
	c.timers[ch] = c.now.Add(d)
	c.fire()
	return ch, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.timers, ch)
	}
}

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	c.fire()
}

func (c *clock) fire() {
	for ch, at := range c.timers {
		if !at.After(c.now) {
			ch <- c.now
			delete(c.timers, ch)
		}
	}
}
