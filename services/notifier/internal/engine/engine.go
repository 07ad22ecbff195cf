// Package engine decides what is sent when, and to whom. It turns events into
// planned deliveries in the ledger and carries planned deliveries out.
//
// The rules: an event is handled once its deliveries are in the ledger. An
// attempt needs the claim of its delivery, and looks after the claim whether the
// interaction is over. Whoever handles the end of an interaction first records
// that it is over, then looks at the deliveries. So one of the two sees the
// other, in whatever order they run.
package engine

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/run"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/trace"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/notifier/internal/channel"
	"github.com/banksman/banksman/services/notifier/internal/ledger"
	"github.com/banksman/banksman/services/notifier/internal/looks"
	"github.com/banksman/banksman/services/notifier/internal/message"
	"github.com/banksman/banksman/services/notifier/internal/metrics"
	"github.com/banksman/banksman/services/notifier/internal/orphans"
	"github.com/banksman/banksman/services/notifier/internal/plan"
	"github.com/banksman/banksman/services/notifier/internal/sooner"
	"github.com/banksman/banksman/services/notifier/internal/timer"
)

// DefaultLease is how long a claim is good; it must be longer than any attempt.
const DefaultLease = 30 * time.Second

// late is the age at which an event counts as found on the way back from an
// absence. What follows it gets settle to arrive before anything is sent.
const (
	late   = 10 * time.Second
	settle = 2 * time.Second
)

// Schedule is the pause after the first, second, ... failed attempt.
var Schedule = []time.Duration{time.Second, 5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute}

// Route is an address, and the channel that leads there.
type Route struct {
	Name string // recipient/channel, or a channel alone; tokens
	Type string // of the channel
	// Target names the endpoint, for remembering that it is gone.
	Target  string
	Channel channel.Channel
	// To is the recipient's address in the channel; it may be empty.
	To string
	// Recipient is nil where the channel stands for itself.
	Recipient *plan.Recipient
	// Via says by what kind of ticket one decides from a message, and People who may;
	// empty: nobody.
	Via    string
	People []string
}

// Options wire an Engine. Every field is needed but Ticket, Metrics and Tracer.
type Options struct {
	Logger  *slog.Logger
	Ledger  *ledger.Ledger
	Routes  []Route
	Policy  *plan.Policy
	Clock   timer.Clock
	Replica string // unique to this process
	// Link makes the address of an interaction's page, of "" the inbox's; empty:
	// there is none.
	Link  func(key string) string
	Lease time.Duration
	// Tracer gets a span of each attempt whose interaction is traced.
	Tracer *trace.Tracer
	// Ticket makes what somebody decides an interaction by who is told of it; nil:
	// there is nothing to decide. Only where a Route decides. id is the message's, and
	// what is made the same for an equal one.
	Ticket func(ctx context.Context, id string, call wire.TicketCall) (*wire.TicketReply, error)
	// Ended asks whether an interaction is over of whose end no event came.
	Ended func(context.Context, subject.Ref) bool
	// Metrics count; nil: nothing does.
	Metrics *metrics.Metrics
}

// Engine is one replica's part in the work.
type Engine struct {
	Options
	lanes   []*lane
	looks   looks.Looks
	orphans *orphans.List
	sooner  sooner.Sooner
}

// New makes an Engine.
func New(o Options) *Engine {
	e := &Engine{Options: o, orphans: orphans.New()}
	e.sooner = sooner.Sooner{Ledger: o.Ledger, Observe: func(r *ledger.Record) { e.observe(r, false) }, Can: e.can}
	for _, r := range o.Routes {
		e.lanes = append(e.lanes, newLane(e, r))
	}
	return e
}

// Run carries deliveries out until ctx ends, which is no error. It returns when
// no attempt is under way; those that were are finished and recorded.
func (e *Engine) Run(ctx context.Context) error {
	ready := make(chan struct{}) // closed by the watch
	var before []ledger.Gone     // the watch's, until then
	caughtUp := false            // the watch's
	g := run.NewGroup(ctx)
	g.Go("ledger", func(ctx context.Context) error {
		return e.Ledger.Watch(ctx, ledger.Watcher{
			Delivery: func(r *ledger.Record) { e.observe(r, true) },
			Gone: func(g ledger.Gone) {
				if !caughtUp {
					before = append(before, g)
					return
				}
				e.gone(g)
			},
			Ready: func() {
				caughtUp = true
				e.welcome(ctx, before)
				close(ready)
			},
			Broken: func(key string, err error) {
				e.Logger.Error("an entry of the ledger cannot be read", "key", key, "error", err)
			},
		})
	})
	g.Go("orphans", e.runOrphans)
	for _, l := range e.lanes {
		g.Go("channel "+l.Name, func(ctx context.Context) error {
			select {
			case <-ready:
				if l.paced() {
					return l.runPaced(ctx)
				}
				return l.run(ctx)
			case <-ctx.Done():
				return nil
			}
		})
	}
	err := g.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// Idle says that all events stored so far have been handled: what was planned
// before is really open.
func (e *Engine) Idle() {
	for _, l := range e.lanes {
		l.release()
	}
}

func (e *Engine) lane(name string) *lane {
	for _, l := range e.lanes {
		if l.Name == name {
			return l
		}
	}
	return nil
}

// observe takes a version of a delivery, from the watch or from a write.
func (e *Engine) observe(r *ledger.Record, watched bool) {
	if l := e.lane(r.Key.Channel); l != nil {
		l.observe(r, watched)
		return
	}
	e.orphans.Observe(r)
}

func (e *Engine) gone(g ledger.Gone) {
	if l := e.lane(g.Channel); l != nil && l.Target == g.Target {
		l.dropped.Store(!g.Back)
	}
}

// welcome gives targets that were gone before this start another try: whoever starts
// a notifier may have mended what was wrong, and one message more harms nobody.
func (e *Engine) welcome(ctx context.Context, list []ledger.Gone) {
	for _, g := range list {
		if l := e.lane(g.Channel); g.Back || l == nil || l.Target != g.Target {
			continue
		}
		g.Back, g.At = true, e.Clock.Now().UTC()
		call, cancel := context.WithTimeout(ctx, recordLimit)
		_, err := e.Ledger.MarkGone(call, g)
		cancel()
		if err != nil {
			e.Logger.Warn("not recorded that an endpoint is tried again", "channel", g.Channel, "error", err)
			continue
		}
		e.Logger.Info("an endpoint that wanted no more messages is tried again", "channel", g.Channel)
	}
}

// Opened plans what is to be told of a new interaction. nil means that nothing
// of it can get lost any more.
func (e *Engine) Opened(ctx context.Context, ref subject.Ref, stored time.Time, s *wire.Summary) error {
	now := e.Clock.Now()
	if s.ExpiresAt != nil && !s.ExpiresAt.After(now) {
		return nil // its end is on the way, or has been handled
	}
	if over, err := e.Ledger.IsOver(ctx, ref); over || err != nil {
		return err
	}
	ix := plan.Of(ref, s)
	route, deliveries := e.Policy.Deliveries(&ix)
	for i := range deliveries {
		if l := e.lane(deliveries[i].Address); l != nil && l.dropped.Load() && deliveries[i].Skip == "" {
			deliveries[i].Skip = wantsNone
		}
	}
	// What was planned first counts, so that all of it is found again at the end.
	p, err := e.Ledger.CreatePlan(ctx, ref, ledger.Plan{At: now.UTC(), Attention: ix.Attention, Route: route, Deliveries: deliveries})
	if err != nil {
		return err
	}
	earliest := time.Time{}
	if now.Sub(stored) > late {
		earliest = now.Add(settle)
	}
	asked := slices.ContainsFunc(p.Deliveries, func(d plan.Delivery) bool { return d.Wait > 0 && e.can(d) })
	told := false
	list, idle := plan.Forward(p.Deliveries, e.can)
	for _, d := range plan.Backwards(list) {
		if !e.can(d) {
			continue
		}
		// A reminder whose time has come already would only double the alert.
		if plan.IsReminder(d.Step) && !d.Due.After(now) {
			continue
		}
		told = true
		due := d.Due
		if !asked && !d.Early.IsZero() {
			due = plan.Earlier(due, d.Early)
		}
		if limit := now.Add(d.Due.Sub(ix.Created)); due.After(limit) && !plan.IsReminder(d.Step) {
			due = limit // our clock is behind the server's
		}
		if due.Before(earliest) {
			due = earliest
		}
		typ, at := channel.Opened, s.CreatedAt
		if d.Again {
			typ, at = channel.Reminder, d.Due
		}
		a := message.Of(typ, ref, s, at, e.Link)
		a.Data.Recipient, _ = message.Recipient(d.Address)
		if d.Wait > 0 {
			a.Until = due.Add(d.Wait).UTC()
		}
		if err := e.plan(ctx, ledger.Key{Ref: ref, Step: ledger.Step(d.Step), Channel: d.Address}, due, a, nil); err != nil {
			return err
		}
	}
	e.Metrics.UntoldSteps(idle)
	if !told {
		e.Metrics.Untold()
		e.Logger.WarnContext(ctx, "nobody is told of it", "interaction", ref.String(), "route", p.Route)
	}
	return nil
}

// can reports whether a delivery of a plan is to be made, as far as is known.
func (e *Engine) can(d plan.Delivery) bool {
	l := e.lane(d.Address)
	return d.Skip == "" && (l == nil || !l.dropped.Load())
}

func (e *Engine) plan(ctx context.Context, k ledger.Key, due time.Time, a channel.Alert, earlier []channel.Receipt) error {
	r, _, err := e.Ledger.Create(ctx, k, planned(ctx, k, due, a, earlier))
	if err == nil && r != nil {
		e.observe(r, false)
	}
	return err
}

func planned(ctx context.Context, k ledger.Key, due time.Time, a channel.Alert, earlier []channel.Receipt) ledger.Entry {
	a.ID = message.ID(k)
	return ledger.Entry{State: ledger.Planned, DueAt: due.UTC(), Alert: &a, Earlier: earlier, Trace: trace.Of(ctx).Parent()}
}

// Closed takes back what was not sent and plans what is to be told of the end.
// settled is false while somebody may be sending: then it is to be called again.
func (e *Engine) Closed(ctx context.Context, ref subject.Ref, c *wire.Closed) (settled bool, err error) {
	at := e.Clock.Now()
	if c.Decision != nil {
		at = c.Decision.DecidedAt
	}
	first, err := e.Ledger.MarkOver(ctx, ref, ledger.Over{Outcome: c.Outcome, At: at.UTC()})
	if err != nil {
		return false, err
	}
	if first {
		e.logEnd(ctx, ref, c)
	}
	p, err := e.Ledger.PlanOf(ctx, ref)
	if errors.Is(err, ledger.ErrNotFound) {
		if c.Decision != nil && c.Decision.Principal.Kind == "rule" {
			return true, nil // it never waited, so nobody was told
		}
		p, err = e.planOfOld(ctx, ref)
	}
	if err != nil {
		return false, err
	}
	if p == nil {
		return true, nil // nothing was planned, and nothing will be sent
	}
	settled = true
	var told, digested []string // addresses, in the order they were told
	earlier := map[string][]channel.Receipt{}
	for _, d := range p.Deliveries {
		r, err := e.takeBack(ctx, ledger.Key{Ref: ref, Step: ledger.Step(d.Step), Channel: d.Address})
		switch {
		case errors.Is(err, ledger.ErrNotFound):
			continue
		case err != nil:
			return false, err
		case !r.State.Final():
			settled = false
			continue
		case !r.Told() && !r.Many:
			continue
		case r.Many: // a digest is not corrected: it says how many, not which
			if !slices.Contains(digested, d.Address) {
				digested = append(digested, d.Address)
			}
			continue
		}
		if !slices.Contains(told, d.Address) {
			told = append(told, d.Address)
		}
		if r.Receipt != nil {
			earlier[d.Address] = append(earlier[d.Address], *r.Receipt)
		}
	}
	if !settled {
		// An ending corrects all that was said, so it waits until that is known.
		return false, nil
	}
	for _, address := range told {
		if l := e.lane(address); l == nil || l.dropped.Load() {
			continue
		}
		a := message.Of(channel.Closed, ref, &c.Summary, at, e.Link)
		a.Data.Recipient, _ = message.Recipient(address)
		message.AddEnd(&a, c, at)
		if err := e.plan(ctx, ledger.Key{Ref: ref, Step: ledger.StepClosed, Channel: address}, e.Clock.Now(), a, earlier[address]); err != nil {
			return false, err
		}
	}
	for _, address := range digested {
		if err := e.resolve(ctx, ref, address, at); err != nil {
			return false, err
		}
	}
	return true, nil
}

// takeBack turns a planned delivery into a retracted one. What it returns is
// not final where somebody is sending it.
func (e *Engine) takeBack(ctx context.Context, k ledger.Key) (*ledger.Record, error) {
	r, err := e.Ledger.Get(ctx, k)
	// What goes into a digest need not be waited for, whether it is sent or not.
	for err == nil && (r.State == ledger.Planned || r.State == ledger.Claimed && r.Many) {
		next := r.Entry
		next.Uncertain = next.Uncertain || r.State == ledger.Claimed
		next.State, next.Alert, next.Problem = ledger.Retracted, nil, overFirst
		if r, _, err = e.Ledger.Update(ctx, r, next); err == nil {
			if r == nil {
				return nil, ledger.ErrNotFound
			}
			e.observe(r, false)
		}
	}
	return r, err
}

// logEnd is said once for each interaction, whether anybody was told of it or not.
func (e *Engine) logEnd(ctx context.Context, ref subject.Ref, c *wire.Closed) {
	if c.Outcome == hitl.Expired {
		e.Logger.WarnContext(ctx, "expired: nobody decided in time", "interaction", ref.String(), "kind", c.Kind, "tool", c.ToolName)
		return
	}
	e.Logger.DebugContext(ctx, "over", "interaction", ref.String(), "outcome", c.Outcome)
}

// Seen says that somebody has the interaction's card before their eyes.
func (e *Engine) Seen(ref subject.Ref) { e.looks.Seen(ref, e.Clock.Now()) }
