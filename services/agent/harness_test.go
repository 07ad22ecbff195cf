package agent_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/hitltest/modelapi"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/journal/relay"
	"github.com/banksman/banksman/pkg/natsd"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/agent"
)

const (
	// patience bounds everything that is expected to happen. A CLI takes long to
	// start on a busy machine.
	patience = 2 * time.Minute

	workerCommand = "__worker"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case agent.GuardCommand:
			os.Exit(agent.RunGuard(os.Args[2:]))
		case mcpCommand:
			os.Exit(mcpServer())
		case workerCommand:
			os.Exit(childWorker(os.Args[2]))
		}
	}
	goleak.VerifyTestMain(m)
}

// setup is what a worker of a test needs; it travels to child processes.
type setup struct {
	Creds, Data, Claude, Cwd string
	Env                      []string
	Expires, TakeUp          time.Duration
}

func (s setup) options(client *bus.Client, log *slog.Logger) agent.Options {
	return agent.Options{
		Logger: log, Client: client, DataDir: s.Data, ClaudePath: s.Claude, ClaudeEnv: s.Env,
		Guard: []string{os.Args[0], agent.GuardCommand}, DefaultCwd: s.Cwd,
		Timeouts: agent.Timeouts{Expires: s.Expires, TakeUp: s.TakeUp}, DemoPace: -1,
	}
}

// childWorker runs a worker until it is killed.
func childWorker(arg string) int {
	var s setup
	err := json.Unmarshal([]byte(arg), &s)
	if err == nil {
		var cred *bus.Credentials
		if cred, err = bus.LoadCredentials(s.Creds); err == nil {
			var client *bus.Client
			if client, err = bus.Connect(context.Background(), cred, bus.Options{}); err == nil {
				var a *agent.Agent
				if a, err = agent.New(s.options(client, slog.New(slog.NewTextHandler(os.Stderr, nil)))); err == nil {
					err = a.Run(context.Background())
				}
			}
		}
	}
	_, _ = io.WriteString(os.Stderr, "worker child: "+err.Error()+"\n")
	return 1
}

// world is a bus with the product's streams and a small gateway that people
// of the test decide through.
type world struct {
	t   *testing.T
	dir string
	nc  *nats.Conn
	j   *journal.JetStream

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced at every change
	requests []*pending
	decided  map[subject.Ref]bool
	states   map[string][]hitl.SessionState
	events   map[string][]hitl.Event
	acks     map[string][]hitl.Ack // by interaction id
	// full are the kinds of what workers tell that are over the quota.
	full map[string]bool
}

func (w *world) admit(at subject.Parsed, _ int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.full[at.Kind] {
		return errors.New("quota.conversation: this owner has used up its day")
	}
	return nil
}

// pending is a request as the gateway has it.
type pending struct {
	*hitl.Request
	ref       subject.Ref
	raw       []byte
	seq       uint64
	at        time.Time
	withdrawn bool
}

func newWorld(t *testing.T) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	w := &world{
		t: t, dir: t.TempDir(), changed: make(chan struct{}), decided: map[subject.Ref]bool{},
		states: map[string][]hitl.SessionState{}, events: map[string][]hitl.Event{}, acks: map[string][]hitl.Ack{},
	}
	require.NoError(t, natsd.Write(natsd.Plan{
		Dir: w.dir, Port: natsd.RandomPort, Durability: natsd.DurabilityRelaxed,
		Owners: []natsd.Owner{{Name: "agents", Pool: true}},
	}))
	srv, err := natsd.Start(ctx, natsd.StartOptions{ConfigFile: natsd.ConfigFile(w.dir)})
	require.NoError(t, err)
	t.Cleanup(srv.Shutdown)
	admin := w.connect(bus.RoleProvisioner, "")
	cfg := journal.Config{Pools: []journal.Pool{{Tenant: bus.DefaultTenant, Pool: "agents"}}}
	require.NoError(t, journal.Provision(ctx, admin, cfg))
	admin.Close()

	w.nc = w.connect(bus.RoleGateway, "")
	cred, err := bus.LoadCredentials(natsd.CredentialsFile(w.dir, bus.RoleGateway, "", ""))
	require.NoError(t, err)
	_, key, err := cred.Signer()
	require.NoError(t, err)
	w.j = journal.New(w.nc, journal.Options{Signer: journal.NewSigner(key)})
	passOn, err := relay.Start(relay.Options{Conn: w.nc, Admit: w.admit})
	require.NoError(t, err)
	run, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { w.check(w.j.Intake(run, 1, w.intake)) })
	wg.Go(func() { w.check(w.j.Follow(run, journal.Transcripts, 1, nil, w.follow)) })
	t.Cleanup(func() {
		passOn.Close()
		stop()
		wg.Wait()
		w.nc.Close()
	})
	return w
}

func (w *world) check(err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		w.t.Errorf("gateway: %v", err)
	}
}

func (w *world) connect(role bus.Role, name string) *nats.Conn {
	w.t.Helper()
	cred, err := bus.LoadCredentials(natsd.CredentialsFile(w.dir, role, bus.DefaultTenant, name))
	require.NoError(w.t, err)
	auth, err := cred.Auth()
	require.NoError(w.t, err)
	nc, err := nats.Connect(strings.Join(cred.URLs, ","), auth, nats.ReconnectBufSize(-1))
	require.NoError(w.t, err)
	return nc
}

func (w *world) creds() string {
	return natsd.CredentialsFile(w.dir, bus.RoleOwner, bus.DefaultTenant, "agents")
}

func (w *world) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
	close(w.changed)
	w.changed = make(chan struct{})
}

// until waits for cond, which is called with w.mu held.
func (w *world) until(what string, cond func() bool) {
	w.t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		w.mu.Lock()
		ok, changed := cond(), w.changed
		w.mu.Unlock()
		if ok {
			return
		}
		if w.t.Failed() {
			w.dump()
			w.t.FailNow()
		}
		select {
		case <-changed:
		case <-limit.C:
			w.dump()
			require.FailNow(w.t, "never came: "+what)
		}
	}
}

func (w *world) dump() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.requests {
		w.t.Logf("request %s %s %q", p.ID, p.Key, p.Title)
	}
	for id, list := range w.states {
		for _, s := range list {
			w.t.Logf("state %s gen %d %s %s %s", id, s.Generation, s.State, s.Error, s.KillReason)
		}
	}
	for id, list := range w.events {
		for _, e := range list {
			w.t.Logf("event %s %s %s", id, e.Type, e.Data)
		}
	}
	for id, list := range w.acks {
		for _, a := range list {
			w.t.Logf("ack %s %s %s", id, a.Stage, a.Detail)
		}
	}
}

func (w *world) intake(ctx context.Context, d journal.Delivery) {
	p, err := subject.Parse(d.Subject)
	if err != nil {
		w.t.Errorf("intake: %v", err)
		return
	}
	switch p.Kind {
	case "req":
		r, err := hitl.ParseRequest(d.Data)
		if err != nil {
			w.t.Errorf("intake: %v", err)
			return
		}
		w.change(func() {
			if w.decided[p.Ref()] {
				return // sent again after its decision
			}
			w.requests = append(w.requests, &pending{Request: r, ref: p.Ref(), raw: d.Data, seq: d.Seq, at: d.Time})
		})
	case "cxl":
		var x hitl.Withdrawal
		if err := json.Unmarshal(d.Data, &x); err != nil {
			w.t.Errorf("intake: %v", err)
		}
		var req *pending
		w.change(func() {
			for _, r := range w.requests {
				if r.ref == p.Ref() {
					r.withdrawn, req = true, r
				}
			}
		})
		if req != nil {
			c := hitl.Content{Outcome: hitl.Cancelled}
			if x.Shutdown {
				c.Comment = hitl.ShutdownComment
			}
			_ = w.store(ctx, req, req.decision(c))
		}
	}
	w.check(d.Ack())
}

func (w *world) follow(m journal.Message) error {
	p, err := subject.Parse(m.Subject)
	if err != nil {
		return err
	}
	w.change(func() {
		switch p.Kind {
		case "ses":
			var s hitl.SessionState
			err = json.Unmarshal(m.Data, &s)
			w.states[p.Session] = append(w.states[p.Session], s)
		case "evt":
			var e hitl.Event
			err = json.Unmarshal(m.Data, &e)
			w.events[p.Session] = append(w.events[p.Session], e)
		case "ack":
			var a hitl.Ack
			err = json.Unmarshal(m.Data, &a)
			w.acks[p.ID] = append(w.acks[p.ID], a)
		}
	})
	return err
}

// request waits for one that fits and is still open.
func (w *world) request(what string, fits func(*pending) bool) *pending {
	w.t.Helper()
	var found *pending
	w.until("request "+what, func() bool {
		for _, p := range w.requests {
			if !w.decided[p.ref] && !p.withdrawn && fits(p) {
				found = p
				return true
			}
		}
		return false
	})
	return found
}

func tool(name, part string) func(*pending) bool {
	return func(p *pending) bool {
		return p.Tool != nil && p.Tool.Name == name && strings.Contains(string(p.Tool.Input), part)
	}
}

// decide answers as the person "anna" would, by the rules of the product.
func (w *world) decide(p *pending, r hitl.Response) *hitl.Decision {
	w.t.Helper()
	c, err := hitl.Evaluate(p.Request, &r)
	require.NoError(w.t, err)
	d := p.decision(*c)
	require.NoError(w.t, w.store(w.t.Context(), p, d))
	return d
}

func (p *pending) decision(c hitl.Content) *hitl.Decision {
	return &hitl.Decision{
		V: 1, DecisionID: uuid.NewString(), InteractionID: p.ID, Digest: hitl.Digest(p.raw), Content: c,
		Principal: hitl.Principal{Kind: "person", ID: "anna"}, Channel: "test", DecidedAt: time.Now().UTC(),
		RequestSeq: p.seq, RequestedAt: p.at, RequestB64: base64.StdEncoding.EncodeToString(p.raw),
	}
}

func (w *world) store(ctx context.Context, p *pending, d *hitl.Decision) error {
	_, _, err := w.j.Decide(ctx, p.ref, d)
	if err == nil {
		w.change(func() { w.decided[p.ref] = true })
		err = w.j.DeleteRequest(ctx, p.seq)
	}
	return err
}

// acked waits for the receipt of a stage.
func (w *world) acked(p *pending, stage string) hitl.Ack {
	w.t.Helper()
	var found hitl.Ack
	w.until("receipt "+stage+" for "+p.Title, func() bool {
		for _, a := range w.acks[p.ID] {
			if a.Stage == stage {
				found = a
				return true
			}
		}
		return false
	})
	return found
}

// reached waits until the session's newest state is the given one.
func (w *world) reached(session, state string) hitl.SessionState {
	w.t.Helper()
	var last hitl.SessionState
	w.until(session+" is "+state, func() bool {
		list := w.states[session]
		if len(list) == 0 {
			return false
		}
		last = list[len(list)-1]
		return last.State == state
	})
	return last
}

// generation waits until the session is in the hands of the n-th worker.
func (w *world) generation(session string, n int) hitl.SessionState {
	w.t.Helper()
	var last hitl.SessionState
	w.until(session+" has a new worker", func() bool {
		list := w.states[session]
		if len(list) > 0 {
			last = list[len(list)-1]
		}
		return last.Generation == n
	})
	return last
}

// saw waits for an event whose data contains part.
func (w *world) saw(session, kind, part string) hitl.Event {
	w.t.Helper()
	var found hitl.Event
	w.until("event "+kind+" "+part, func() bool {
		for _, e := range w.events[session] {
			if e.Type == kind && strings.Contains(string(e.Data), part) {
				found = e
				return true
			}
		}
		return false
	})
	return found
}

// begin puts a session into the queue.
func (w *world) begin(st hitl.Start) string {
	w.t.Helper()
	st.V, st.Tenant, st.Pool = 1, bus.DefaultTenant, "agents"
	if st.SessionID == "" {
		st.SessionID = uuid.NewString()
	}
	require.NoError(w.t, w.j.Enqueue(w.t.Context(), &st))
	return st.SessionID
}

// command sends one and waits for its reply. A worker claims a session before it
// listens for its commands: in that instant nobody does, and people try again.
func (w *world) command(session string, c hitl.Command) hitl.CommandReply {
	w.t.Helper()
	c.V = 1
	if c.CommandID == "" {
		c.CommandID = uuid.NewString()
	}
	raw, err := json.Marshal(c)
	require.NoError(w.t, err)
	var m *nats.Msg
	require.Eventually(w.t, func() bool {
		m, err = w.nc.Request(subject.Command(subject.NewSession(bus.DefaultTenant, "agents", session)), raw, patience)
		return !errors.Is(err, nats.ErrNoResponders)
	}, patience, 10*time.Millisecond)
	require.NoError(w.t, err)
	var reply hitl.CommandReply
	require.NoError(w.t, json.Unmarshal(m.Data, &reply))
	return reply
}

// worker is a worker in this process.
type worker struct {
	w      *world
	client *bus.Client
	stop   context.CancelFunc
	done   chan error // has the result of Run
	once   sync.Once
	said   logs
}

func (w *world) worker(s setup, more ...nats.Option) *worker {
	w.t.Helper()
	cred, err := bus.LoadCredentials(w.creds())
	require.NoError(w.t, err)
	client, err := bus.Connect(w.t.Context(), cred, bus.Options{Nats: more})
	require.NoError(w.t, err)
	k := &worker{w: w, client: client, done: make(chan error, 1)}
	log := slog.New(slog.NewTextHandler(io.MultiWriter(w.t.Output(), &k.said), nil))
	a, err := agent.New(s.options(client, log))
	require.NoError(w.t, err)
	ctx, stop := context.WithCancel(context.Background())
	k.stop = stop
	go func() { k.done <- a.Run(ctx) }()
	w.t.Cleanup(k.end)
	return k
}

// logs is what a worker logged.
type logs struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logs) has(part string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), part)
}

// end stops it as SIGTERM would, and waits.
func (k *worker) end() {
	k.once.Do(func() {
		k.stop()
		select {
		case err := <-k.done:
			if err != nil {
				k.w.t.Errorf("worker: %v", err)
			}
		case <-time.After(patience):
			k.w.t.Errorf("worker did not stop")
		}
		k.client.Close()
	})
}

// child is a worker in a process of its own.
type child struct {
	t   *testing.T
	cmd *exec.Cmd
}

func (w *world) child(s setup) *child {
	w.t.Helper()
	arg, err := json.Marshal(s)
	require.NoError(w.t, err)
	cmd := exec.Command(os.Args[0], workerCommand, string(arg))
	cmd.Stderr = w.t.Output()
	require.NoError(w.t, cmd.Start())
	c := &child{w.t, cmd}
	w.t.Cleanup(c.kill)
	return c
}

// kill is kill -9; it returns when the process is gone.
func (c *child) kill() {
	if c.cmd.ProcessState != nil {
		return
	}
	if err := c.cmd.Process.Kill(); err != nil {
		c.t.Errorf("kill: %v", err)
	}
	_ = c.cmd.Wait() // always "killed"
}

// claudeSetup is a worker that runs the real CLI against a scripted model.
func (w *world) claudeSetup(steps ...modelapi.Step) (setup, *modelapi.Server) {
	w.t.Helper()
	exe := modelapi.RequireCLI(w.t)
	api := modelapi.New(w.t, steps...)
	return setup{
		Creds: w.creds(), Data: w.t.TempDir(), Claude: exe, Cwd: w.t.TempDir(),
		Env: append(api.Env(os.Getenv("PATH"), w.t.TempDir()), "IS_SANDBOX=1"),
	}, api
}

func (w *world) demoSetup() setup {
	return setup{Creds: w.creds(), Data: w.t.TempDir(), Cwd: w.t.TempDir(), Claude: "claude-that-is-not-there"}
}
