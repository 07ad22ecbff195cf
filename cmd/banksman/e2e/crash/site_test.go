package crash

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/natsd"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway"
)

const pool = "agents"

// site is a real server with a real gateway, and a look at its streams.
type site struct {
	t     *testing.T
	dir   string
	nc    *nats.Conn
	j     *journal.JetStream
	url   string
	token string
	onAsk func(wire.Opened) // called for each open event, one at a time

	people sync.WaitGroup // who still thinks or answers

	mu      sync.Mutex
	total   int                          // messages stored so far, of all streams
	steps   map[string]int               // events and states stored so far, by worker
	asks    map[string]int               // open events stored so far, by worker
	changed chan struct{}                // closed and replaced at each
	states  map[string]hitl.SessionState // newest by session id
	texts   map[string][]string          // of the agent's stored events, by session id
	opened  map[subject.Ref]*wire.Opened // every interaction that people were shown
	closed  map[subject.Ref]*wire.Closed // and every end of one
	won     map[string]*hitl.Decision    // a person's accepted decisions, by key
}

func newSite(t *testing.T) *site {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s := &site{
		t: t, dir: t.TempDir(), changed: make(chan struct{}), onAsk: func(wire.Opened) {},
		steps: map[string]int{}, asks: map[string]int{}, states: map[string]hitl.SessionState{}, texts: map[string][]string{},
		opened: map[subject.Ref]*wire.Opened{}, closed: map[subject.Ref]*wire.Closed{}, won: map[string]*hitl.Decision{},
	}
	require.NoError(t, natsd.Write(natsd.Plan{
		Dir: s.dir, Port: natsd.RandomPort, Durability: natsd.DurabilityRelaxed, Owners: []natsd.Owner{{Name: pool, Pool: true}},
	}))
	srv, err := natsd.Start(ctx, natsd.StartOptions{ConfigFile: natsd.ConfigFile(s.dir)})
	require.NoError(t, err)
	t.Cleanup(srv.Shutdown)
	admin := s.connect(bus.RoleProvisioner)
	require.NoError(t, journal.Provision(ctx, admin, journal.Config{Pools: []journal.Pool{{Tenant: bus.DefaultTenant, Pool: pool}}}))
	admin.Close()

	cred, err := bus.LoadCredentials(natsd.CredentialsFile(s.dir, bus.RoleGateway, "", ""))
	require.NoError(t, err)
	login := filepath.Join(s.dir, "login")
	g, err := gateway.New(ctx, gateway.Options{Credentials: cred, Addr: "127.0.0.1:0", TestLogin: login})
	require.NoError(t, err)
	raw, err := os.ReadFile(login)
	require.NoError(t, err)
	s.url, s.token = "http://"+g.Addr(), strings.TrimSpace(string(raw))

	s.nc = s.connect(bus.RoleGateway)
	_, key, err := cred.Signer()
	require.NoError(t, err)
	s.j = journal.New(s.nc, journal.Options{Signer: journal.NewSigner(key)})
	run, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	follow := func(stream string) {
		wg.Go(func() {
			if err := s.j.Follow(run, stream, 1, nil, s.see); err != nil && run.Err() == nil {
				t.Errorf("follow %s: %v", stream, err)
			}
		})
	}
	follow(journal.Requests)
	follow(journal.Events)
	follow(journal.Transcripts)
	wg.Go(func() {
		if err := g.Run(run); err != nil {
			t.Errorf("gateway: %v", err)
		}
	})
	t.Cleanup(func() {
		stop()
		wg.Wait()
		s.nc.Close()
	})
	<-g.Ready()
	return s
}

func (s *site) connect(role bus.Role) *nats.Conn {
	s.t.Helper()
	cred, err := bus.LoadCredentials(natsd.CredentialsFile(s.dir, role, "", ""))
	require.NoError(s.t, err)
	auth, err := cred.Auth()
	require.NoError(s.t, err)
	nc, err := nats.Connect(strings.Join(cred.URLs, ","), auth, nats.ReconnectBufSize(-1))
	require.NoError(s.t, err)
	return nc
}

func (s *site) creds() string {
	return natsd.CredentialsFile(s.dir, bus.RoleOwner, bus.DefaultTenant, pool)
}

func (s *site) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

// see takes one stored message.
func (s *site) see(m journal.Message) error {
	p, err := subject.Parse(m.Subject)
	if err != nil {
		return err
	}
	var ask *wire.Opened
	s.change(func() {
		s.total++
		switch {
		case p.Kind == "ixe" && p.Tail == subject.Open:
			ask = &wire.Opened{}
			err = json.Unmarshal(m.Data, ask)
			s.opened[p.Ref()] = ask
			s.steps[s.states[ask.SessionID].Worker]++
			s.asks[s.states[ask.SessionID].Worker]++
		case p.Kind == "ixe":
			var e wire.Ended
			err = json.Unmarshal(m.Data, &e)
			s.closed[p.Ref()] = &e.Closed
			if o := s.opened[p.Ref()]; o != nil {
				s.steps[s.states[o.SessionID].Worker]++
			}
		case p.Kind == "ses":
			var st hitl.SessionState
			err = json.Unmarshal(m.Data, &st)
			s.states[st.SessionID] = st
			s.steps[st.Worker]++
		case p.Kind == "evt":
			s.texts[p.Session] = append(s.texts[p.Session], string(m.Data))
			s.steps[s.states[p.Session].Worker]++
		}
	})
	if ask != nil && err == nil {
		s.onAsk(*ask)
	}
	return err
}

// until waits for cond, which is called with s.mu held.
func (s *site) until(what string, cond func() bool) {
	s.t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		s.mu.Lock()
		ok, changed := cond(), s.changed
		s.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-limit.C:
			s.dump()
			require.FailNow(s.t, "never came: "+what)
		}
	}
}

func (s *site) dump() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, st := range s.states {
		s.t.Logf("session %s gen %d %s %s %s", id, st.Generation, st.State, st.Error, st.KillReason)
		list := s.texts[id]
		for _, e := range list[max(0, len(list)-4):] {
			s.t.Logf("  %.300s", e)
		}
	}
	for ref, o := range s.opened {
		if s.closed[ref] == nil {
			s.t.Logf("open: %s %s", ref, o.Title)
		}
	}
}

// moment is when a worker is ended: a while after its start, or after that many
// more steps or asks of its own were stored and a while, whichever is first. All
// are the stimulus, nothing waits for them to mean anything.
type moment struct {
	after       time.Duration
	steps, asks int
	then        time.Duration
}

// randomMoment is one time in five in a worker's start, two in its work, two just
// after one of its asks was shown.
func randomMoment(rng *rand.Rand, start time.Duration, most int) moment {
	m := moment{after: 8 * start} // an idle worker has no steps
	switch rng.IntN(5) {
	case 0:
		m.after = time.Duration(rng.Int64N(int64(start)))
	case 1, 2:
		m.steps = 1 + rng.IntN(most)
	default:
		m.asks, m.then = 1+rng.IntN(3), time.Duration(rng.Int64N(int64(start/5)))
	}
	return m
}

// await returns at the moment; steps and asks are called with s.mu held.
func (s *site) await(m moment, steps, asks func() int) {
	timer := time.NewTimer(m.after)
	defer timer.Stop()
	s.mu.Lock()
	wantSteps, wantAsks := steps()+m.steps, asks()+m.asks
	s.mu.Unlock()
	for {
		s.mu.Lock()
		reached, changed := m.steps > 0 && steps() >= wantSteps || m.asks > 0 && asks() >= wantAsks, s.changed
		s.mu.Unlock()
		if reached {
			<-time.After(m.then)
			return
		}
		select {
		case <-changed:
		case <-timer.C:
			return
		}
	}
}

// workerOf is the name of a data directory's worker: empty before its first.
func workerOf(data string) string {
	id, err := os.ReadFile(filepath.Join(data, "worker"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// asking reports whether something waits that the worker of a data directory asked.
func (s *site) asking(data string) bool {
	id := workerOf(data)
	s.mu.Lock()
	defer s.mu.Unlock()
	for ref, o := range s.opened {
		if id != "" && s.states[o.SessionID].Worker == id && s.closed[ref] == nil {
			return true
		}
	}
	return false
}

// call calls the gateway as a page would.
func (s *site) call(method, path string, body any) (int, []byte) {
	raw, err := json.Marshal(body)
	if err != nil {
		s.t.Errorf("%s: %v", path, err)
		return 0, nil
	}
	req, err := http.NewRequest(method, s.url+path, bytes.NewReader(raw))
	if err != nil {
		s.t.Errorf("%s: %v", path, err)
		return 0, nil
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, []byte(err.Error())
	}
	defer func() { _ = res.Body.Close() }()
	out, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, []byte(err.Error())
	}
	return res.StatusCode, out
}

// answer has a person decide after a while, unless the test ends before. How long
// people take is a part of what is tried; nothing waits for it.
func (s *site) answer(wait time.Duration, o wire.Opened, body map[string]any) {
	s.people.Go(func() {
		select {
		case <-s.t.Context().Done():
		case <-time.After(wait):
			s.decide(o, body)
		}
	})
}

// decide answers for a person and notes what was accepted.
func (s *site) decide(o wire.Opened, body map[string]any) {
	body["digest"] = o.Digest
	code, raw := s.call("POST", "/api/interactions/"+o.Key+"/decision", body)
	var r wire.Receipt
	if err := json.Unmarshal(raw, &r); err != nil || code == 0 {
		s.t.Errorf("decision on %s: %d %s", o.Key, code, raw)
		return
	}
	switch r.Status {
	case hitl.Accepted:
		s.change(func() { s.won[o.Key] = r.Decision })
	case hitl.AlreadyDecided: // withdrawn meanwhile
	default:
		s.t.Errorf("decision on %s: %s %s", o.Key, r.Status, r.Error)
	}
}

// interaction is what GET /api/interactions/{id} tells.
func (s *site) interaction(key string) wire.Interaction {
	s.t.Helper()
	code, raw := s.call("GET", "/api/interactions/"+key, nil)
	require.Equal(s.t, 200, code, "%s", raw)
	var ix wire.Interaction
	require.NoError(s.t, json.Unmarshal(raw, &ix))
	return ix
}

// decisions are all records of the audit stream, by key.
func (s *site) decisions() map[string]*hitl.Decision {
	s.t.Helper()
	out := map[string]*hitl.Decision{}
	require.NoError(s.t, s.j.Read(s.t.Context(), journal.Decisions, 1, nil, func(m journal.Message) error {
		d, err := hitl.ParseDecision(m.Data)
		if err != nil {
			return err
		}
		p, err := subject.Parse(m.Subject)
		if err != nil {
			return err
		}
		if out[p.Ref().String()] != nil {
			s.t.Errorf("two decisions for %s", p.Ref())
		}
		raw, err := base64.StdEncoding.DecodeString(d.RequestB64)
		if err != nil || hitl.Digest(raw) != d.Digest {
			s.t.Errorf("decision %s is not about its request", p.Ref())
		}
		out[p.Ref().String()] = d
		return nil
	}))
	return out
}

// ledger returns the interactions whose approval was handed out, from a data
// directory, and fails at one that is there twice.
func ledger(t *testing.T, data string) map[string]string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(data, "approvals.jsonl"))
	require.NoError(t, err)
	out := map[string]string{}
	for line := range strings.Lines(string(raw)) {
		var e struct {
			Interaction string `json:"interaction_id"`
			Decision    string `json:"decision_id"`
		}
		require.NoError(t, json.Unmarshal([]byte(line), &e))
		require.NotContains(t, out, e.Interaction, "an approval is used once")
		out[e.Interaction] = e.Decision
	}
	return out
}
