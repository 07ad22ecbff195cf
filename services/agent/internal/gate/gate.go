package gate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/run"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/trace"
)

// ackLimit bounds the sending of receipts once the gate has been closed. What
// was not sent by then is the successor's.
const ackLimit = 10 * time.Second

// Why the wait of an ask ends early, as the cause of its context.
var (
	// ErrLeave: the worker stops and a successor will ask again. The request
	// stays open.
	ErrLeave = fmt.Errorf("the worker is stopping: %w", bus.ErrShutdown)
	// ErrClosed: the gate takes no more asks.
	ErrClosed = errors.New("the session has ended")
)

// WithdrawnError is the cause when the agent took its ask back, or its run ended.
type WithdrawnError struct{ Reason string }

func (e *WithdrawnError) Error() string { return "withdrawn: " + e.Reason }

// Asker puts requests before people. *bus.Client is one.
type Asker interface {
	// Ask waits for the decision. When ctx ends with the cause ErrLeave the
	// request stays open; with any other cause it is withdrawn.
	Ask(ctx context.Context, r *hitl.Request, opts ...bus.AskOption) (*bus.Answer, error)
	Ack(ctx context.Context, ref subject.Ref, stage, decisionID, detail string) error
	// Take claims the use of an approval among all processes of the owner, and
	// reports whether it is ours.
	Take(ctx context.Context, ref subject.Ref, decisionID, by string) (won bool, err error)
}

var _ Asker = (*bus.Client)(nil)

// Keeper remembers open asks over a restart.
type Keeper interface {
	// KeepAsk is durable before it returns.
	KeepAsk(a Kept) error
	// DropAsk forgets an ask and, in the same step, remembers the receipt for
	// its decision; nil when there is none. Durable before it returns.
	DropAsk(id string, r *Receipt) error
	// DropReceipt forgets a receipt that was sent. It need not be durable: to
	// send one again does nothing.
	DropReceipt(r *Receipt)
}

// Receipt is the last word on a decision.
type Receipt struct {
	Ref        subject.Ref `json:"ref"`
	DecisionID string      `json:"decision_id"`
	Stage      string      `json:"stage"` // hitl.Applied or hitl.Refused
	Detail     string      `json:"detail,omitempty"`
}

// Kept is an ask as a successor finds it.
type Kept struct {
	ID      string        `json:"id"`
	Request *hitl.Request `json:"request"`
	// Private is the runtime's own note, passed on as it is.
	Private []byte `json:"private,omitempty"`
}

// Ask is one "may I?" of a runtime.
type Ask struct {
	Kept
	// Again says that an earlier process may have put it to people.
	Again bool
	// Settle is called once when the wait has ended, from a goroutine of the
	// ask's own; never after a withdrawal. It ends with a call of
	// one of its methods, at once or later.
	Settle func(*Settled)
}

// Gate is the gate of one session. Its methods are safe for concurrent use.
type Gate struct {
	asker  Asker
	ledger *Ledger
	keeper Keeper
	log    *slog.Logger
	id     string // no other gate has it, in no process
	tracer *trace.Tracer
	// before runs ahead of each ask's publication.
	before func(context.Context)
	ended  context.Context // ends when the gate is closed
	end    context.CancelFunc

	wg sync.WaitGroup // asks and receipts

	mu     sync.Mutex
	open   map[string]*entry
	runs   map[string]*trace.Span // of tool calls that were allowed, until their result
	handed map[*Settled]bool      // settled, neither used nor refused yet
	closed error                  // why no more asks are taken
}

type entry struct {
	cancel context.CancelCauseFunc
	early  error // the cause, once the wait was ended early
	// hidden: an earlier process may have put it to people, and this one is not
	// there yet. Only a request that this process has found can be withdrawn.
	hidden bool
}

// Options wire a Gate.
type Options struct {
	Asker  Asker
	Ledger *Ledger
	Keeper Keeper
	Logger *slog.Logger
	Tracer *trace.Tracer // nil: none
	// Before, if set, runs ahead of each ask's publication: what the agent said
	// before it asked goes out first. It must return when its context ends.
	Before func(context.Context)
}

// New makes the gate of a session. The owner calls Cancel or Leave, then Wait.
func New(o Options) *Gate {
	g := &Gate{
		asker: o.Asker, ledger: o.Ledger, keeper: o.Keeper, log: o.Logger, before: o.Before, id: uuid.NewString(), tracer: o.Tracer,
		open: map[string]*entry{}, runs: map[string]*trace.Span{}, handed: map[*Settled]bool{},
	}
	if g.before == nil {
		g.before = func(context.Context) {}
	}
	g.ended, g.end = context.WithCancel(context.Background())
	return g
}

// Open starts to wait for a decision. A second ask with an id that is open is
// the same ask and is ignored.
func (g *Gate) Open(a Ask) error {
	ctx, cancel := context.WithCancelCause(context.Background())
	g.mu.Lock()
	if g.closed != nil {
		g.mu.Unlock()
		cancel(g.closed)
		return g.closed
	}
	if g.open[a.ID] != nil {
		g.mu.Unlock()
		cancel(nil)
		return nil
	}
	e := &entry{cancel: cancel, hidden: a.Again}
	g.open[a.ID] = e
	g.wg.Add(1)
	g.mu.Unlock()
	go func() {
		defer g.wg.Done()
		defer cancel(nil)
		g.wait(ctx, a, e)
	}()
	return nil
}

func (g *Gate) wait(ctx context.Context, a Ask, e *entry) {
	var ans *bus.Answer
	var asked trace.Point
	// On disk before anybody can answer, or a crash would lose the answer.
	err := g.keeper.KeepAsk(a.Kept)
	if err != nil {
		err = &keepError{err}
	} else {
		g.before(ctx)
		ans, err = g.asker.Ask(ctx, a.Request, bus.OnOpen(func(o bus.Opened) {
			asked = o.Trace
			g.shown(e)
		}))
	}
	g.mu.Lock()
	delete(g.open, a.ID)
	early := e.early
	g.mu.Unlock()

	s := &Settled{ID: a.ID, Request: a.Request, Private: a.Private, gate: g, at: asked}
	if err == nil {
		s.answer = ans
		s.trace()
	}
	var withdrawn *WithdrawnError
	switch {
	case errors.Is(early, ErrLeave):
		return // the ask is kept, a decision that came just now is read again
	case early == nil && errors.Is(err, bus.ErrClosed):
		return // the connection is gone for good, and this process with it
	case errors.As(early, &withdrawn):
		if s.answer != nil && !s.answer.Decision.Outcome.ByPerson() {
			s.answer = nil // nobody waits for a receipt
		}
		s.finish(hitl.Refused, "the agent no longer wanted it: "+withdrawn.Reason)
		return
	}
	if err != nil {
		g.log.WarnContext(s.ctx(), "no decision", "ask", a.ID, "error", err)
		s.verdict = Verdict{Text: explain(a.Request, err)}
		g.hand(a, s)
		return
	}
	if why := check(a.Request, ans); why != "" {
		g.log.ErrorContext(s.ctx(), "decision refused", "ask", a.ID, "reason", why)
		s.mismatch, s.verdict = why, Verdict{Text: mismatchText}
	} else {
		s.verdict, s.mismatch = judge(a.Request, &ans.Decision.Content)
	}
	s.ack(hitl.Delivered, "", nil)
	g.hand(a, s)
}

func (g *Gate) hand(a Ask, s *Settled) {
	g.mu.Lock()
	g.handed[s] = true
	g.mu.Unlock()
	a.Settle(s)
}

// judge turns a decision into a verdict; an outcome that the kind of request
// cannot have is refused.
func judge(r *hitl.Request, c *hitl.Content) (Verdict, string) {
	kind, _ := hitl.LookupKind(r.Kind) // of one that is unknown nothing can be allowed or answered
	if !kind.Fits(c) {
		return Verdict{Text: "The tool was not run: the decision does not fit what was asked"},
			fmt.Sprintf("the outcome %s does not fit a request of kind %s", c.Outcome, r.Kind)
	}
	text := hitl.AgentText(r, c)
	if text == "" && c.Outcome != hitl.Allowed && c.Outcome != hitl.Answered {
		text = "The tool was not run: the outcome was " + string(c.Outcome)
	}
	return Verdict{Content: *c, Text: text}, ""
}

// Withdraw takes an ask back from people. Its Settle is not called any more.
// It reports whether the ask was still open.
func (g *Gate) Withdraw(id, reason string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	e := g.open[id]
	if e == nil || e.early != nil {
		return false
	}
	g.withdraw(e, reason)
	return true
}

// withdraw needs g.mu.
func (g *Gate) withdraw(e *entry, reason string) {
	e.early = &WithdrawnError{reason}
	if !e.hidden {
		e.cancel(e.early)
	}
}

// shown notes that the request is known to be on the server.
func (g *Gate) shown(e *entry) {
	g.mu.Lock()
	defer g.mu.Unlock()
	e.hidden = false
	if e.early != nil {
		e.cancel(e.early)
	}
}

// Cancel withdraws everything that is open, refuses decisions that were not used
// yet, and takes no more.
func (g *Gate) Cancel(reason string) {
	g.mu.Lock()
	g.close(ErrClosed)
	for _, e := range g.open {
		if e.early == nil {
			g.withdraw(e, reason)
		}
	}
	var left []*Settled
	for s := range g.handed {
		left = append(left, s)
	}
	g.mu.Unlock()
	for _, s := range left {
		s.Refuse(reason)
	}
}

// Leave stops every wait and keeps the asks open for a successor.
func (g *Gate) Leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.close(ErrLeave)
	for _, e := range g.open {
		if e.early == nil || e.hidden { // what cannot be withdrawn now is the successor's
			e.early = ErrLeave
			e.cancel(ErrLeave)
		}
	}
}

// close needs g.mu.
func (g *Gate) close(why error) {
	if g.closed == nil {
		g.closed = why
	}
	g.stopRuns()
	g.end()
}

func (g *Gate) leaving() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed == ErrLeave
}

// Count is how many asks are open.
func (g *Gate) Count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.open)
}

// Wait returns when every wait has ended and every receipt was sent or given up.
func (g *Gate) Wait() { g.wg.Wait() }

// goAck runs a receipt in the background; Wait covers it.
func (g *Gate) goAck(f func()) { g.wg.Go(f) }

// overPause is between two tries to send a receipt that is over the owner's quota.
const overPause = 10 * time.Second

// send tries until the server has the receipt, and for ackLimit after the gate
// was closed; one that is over the quota not any more then.
func (g *Gate) send(at trace.Point, ref subject.Ref, stage, decisionID, detail string) bool {
	ctx, cancel := context.WithCancel(at.In(context.Background()))
	defer cancel()
	defer context.AfterFunc(g.ended, func() {
		select {
		case <-time.After(ackLimit):
			cancel()
		case <-ctx.Done():
		}
	})()
	return g.ack(ctx, g.ended, ref, stage, decisionID, detail)
}

// ack sends a receipt, again and again while it is over the quota and patient
// has not ended.
func (g *Gate) ack(ctx, patient context.Context, ref subject.Ref, stage, decisionID, detail string) bool {
	for {
		err := g.asker.Ack(ctx, ref, stage, decisionID, detail)
		if err == nil {
			return true
		}
		g.log.WarnContext(ctx, "receipt not sent", "stage", stage, "interaction", ref.ID, "error", err)
		if !errors.Is(err, bus.ErrOverQuota) || !run.Pause(patient, overPause) {
			return false
		}
	}
}

// Repeat sends a receipt that is still to be sent when the gate is closed, until
// ctx ends.
func (g *Gate) Repeat(ctx context.Context, r *Receipt) {
	if g.ack(ctx, ctx, r.Ref, hitl.Delivered, r.DecisionID, "") && g.ack(ctx, ctx, r.Ref, r.Stage, r.DecisionID, r.Detail) {
		g.keeper.DropReceipt(r)
	}
}

// Resend sends the receipts that an earlier process may not have sent.
func (g *Gate) Resend(receipts []Receipt) {
	for _, r := range receipts {
		g.goAck(func() {
			if g.send(trace.Point{}, r.Ref, hitl.Delivered, r.DecisionID, "") && g.send(trace.Point{}, r.Ref, r.Stage, r.DecisionID, r.Detail) {
				g.keeper.DropReceipt(&r)
			}
		})
	}
}

// forget drops the ask from disk, and leaves the receipt there.
func (g *Gate) forget(s *Settled, r *Receipt) {
	g.mu.Lock()
	delete(g.handed, s)
	g.mu.Unlock()
	if err := g.keeper.DropAsk(s.ID, r); err != nil {
		g.log.ErrorContext(s.ctx(), "settled ask is still on disk", "ask", s.ID, "error", err)
	}
}
