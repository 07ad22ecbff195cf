package gate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
)

// ackLimit bounds the sending of one receipt.
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
}

var _ Asker = (*bus.Client)(nil)

// Keeper remembers open asks over a restart.
type Keeper interface {
	// KeepAsk is durable before it returns.
	KeepAsk(a Kept) error
	DropAsk(id string) error
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
	// Settle is called once when the wait has ended, from a goroutine of the
	// ask's own; never after a withdrawal. It ends with Use or Refuse, at once
	// or later.
	Settle func(*Settled)
}

// Gate is the gate of one session. Its methods are safe for concurrent use.
type Gate struct {
	asker  Asker
	ledger *Ledger
	keeper Keeper
	log    *slog.Logger
	// before runs ahead of each ask's publication.
	before func(context.Context)

	wg sync.WaitGroup // asks and receipts

	mu     sync.Mutex
	open   map[string]*entry
	handed map[*Settled]bool // settled, neither used nor refused yet
	closed error             // why no more asks are taken
}

type entry struct {
	cancel context.CancelCauseFunc
	early  error // the cause, once the wait was ended early
}

// Options wire a Gate.
type Options struct {
	Asker  Asker
	Ledger *Ledger
	Keeper Keeper
	Logger *slog.Logger
	// Before, if set, runs ahead of each ask's publication: what the agent said
	// before it asked goes out first. It must return when its context ends.
	Before func(context.Context)
}

// New makes the gate of a session. The owner calls Cancel or Leave, then Wait.
func New(o Options) *Gate {
	g := &Gate{
		asker: o.Asker, ledger: o.Ledger, keeper: o.Keeper, log: o.Logger, before: o.Before,
		open: map[string]*entry{}, handed: map[*Settled]bool{},
	}
	if g.before == nil {
		g.before = func(context.Context) {}
	}
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
	e := &entry{cancel: cancel}
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
	// On disk before anybody can answer, or a crash would lose the answer.
	err := g.keeper.KeepAsk(a.Kept)
	if err != nil {
		err = &keepError{err}
	} else {
		g.before(ctx)
		ans, err = g.asker.Ask(ctx, a.Request)
	}
	g.mu.Lock()
	delete(g.open, a.ID)
	early := e.early
	g.mu.Unlock()

	s := &Settled{ID: a.ID, Request: a.Request, Private: a.Private, gate: g}
	if err == nil {
		s.answer = ans
	}
	var withdrawn *WithdrawnError
	switch {
	case errors.Is(early, ErrLeave):
		return // the ask is kept, a decision that came just now is read again
	case early == nil && errors.Is(err, bus.ErrClosed):
		return // the connection is gone for good, and this process with it
	case errors.As(early, &withdrawn):
		if s.answer != nil && s.answer.Decision.Outcome.ByPerson() {
			s.ack(hitl.Refused, "the agent no longer wanted it: "+withdrawn.Reason)
		}
		g.forget(a.ID)
		return
	}
	if err != nil {
		g.log.Warn("no decision", "ask", a.ID, "error", err)
		s.verdict = Verdict{Text: explain(a.Request, err)}
		g.hand(a, s)
		return
	}
	if why := check(a.Request, ans); why != "" {
		g.log.Error("decision refused", "ask", a.ID, "reason", why)
		s.mismatch, s.verdict = why, Verdict{Text: mismatchText}
	} else {
		s.verdict, s.mismatch = judge(a.Request, &ans.Decision.Content)
	}
	s.ack(hitl.Delivered, "")
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
	fits := true
	switch c.Outcome {
	case hitl.Allowed:
		fits = r.Kind == hitl.KindApproval
	case hitl.Answered:
		fits = r.Kind == hitl.KindQuestion && len(c.Answers) > 0 || r.Kind == hitl.KindForm && len(c.Content) > 0
	}
	if !fits {
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
	e.early = &WithdrawnError{reason}
	e.cancel(e.early)
	return true
}

// Cancel withdraws everything that is open, refuses decisions that were not used
// yet, and takes no more.
func (g *Gate) Cancel(reason string) {
	g.end(ErrClosed, &WithdrawnError{reason})
	g.mu.Lock()
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
func (g *Gate) Leave() { g.end(ErrLeave, ErrLeave) }

func (g *Gate) end(closed, cause error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed == nil {
		g.closed = closed
	}
	for _, e := range g.open {
		if e.early == nil {
			e.early = cause
			e.cancel(cause)
		}
	}
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

func (g *Gate) send(a *bus.Answer, stage, detail string) {
	ctx, cancel := context.WithTimeout(context.Background(), ackLimit)
	defer cancel()
	if err := g.asker.Ack(ctx, a.Ref, stage, a.Decision.DecisionID, detail); err != nil {
		g.log.Warn("receipt not sent", "stage", stage, "interaction", a.Ref.ID, "error", err)
	}
}

func (g *Gate) drop(s *Settled) {
	g.mu.Lock()
	delete(g.handed, s)
	g.mu.Unlock()
	g.forget(s.ID)
}

func (g *Gate) forget(id string) {
	if err := g.keeper.DropAsk(id); err != nil {
		g.log.Error("settled ask is still on disk", "ask", id, "error", err)
	}
}
