// Package engine is the core of a gateway: intake, the one decide path,
// deadlines and the sweeper, over the journal. What people see of it is package
// projection's. It knows neither HTTP nor WebSocket; package door gives it to
// people.
package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/journal/relay"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/hearing"
	"github.com/banksman/banksman/services/gateway/internal/latest"
	"github.com/banksman/banksman/services/gateway/internal/metrics"
	"github.com/banksman/banksman/services/gateway/internal/policy"
	"github.com/banksman/banksman/services/gateway/internal/projection"
	"github.com/banksman/banksman/services/gateway/internal/quota"
	"github.com/banksman/banksman/services/gateway/internal/recent"
	"github.com/banksman/banksman/services/gateway/internal/skew"
	"github.com/banksman/banksman/services/gateway/internal/talk"
	"github.com/banksman/banksman/services/gateway/internal/writes"
)

// Options wire an Engine. Journal, Conn and Logger are required.
type Options struct {
	Journal journal.Journal
	Conn    *nats.Conn // live deltas, heartbeats and commands; not closed here
	Talk    *nats.Conn // what owners tell of their sessions; default Conn
	Logger  *slog.Logger
	Clock   func() time.Time // default time.Now
	// OrphanAfter is how long a worker may miss its heartbeats before what it
	// asked counts as orphaned; default 5 min.
	OrphanAfter time.Duration
	// Critical lists paths and words that make a tool call critical.
	Critical []string
	// Quota is what each owner may use; zero fields are no limit.
	Quota quota.Limits
	// Rules are asked before people are; nil: there are none.
	Rules api.Rules
	// Epoch of the record: cursors of another one count for nothing.
	Epoch int64
	// Metrics count; nil: nothing does.
	Metrics *metrics.Metrics

	recent     int           // decided interactions kept for lists; 0 takes recentClosed
	clockEvery time.Duration // between two looks at the server's clock; 0 takes clockEvery
	// How long a request in a dead session waits for a sign of life; 0 takes
	// reviveGrace, and what a heartbeat may take.
	reviveGrace, beatGrace time.Duration
}

const (
	intakeWorkers  = 64 // each waits for its open event to be on disk
	collectWorkers = 64 // each waits for its letter to be on disk
	sweepWorkers   = 8
	recentClosed   = 2000 // decided interactions kept for lists
)

// Engine is the core of one gateway.
type Engine struct {
	opts   Options
	log    *slog.Logger
	now    func() time.Time
	policy policy.Policy
	ledger *quota.Ledger
	clock  *skew.Meter
	stores *writes.Watched // Options' Journal goes through it
	view   *projection.Projection
	alarm  chan struct{} // capacity 1, never closed: the earliest deadline changed
	ready  chan struct{} // closed by Run after loading
	bg     sync.WaitGroup
	bgCtx  context.Context // ends with Run
	stopBg context.CancelFunc
	// How goroutines start, and how one waits for another: tests order them.
	spawn func(func())
	wait  func(context.Context, <-chan struct{}) error

	orphans sync.Map // interactions that are being orphaned
	doubts  hearing.Doubts

	winners recent.Winners
	latest  latest.Desk
	backlog relay.Backlog

	mu        sync.Mutex
	finishing map[subject.Ref]*ending
}

var _ api.Engine = (*Engine)(nil)

// New makes an engine; Run starts it.
func New(o Options) *Engine {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	o.OrphanAfter = cmp.Or(o.OrphanAfter, 5*time.Minute)
	o.recent, o.clockEvery = cmp.Or(o.recent, recentClosed), cmp.Or(o.clockEvery, clockEvery)
	o.reviveGrace, o.beatGrace = cmp.Or(o.reviveGrace, reviveGrace), cmp.Or(o.beatGrace, projection.UnreachableAge)
	s := writes.Watch(o.Journal, o.Clock)
	s.Told = o.Metrics.Stored
	o.Journal = s
	e := &Engine{
		opts: o, stores: s, log: o.Logger.With("component", "engine"), now: o.Clock,
		policy:    policy.Policy{Critical: o.Critical},
		ledger:    quota.New(o.Quota, o.Clock),
		spawn:     func(fn func()) { go fn() },
		wait:      wait,
		ready:     make(chan struct{}),
		alarm:     make(chan struct{}, 1),
		finishing: map[subject.Ref]*ending{},
	}
	e.clock = &skew.Meter{Now: e.now, Logger: e.log}
	e.view = projection.New(projection.Options{
		Logger: e.log, Clock: e.now, OrphanAfter: e.opts.OrphanAfter, Recent: o.recent, Orphan: e.orphan, Doubtful: e.doubtful,
		Alarm: e.alarm, Ledger: e.ledger,
	})
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
	if err := e.clock.Problem(); err != nil {
		return err
	}
	return e.stores.Healthy()
}

// Run loads the open set and works until ctx ends, which is no error, or until
// the streams cannot be followed.
func (e *Engine) Run(ctx context.Context) error {
	defer func() {
		e.stopBg()
		e.bg.Wait()
	}()
	started := e.now()
	// It needs nothing of what is loaded, and workers wait for it.
	meter := talk.Meter{Ledger: e.ledger, Limits: e.opts.Quota, MayLive: e.view.MayLive, Name: uuid.NewString()[:8], Logger: e.log}
	owners, err := relay.Start(relay.Options{Conn: cmp.Or(e.opts.Talk, e.opts.Conn), Admit: meter.Admit, Behind: e.backlog.Behind, Name: meter.Name, Logger: e.log})
	if err != nil {
		return err
	}
	defer owners.Close()
	read, err := e.load(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("load what is open: %w", err)
	}
	if err := e.clock.Compare(ctx, e.opts.Journal); err != nil && ctx.Err() == nil {
		return fmt.Errorf("compare clocks: %w", err)
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
	from, open := e.view.Position(), e.view.Len()
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
		return j.Follow(ctx, journal.Events, uint64(from.Events)+1, nil, func(m journal.Message) error {
			e.view.ApplyEvent(m)
			return nil
		})
	})
	run("follow transcripts", func() error {
		return j.Follow(ctx, journal.Transcripts, uint64(from.Transcripts)+1, nil, func(m journal.Message) error {
			e.view.ApplyTranscript(m)
			meter.Overhear(m)
			return nil
		})
	})
	run("intake", func() error { return j.Intake(ctx, intakeWorkers, bounded(e.intake)) })
	run("collect", func() error { return j.Collect(ctx, collectWorkers, bounded(e.collect(owners))) })
	run("sweep", func() error { return j.Sweep(ctx, sweepWorkers, bounded(e.sweep)) })
	run("deadlines", func() error { return e.watchDeadlines(ctx) })
	run("clock", func() error { return e.watchClock(ctx) })
	run("workers", func() error { return e.watchWorkers(ctx, started) })
	run("flush", func() error {
		e.view.Flush(ctx)
		return nil
	})
	close(e.ready)
	e.log.Info("ready", "open", open, "read", read, "took", e.now().Sub(started).Round(time.Millisecond))
	return g.Wait()
}

// bounded ends the work on a message when the message is given to somebody
// else anyway.
func bounded(fn func(context.Context, journal.Delivery)) func(context.Context, journal.Delivery) {
	return func(ctx context.Context, d journal.Delivery) {
		ctx, cancel := context.WithTimeout(ctx, journal.HoldLimit)
		defer cancel()
		fn(ctx, d)
	}
}

// later runs fn in the background with an own time limit; Run waits for it.
func (e *Engine) later(limit time.Duration, fn func(context.Context)) {
	e.bg.Add(1)
	e.spawn(func() {
		defer e.bg.Done()
		ctx, cancel := context.WithTimeout(e.bgCtx, limit)
		defer cancel()
		fn(ctx)
	})
}

func wait(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
