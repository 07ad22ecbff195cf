package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/trace"
	"github.com/banksman/banksman/services/agent/internal/gate"
	"github.com/banksman/banksman/services/agent/internal/metrics"
	"github.com/banksman/banksman/services/agent/internal/runtime"
	"github.com/banksman/banksman/services/agent/internal/store"
)

const (
	beatEvery = 5 * time.Second
	lookEvery = 30 * time.Second
	// takeUpLimit is how long a session that cannot start again yet is kept.
	takeUpLimit = time.Hour
	// usedFor is how long the use of an approval is remembered. The server keeps
	// decisions for a year, so it can bring up none that is older.
	usedFor  = 400 * 24 * time.Hour
	maxTitle = 80 // runes
)

// Options wire a Worker.
type Options struct {
	Logger   *slog.Logger
	Client   *bus.Client
	Pool     string
	WorkerID string // default: one that stays with the data directory
	DataDir  string
	// DefaultCwd is where a session runs that names no directory.
	DefaultCwd string
	Runtimes   []runtime.Runtime
	// Expires is how long an ask waits: 0 leaves it to the default, less than 0
	// means for ever. Attention likewise, when others should be told.
	Expires, Attention time.Duration
	// TakeUp is how long a session of an earlier process is kept that cannot start
	// again yet; 0: an hour.
	TakeUp time.Duration
	// Metrics count; nil: nothing does.
	Metrics *metrics.Metrics
	Tracer  *trace.Tracer // nil: none
}

// Worker runs sessions.
type Worker struct {
	log       *slog.Logger
	client    *bus.Client
	pool      string
	id        string
	cwd       string
	dir       *store.Dir
	ledger    *gate.Ledger
	runtimes  map[string]runtime.Runtime
	names     []string
	expires   *hitl.Duration
	attention *hitl.Duration
	counts    *metrics.Metrics
	tracer    *trace.Tracer
	takeUp    time.Duration

	stopping chan struct{} // closed when Run begins to stop
	wg       sync.WaitGroup

	mu       sync.Mutex
	sessions map[string]*session
	unsure   map[string]*store.Session // claims of unknown outcome, to be made again as they were
	stopped  bool
}

// New takes the data directory. Run gives it up.
func New(o Options) (*Worker, error) {
	dir, err := store.Open(o.DataDir)
	if err != nil {
		return nil, err
	}
	ledger, err := gate.OpenLedger(dir.LedgerPath())
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	if dropped, err := ledger.Trim(time.Now(), usedFor); err != nil {
		o.Logger.Error("old entries stay in the ledger of approvals", "error", err)
	} else if dropped > 0 {
		o.Logger.Info("old entries dropped from the ledger of approvals", "entries", dropped)
	}
	id := o.WorkerID
	if id == "" {
		if id, err = dir.WorkerID(uuid.NewString); err != nil {
			return nil, errors.Join(fmt.Errorf("worker id: %w", err), ledger.Close(), dir.Close())
		}
	}
	w := &Worker{
		log: o.Logger.With("worker", id), client: o.Client, pool: o.Pool, id: id, cwd: o.DefaultCwd,
		dir: dir, ledger: ledger, runtimes: map[string]runtime.Runtime{},
		counts: o.Metrics, tracer: o.Tracer, takeUp: cmp.Or(o.TakeUp, takeUpLimit),
		expires: optional(o.Expires), attention: optional(o.Attention),
		stopping: make(chan struct{}), sessions: map[string]*session{}, unsure: map[string]*store.Session{},
	}
	for _, rt := range o.Runtimes {
		w.runtimes[rt.Name()] = rt
		w.names = append(w.names, rt.Name())
	}
	slices.Sort(w.names)
	return w, nil
}

func optional(d time.Duration) *hitl.Duration {
	if d == 0 {
		return nil
	}
	v := hitl.Duration(max(d, 0))
	return &v
}

// Close gives up the data directory of a worker that was never run.
func (w *Worker) Close() error { return errors.Join(w.ledger.Close(), w.dir.Close()) }

// Sessions is how many sessions are in this worker's care.
func (w *Worker) Sessions() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.sessions)
}

// Run works until ctx ends or the bus is gone for good. It returns when
// everything it started has ended; open asks are left for a successor.
func (w *Worker) Run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, w.Close()) }()
	outer := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	w.recover(ctx)
	w.log.Info("worker is ready", "pool", w.pool)
	var loops sync.WaitGroup
	loops.Go(func() { w.beat(ctx) })
	loops.Go(func() { w.look(ctx) })
	loops.Go(func() {
		if err := w.client.Work(ctx, w.pool, w.take); err != nil && ctx.Err() == nil {
			cancel(fmt.Errorf("work queue: %w", err))
		}
	})
	select {
	case <-ctx.Done():
	case <-w.client.Done():
		cancel(w.client.Err())
	}
	w.mu.Lock()
	w.stopped = true
	w.mu.Unlock()
	sessions := w.list()
	close(w.stopping)
	w.log.Info("worker stops", "sessions", len(sessions))
	for _, s := range sessions {
		s.leave()
	}
	loops.Wait()
	w.wg.Wait()
	if outer.Err() != nil {
		return nil
	}
	return context.Cause(ctx)
}

func (w *Worker) beat(ctx context.Context) {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		ids := []string{}
		for _, s := range w.list() {
			if s.lives() {
				ids = append(ids, s.id)
			}
		}
		slices.Sort(ids)
		if err := w.client.Beat(hitl.Beat{Worker: w.id, Runtimes: w.names, Sessions: ids, At: now()}); err != nil {
			w.log.Debug("no heartbeat", "error", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// look finds sessions that another worker has taken over: whenever the connection
// was away, and now and then for those in which nothing happens. And requests that
// came back with an older copy of the server's data.
func (w *Worker) look(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	w.disown(ctx)
	for {
		again := w.client.Connected()
		select {
		case <-tick.C:
		case <-again:
			w.disown(ctx)
		case <-ctx.Done():
			return
		}
		for _, s := range w.list() {
			if ctx.Err() != nil {
				return
			}
			_ = s.check(ctx) // it leaves the session by itself
		}
	}
}

func (w *Worker) list() []*session {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Values(w.sessions))
}

// take claims a start from the queue. True takes it off the queue.
func (w *Worker) take(ctx context.Context, st hitl.Start) bool {
	w.mu.Lock()
	known, stopped, unsure := w.sessions[st.SessionID] != nil, w.stopped, w.unsure[st.SessionID]
	w.mu.Unlock()
	switch {
	case known:
		return true // it came again: the acknowledgement was lost
	case stopped:
		return false
	case unsure != nil:
		return w.claim(ctx, unsure, true)
	}
	rec := w.record(w.client.Credentials(), &st)
	// On disk before the claim: a worker that dies in between finds out whose
	// the session is by claiming it again with the same bytes.
	if err := w.dir.Save(rec); err != nil {
		w.log.Error("start put back", "session", st.SessionID, "error", err)
		return false
	}
	return w.claim(ctx, rec, false)
}

// claim reports whether the matter is settled: the session is ours and runs, or
// it is somebody else's. again: an earlier claim may have landed.
func (w *Worker) claim(ctx context.Context, rec *store.Session, again bool) bool {
	id := rec.State.SessionID
	hold, err := w.client.Claim(ctx, &rec.State)
	lost := errors.Is(err, bus.ErrStale)
	w.mu.Lock()
	if err != nil && !lost {
		w.unsure[id] = rec
	} else {
		delete(w.unsure, id)
	}
	w.mu.Unlock()
	switch {
	case lost:
		w.log.Info("session not taken", "session", id, "reason", err)
		if err := w.dir.Delete(id); err != nil {
			w.log.Error("another worker's session is on disk", "session", id, "error", err)
		}
		return true
	case err != nil:
		w.log.Warn("claim unknown", "session", id, "error", err)
		return false
	}
	rec.Claimed = true
	if again {
		// A copy of this directory can say the same. One of them gets the next
		// generation.
		hold = nil
		rec.State.Generation++
	}
	if err := w.dir.Save(rec); err != nil {
		w.log.Error("session not stored", "session", id, "error", err)
	}
	w.log.Info("session claimed", "session", id, "runtime", rec.State.Runtime)
	w.launch(rec, origin{hold: hold, fresh: true})
	return true
}

func (w *Worker) record(owner *bus.Credentials, st *hitl.Start) *store.Session {
	at := now()
	cwd := st.Cwd
	if cwd == "" {
		cwd = w.cwd
	}
	rec := &store.Session{State: hitl.SessionState{
		V: 1, SessionID: st.SessionID, ProjectID: st.ProjectID,
		Tenant: owner.Tenant, Owner: owner.Name,
		Worker: w.id, Generation: 1, Runtime: st.Runtime, Title: sessionTitle(st), Cwd: cwd,
		State: hitl.StateStarting, StartedAt: at, StateChangedAt: at, Mode: st.Mode, Model: st.Model,
	}}
	if strings.TrimSpace(st.Prompt) != "" || len(st.Attachments) > 0 {
		rec.Inbox = []store.Prompt{{Text: st.Prompt, Attachments: st.Attachments}}
	}
	return rec
}

func sessionTitle(st *hitl.Start) string {
	t := strings.Join(strings.Fields(strings.ToValidUTF8(st.Prompt, "\uFFFD")), " ")
	if utf8.RuneCountInString(t) > maxTitle {
		t = string([]rune(t)[:maxTitle-1]) + "…"
	}
	if t == "" {
		return st.Runtime + " session"
	}
	return t
}

// origin says how this process came to a session.
type origin struct {
	hold    *bus.Hold // of a claim just now; nil: it is to be taken up again
	fresh   bool      // claimed by its start
	midTurn bool      // taken up again, it was the agent's turn
	over    *ending   // taken up again, it was over
}

func (w *Worker) launch(rec *store.Session, from origin) {
	s := newSession(w, rec)
	s.over = from.over
	w.mu.Lock()
	w.sessions[s.id] = s
	stopped := w.stopped
	w.mu.Unlock()
	if stopped {
		s.leave()
	}
	w.wg.Go(func() { s.live(from) })
}

func (w *Worker) remove(s *session) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.sessions, s.id)
}

// recover takes up what an earlier worker with this directory left.
func (w *Worker) recover(ctx context.Context) {
	recs, err := w.dir.Load()
	if err != nil {
		w.log.Error("sessions that cannot be read stay where they are", "error", err)
	}
	for _, rec := range recs {
		if !rec.Claimed {
			// Whether the earlier claim landed is settled by the bytes.
			w.claim(ctx, rec, true)
			continue
		}
		w.revive(rec)
	}
}

func (w *Worker) revive(rec *store.Session) {
	st := &rec.State
	st.Worker = w.id
	st.Generation++
	from := origin{midTurn: st.State == hitl.StateAssistantTurn}
	switch {
	case st.State == hitl.StateDead:
		// Only the word of it may be missing, and an end of its asks.
		from = origin{over: &ending{message: st.Error, reason: st.KillReason}}
	case len(rec.Asks) > 0:
		st.State, st.StateChangedAt = hitl.StateAssistantTurn, now()
	default:
		st.State, st.StateChangedAt = hitl.StateUserTurn, now()
	}
	// The server must never know of a higher generation than the disk: the next
	// start would take that for another worker's.
	if err := w.dir.Save(rec); err != nil {
		w.log.Error("session not taken up: it cannot be stored", "session", st.SessionID, "error", err)
		return
	}
	w.log.Info("session taken up again", "session", st.SessionID, "generation", st.Generation, "open_asks", len(rec.Asks))
	w.launch(rec, from)
}
