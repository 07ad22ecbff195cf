// Package engine is the core of a gateway: intake, the one decide path,
// deadlines, the sweeper, and the projection of streams into what people see.
// It knows neither HTTP nor WebSocket; package door gives it to people.
package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/card"
	"github.com/banksman/banksman/services/gateway/internal/cursor"
	"github.com/banksman/banksman/services/gateway/internal/due"
	"github.com/banksman/banksman/services/gateway/internal/policy"
	"github.com/banksman/banksman/services/gateway/internal/recent"
	"github.com/banksman/banksman/services/gateway/internal/roster"
)

// Options wire an Engine. Journal, Conn and Logger are required.
type Options struct {
	Journal journal.Journal
	Conn    *nats.Conn // live deltas, heartbeats and commands; not closed here
	Logger  *slog.Logger
	Clock   func() time.Time // default time.Now
	// OrphanAfter is how long a worker may miss its heartbeats before what it
	// asked counts as orphaned; default 5 min.
	OrphanAfter time.Duration
	// Critical lists paths and words that make a tool call critical.
	Critical []string
}

const (
	intakeWorkers  = 64 // each waits for its open event to be on disk
	sweepWorkers   = 8
	ringSize       = 4096 // updates kept for clients that come back
	recentClosed   = 2000 // decided interactions kept for lists
	maxEarlyAcks   = 8    // of one interaction, whose decision is not known here
	beatInterval   = 5 * time.Second
	unreachableAge = 3 * beatInterval
)

// Engine is the core of one gateway.
type Engine struct {
	opts   Options
	log    *slog.Logger
	now    func() time.Time
	policy policy.Policy
	ready  chan struct{} // closed by Run after loading
	bg     sync.WaitGroup
	bgCtx  context.Context // ends with Run
	stopBg context.CancelFunc

	mu        sync.Mutex
	open      map[subject.Ref]*entry
	byID      map[string][]subject.Ref // open ones, by plain id
	sessions  map[subject.Session]*session
	workers   *roster.Roster
	closed    *recent.List
	deadlines due.Queue[*entry]
	pos       cursor.Position
	ring      []api.Update
	ringFrom  cursor.Position // the oldest cursor that the ring can serve
	watchers  map[int]func(api.Update)
	nextWatch int
	dirty     map[subject.Session][]wire.Closed
	sick      time.Time // until then decisions count as impossible to store

	flush chan struct{} // capacity 1: some session is dirty
	alarm chan struct{} // capacity 1: the earliest deadline changed
}

var _ api.Engine = (*Engine)(nil)

// entry is an open interaction.
type entry struct {
	card.Admission
	session  subject.Session
	summary  wire.Summary
	raw      []byte            // the exact request where it is small, else nil
	deadline time.Time         // zero: none
	alarm    *due.Item[*entry] // nil: none
	fresh    bool              // its body was not sent yet
	opened   bool              // its open event was seen: it is on the session's stream
	decided  bool              // a decision is stored; its closed event follows
	acks     []hitl.Ack        // that came before the closed event
}

// New makes an engine; Run starts it.
func New(o Options) *Engine {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.OrphanAfter == 0 {
		o.OrphanAfter = 5 * time.Minute
	}
	e := &Engine{
		opts: o, log: o.Logger.With("component", "engine"), now: o.Clock,
		policy:   policy.Policy{Critical: o.Critical},
		ready:    make(chan struct{}),
		open:     map[subject.Ref]*entry{},
		byID:     map[string][]subject.Ref{},
		sessions: map[subject.Session]*session{},
		workers:  roster.New(unreachableAge, o.OrphanAfter),
		closed:   recent.New(recentClosed),
		watchers: map[int]func(api.Update){},
		dirty:    map[subject.Session][]wire.Closed{},
		flush:    make(chan struct{}, 1),
		alarm:    make(chan struct{}, 1),
	}
	e.bgCtx, e.stopBg = context.WithCancel(context.Background())
	return e
}

// Ready implements api.Engine.
func (e *Engine) Ready() <-chan struct{} { return e.ready }

// Healthy implements api.Engine.
func (e *Engine) Healthy() error {
	select {
	case <-e.ready:
	default:
		return errors.New("still loading what is open")
	}
	if !e.opts.Conn.IsConnected() {
		return errors.New("not connected to NATS")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.now().Before(e.sick) {
		return errors.New("decisions could not be stored a moment ago")
	}
	return nil
}

// Run loads the open set and works until ctx ends, which is no error, or until
// the streams cannot be followed.
func (e *Engine) Run(ctx context.Context) error {
	defer func() {
		e.stopBg()
		e.bg.Wait()
	}()
	started := e.now()
	if err := e.load(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("load what is open: %w", err)
	}
	subs, err := e.listen()
	defer func() {
		for _, s := range subs {
			_ = s.Unsubscribe() // the connection may be gone already
		}
	}()
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	from, open := e.pos, len(e.open) // nobody else writes yet
	run := func(name string, fn func() error) {
		g.Go(func() error {
			err := fn()
			if err == nil || ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("%s: %w", name, err)
		})
	}
	j := e.opts.Journal
	run("follow events", func() error {
		return j.Follow(ctx, journal.Events, uint64(from.Events)+1, nil, e.onEvent)
	})
	run("follow transcripts", func() error {
		return j.Follow(ctx, journal.Transcripts, uint64(from.Transcripts)+1, nil, e.onTranscript)
	})
	run("intake", func() error { return j.Intake(ctx, intakeWorkers, e.intake) })
	run("sweep", func() error { return j.Sweep(ctx, sweepWorkers, e.sweep) })
	run("deadlines", func() error { return e.watchDeadlines(ctx) })
	run("workers", func() error { return e.watchWorkers(ctx, started) })
	run("flush", func() error { return e.flushLoop(ctx) })
	close(e.ready)
	e.log.Info("ready", "open", open, "took", e.now().Sub(started).Round(time.Millisecond))
	return g.Wait()
}

// later runs fn in the background with an own time limit; Run waits for it.
func (e *Engine) later(limit time.Duration, fn func(context.Context)) {
	e.bg.Add(1)
	go func() {
		defer e.bg.Done()
		ctx, cancel := context.WithTimeout(e.bgCtx, limit)
		defer cancel()
		fn(ctx)
	}()
}

// admit shows a request, unless its decision is known. It reports whether it
// is new here. Called with the lock held.
func (e *Engine) admit(r *hitl.Request, raw []byte, digest string, a card.Admission, opened bool) bool {
	if old := e.open[a.Ref]; old != nil {
		if opened && !old.opened {
			old.opened = true
			return true
		}
		return false
	}
	if e.closed.Has(a.Ref) {
		return false
	}
	en := &entry{
		Admission: a, session: subject.NewSession(r.Tenant, r.Owner, r.SessionID),
		summary: card.Summarize(r, digest, a), deadline: card.Deadline(r, a.RequestedAt), opened: opened,
	}
	en.summary.Body = card.Small(card.Body(r, raw))
	if len(raw) <= wire.MaxInline {
		en.raw = raw
	}
	e.insert(en, r.ID)
	return true
}

func (e *Engine) insert(en *entry, id string) {
	en.fresh = true
	e.open[en.Ref] = en
	e.byID[id] = append(e.byID[id], en.Ref)
	s := e.sessionOf(en.session, en.summary.SessionID, en.summary.Tenant, en.summary.Owner)
	s.insert(en)
	if s.known && s.state.State == hitl.StateDead {
		e.orphanIfStillDead(s)
	}
	if !en.deadline.IsZero() {
		var first bool
		if en.alarm, first = e.deadlines.Add(en, en.deadline); first {
			signal(e.alarm)
		}
	}
}

// remove takes an interaction out of the open set. Called with the lock held.
func (e *Engine) remove(ref subject.Ref) *entry {
	en := e.open[ref]
	if en == nil {
		return nil
	}
	delete(e.open, ref)
	id := en.summary.RequestID
	refs := e.byID[id]
	for i, r := range refs {
		if r == ref {
			refs = append(refs[:i:i], refs[i+1:]...)
			break
		}
	}
	if len(refs) == 0 {
		delete(e.byID, id)
	} else {
		e.byID[id] = refs
	}
	if s := e.sessions[en.session]; s != nil {
		s.remove(en)
	}
	e.deadlines.Remove(en.alarm)
	return en
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
