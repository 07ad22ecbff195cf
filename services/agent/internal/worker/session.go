package worker

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/agent/internal/gate"
	"github.com/banksman/banksman/services/agent/internal/runtime"
	"github.com/banksman/banksman/services/agent/internal/store"
)

const (
	// flushLimit bounds how long an ask waits for what was said before it.
	flushLimit = 2 * time.Second
	// controlLimit bounds an interrupt and a change of mode.
	controlLimit = 15 * time.Second
	// checkLimit bounds a look whether the session is still this worker's.
	checkLimit = 5 * time.Second
)

// errLost ends what a session does here when another worker has it.
var errLost = errors.New("another worker has the session")

// session is one conversation in the care of this worker. Its goroutine, live,
// starts the run, feeds it prompts and ends it.
type session struct {
	w    *Worker
	id   string
	log  *slog.Logger
	gate *gate.Gate
	pub  *publisher
	// ctx ends when the session is over or left: then nobody waits for the run.
	ctx    context.Context
	cancel context.CancelCauseFunc
	wake   chan struct{} // has one element when there is something to do
	pubEnd context.CancelFunc
	pubWG  sync.WaitGroup

	mu   sync.Mutex
	rec  store.Session
	hold *bus.Hold // nil until the session is surely this worker's
	run  runtime.Run
	over *ending // set once
	left bool
	lost bool // another worker has it
	// refused: a claim was, and the session lives nowhere meanwhile.
	refused bool
}

var (
	_ runtime.Host = (*session)(nil)
	_ gate.Keeper  = (*session)(nil)
)

func newSession(w *Worker, rec *store.Session) *session {
	s := &session{
		w: w, id: rec.State.SessionID, rec: *rec, wake: make(chan struct{}, 1),
		log: w.log.With("session", rec.State.SessionID), pubEnd: func() {},
	}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	s.pub = newPublisher(s.log, s.yield)
	s.gate = gate.New(gate.Options{
		Asker: w.counts.Over(asker{w.client, s}), Ledger: w.ledger, Keeper: s, Logger: s.log, Tracer: w.tracer,
		Before: func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, flushLimit)
			defer cancel()
			_ = s.pub.flush(ctx) // people can decide without the words before
		},
	})
	s.gate.Resend(rec.Receipts)
	return s
}

// live runs the session until it is over, left or another worker's.
func (s *session) live(from origin) {
	if s.take(from.hold) {
		s.work(from)
	}
	s.mu.Lock()
	over := s.over
	s.mu.Unlock()
	// Also when the worker stops meanwhile: over is over. But not another's.
	if over != nil && s.check(context.Background()) == nil {
		s.bury(*over)
		return
	}
	s.gate.Leave()
	s.killRun()
	s.gate.Wait()
	s.endPublisher(leaveLimit)
	s.mu.Lock()
	lost, told := s.lost, len(s.rec.Receipts) == 0
	s.mu.Unlock()
	if lost {
		if told {
			s.forget()
		}
		s.w.remove(s)
	}
}

// work returns when the session is over, left or lost.
func (s *session) work(from origin) {
	if s.over != nil { // before this process
		return
	}
	unsubscribe, err := s.w.client.Commands(s.w.client.Session(s.id), s.command)
	if err != nil {
		s.log.Error("no commands", "error", err) // the client is closed: Run ends
	} else {
		defer unsubscribe()
	}
	if from.fresh {
		for _, p := range s.rec.Inbox { // nobody else touches it before the run is there
			s.pub.push(item{event: promptEvent(p)})
		}
	}
	s.begin(from)
	for s.ctx.Err() == nil {
		select {
		case <-s.wake:
			s.deliver()
		case <-s.ctx.Done():
		}
	}
}

// check looks whether the session is still this worker's, and leaves it if not.
// Its error is nil as well when that cannot be found out.
func (s *session) check(ctx context.Context) error {
	s.mu.Lock()
	hold := s.hold
	s.mu.Unlock()
	if hold == nil {
		return errLost
	}
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	if err := hold.Check(ctx); errors.Is(err, bus.ErrStale) {
		s.yield(err)
		return errLost
	}
	return nil
}

// yield leaves the session to the worker that has it: nothing is decided,
// withdrawn or told here any more.
func (s *session) yield(why error) {
	s.mu.Lock()
	before := s.lost
	s.lost = true
	s.mu.Unlock()
	if !before {
		s.log.Warn("session left to another worker", "reason", why)
	}
	s.gate.Leave()
	s.cancel(errLost)
}

// asker is the client, as long as the session is this worker's.
type asker struct {
	*bus.Client
	s *session
}

var _ gate.Asker = asker{}

// Take implements gate.Asker.
func (a asker) Take(ctx context.Context, ref subject.Ref, decisionID, by string) (bool, error) {
	if err := a.s.check(ctx); err != nil {
		return false, err
	}
	return a.Client.Take(ctx, ref, decisionID, by)
}

func (s *session) kick() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// deliver hands waiting prompts to the run, in order.
func (s *session) deliver() {
	for {
		s.mu.Lock()
		if s.run == nil || len(s.rec.Inbox) == 0 || s.over != nil {
			s.mu.Unlock()
			return
		}
		run, p := s.run, s.rec.Inbox[0]
		s.mu.Unlock()
		err := run.Prompt(s.ctx, p)
		var rejected *runtime.RejectedError
		switch {
		case s.ctx.Err() != nil:
			return // a prompt that was not taken stays in the inbox
		case errors.As(err, &rejected):
			s.Emit(runtime.Problem{Message: rejected.Error()})
			s.Emit(runtime.Turn{Assistant: false})
		case err != nil:
			s.finish(ending{message: err.Error()})
			return
		}
		s.mu.Lock()
		s.rec.Inbox = s.rec.Inbox[1:]
		s.save()
		s.mu.Unlock()
	}
}

// save needs s.mu. Without its file the session would not survive, but it can
// still go on.
func (s *session) save() {
	if s.over != nil {
		return // what ended it has the last word
	}
	if err := s.w.dir.Save(&s.rec); err != nil {
		s.log.Error("session not stored", "error", err)
	}
}

func now() time.Time { return time.Now().UTC() }

func (s *session) publishState() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pushState()
}

// pushState needs s.mu, which keeps states in order.
func (s *session) pushState() {
	st := s.rec.State
	s.pub.push(item{state: &st})
}

// Emit implements runtime.Host.
func (s *session) Emit(e runtime.Event) {
	s.pub.waitRoom(s.ctx)
	switch e := e.(type) {
	case runtime.TextDelta:
		s.pub.push(item{delta: &delta{hitl.EventTextDelta, e.BlockID, e.Parent, e.Text}})
	case runtime.ToolDelta:
		s.pub.push(item{delta: &delta{hitl.EventToolCallDelta, e.ID, e.Parent, e.Text}})
	case runtime.Turn:
		s.turn(e.Assistant)
	case runtime.Info:
		s.info(e)
	case runtime.Ended:
		s.finish(ending{message: e.Message})
	default:
		if done, ok := e.(runtime.ToolResult); ok {
			s.gate.Ran(done.ID, done.IsError)
		}
		if ev := encodeEvent(e); ev != nil {
			s.pub.push(item{event: ev})
		}
	}
}

func (s *session) turn(assistant bool) {
	state := hitl.StateUserTurn
	if assistant {
		state = hitl.StateAssistantTurn
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rec.State.State == state || s.over != nil {
		return
	}
	s.rec.State.State, s.rec.State.StateChangedAt = state, now()
	s.save()
	s.pushState()
}

func (s *session) info(e runtime.Info) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := &s.rec.State
	mode, model := st.Mode, st.Model
	if e.Mode != "" {
		st.Mode = e.Mode
	}
	if e.Model != "" {
		st.Model = e.Model
	}
	if (st.Mode != mode || st.Model != model) && s.over == nil {
		s.save()
		s.pushState()
	}
}

// Ask implements runtime.Host.
func (s *session) Ask(a gate.Ask) {
	r := *a.Request
	s.mu.Lock()
	r.SessionID, r.ProjectID = s.id, s.rec.State.ProjectID
	for i := range s.rec.Asks {
		// Asked again, it is the same request: with the time that people were
		// given then, whatever this worker's own is.
		if kept := &s.rec.Asks[i]; kept.ID == a.ID {
			a.Again = true
			r.ExpiresIn, r.AttentionIn = kept.Request.ExpiresIn, kept.Request.AttentionIn
		}
	}
	s.mu.Unlock()
	if r.ExpiresIn == nil {
		r.ExpiresIn = s.w.expires
	}
	if r.AttentionIn == nil {
		r.AttentionIn = s.w.attention
	}
	a.Request = &r
	if err := s.gate.Open(a); err != nil {
		s.log.Info("ask not opened", "ask", a.ID, "error", err) // the session is over or left
	}
}

// Withdraw implements runtime.Host.
func (s *session) Withdraw(id, reason string) { s.gate.Withdraw(id, reason) }

// Remember implements runtime.Host.
func (s *session) Remember(memory json.RawMessage) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rec.Memory = memory
	return s.w.dir.Save(&s.rec)
}

// Flush implements runtime.Host.
func (s *session) Flush(ctx context.Context) error { return s.pub.flush(ctx) }

// KeepAsk implements gate.Keeper.
func (s *session) KeepAsk(k gate.Kept) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.rec.Asks {
		if s.rec.Asks[i].ID == k.ID {
			s.rec.Asks[i] = k
			return s.w.dir.Save(&s.rec)
		}
	}
	s.rec.Asks = append(s.rec.Asks, k)
	return s.w.dir.Save(&s.rec)
}

// DropAsk implements gate.Keeper.
func (s *session) DropAsk(id string, r *gate.Receipt) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rec.Asks = slices.DeleteFunc(slices.Clone(s.rec.Asks), func(k gate.Kept) bool { return k.ID == id })
	if r != nil {
		s.rec.Receipts = append(slices.Clone(s.rec.Receipts), *r)
	}
	return s.w.dir.Save(&s.rec)
}

// DropReceipt implements gate.Keeper. The next change of the session brings it
// to disk.
func (s *session) DropReceipt(r *gate.Receipt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rec.Receipts = slices.DeleteFunc(slices.Clone(s.rec.Receipts), func(o gate.Receipt) bool { return o == *r })
}
