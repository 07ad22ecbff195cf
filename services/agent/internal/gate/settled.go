package gate

import (
	"errors"
	"fmt"
	"sync"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/trace"
)

// Verdict is what a runtime has to tell its agent.
type Verdict struct {
	// Content is what was decided; its Outcome is empty when no decision could
	// be had, and then nothing may run.
	Content hitl.Content
	// Text is for the agent whenever the outcome is neither allowed nor answered.
	Text string
}

// Yes reports whether the tool may run, or the question has its answer.
func (v *Verdict) Yes() bool {
	return v.Content.Outcome == hitl.Allowed || v.Content.Outcome == hitl.Answered
}

// Settled is an ask whose wait has ended. Exactly one of Use, Refuse and
// Confirm is called, once; later calls do nothing.
type Settled struct {
	ID      string
	Request *hitl.Request
	Private []byte

	gate     *Gate
	answer   *bus.Answer // nil when there is no decision
	verdict  Verdict
	mismatch string        // why the decision may not be used
	last     chan struct{} // closed when the last receipt so far was sent
	once     sync.Once
	at       trace.Point // where in its trace it is handed over; without a decision, where it was asked
	span     *trace.Span
}

// Verdict is the decision as it stands, for a look without using it.
func (s *Settled) Verdict() Verdict { return s.verdict }

// Spent reports whether an earlier process handed an approval of this request
// out. Whether the tool ran then, nobody knows.
func (s *Settled) Spent() bool { return s.spent() != nil }

func (s *Settled) spent() error {
	if s.verdict.Content.Outcome != hitl.Allowed || s.answer == nil {
		return nil
	}
	return s.gate.ledger.Spent(s.answer.Decision.InteractionID, s.answer.Decision.DecisionID)
}

// Use hands the verdict to tell, which passes it to the agent. An approval is
// claimed first, on the server and in the ledger, which waits for a server that
// cannot be reached; if it cannot be had, tell gets a verdict that runs nothing.
// An error of tell means that the agent did not take it. The people who decided
// are told either way.
func (s *Settled) Use(tell func(Verdict) error) {
	s.once.Do(func() {
		if s.gate.leaving() {
			return // a successor finds the ask and its decision
		}
		v, refusal := s.verdict, s.mismatch
		if v.Content.Outcome == hitl.Allowed {
			err := s.claim()
			if err != nil && s.gate.leaving() {
				return
			}
			if err != nil {
				v, refusal = s.unusable(err)
			}
		}
		err := tell(v)
		switch {
		case err != nil && s.gate.leaving():
			return // nobody was told: a successor finds the ask and its decision
		case refusal != "":
			s.finish(hitl.Refused, refusal)
		case err != nil:
			s.gate.log.WarnContext(s.ctx(), "decision could not be handed over", "ask", s.ID)
			s.gate.log.DebugContext(s.ctx(), "decision could not be handed over", "ask", s.ID, "error", err) // may quote the agent
			s.finish(hitl.Refused, "the agent did not take the decision: "+err.Error())
		default:
			s.runs()
			s.finish(hitl.Applied, "")
		}
	})
}

// claim takes the approval for its one use: among the worker processes of the
// owner by the server's word, which two copies of a data directory have in
// common, and in this directory by the ledger, which holds when the server's data
// are put back to an older copy.
func (s *Settled) claim() error {
	d := s.answer.Decision
	if err := s.gate.ledger.Spent(d.InteractionID, d.DecisionID); err != nil {
		return err
	}
	won, err := s.gate.asker.Take(s.gate.ended, s.answer.Ref, d.DecisionID, s.gate.id)
	switch {
	case err != nil:
		return fmt.Errorf("claim: %w", err)
	case !won:
		return ErrTaken
	}
	return s.gate.ledger.Claim(d.InteractionID, d.DecisionID)
}

func (s *Settled) unusable(err error) (Verdict, string) {
	if errors.Is(err, ErrSpent) || errors.Is(err, ErrReplaced) || errors.Is(err, ErrTaken) {
		return Verdict{Text: SpentText}, err.Error()
	}
	if errors.Is(err, bus.ErrOverQuota) {
		s.gate.log.ErrorContext(s.ctx(), "approval not used: the quota of what this worker may tell is used up", "ask", s.ID, "error", err)
		return Verdict{Text: "The tool was not run: the approval was given, but its use could not be recorded, because this worker has used up its quota for today"},
			"the worker has used up its quota of conversation, and could not record that it uses the approval"
	}
	s.gate.log.ErrorContext(s.ctx(), "approval not used: it could not be recorded", "ask", s.ID, "error", err)
	return Verdict{Text: "The tool was not run: the approval was given, but could not be recorded on the agent's machine"},
		"the approval could not be recorded on the agent's machine"
}

// Refuse ends the ask without telling the agent anything.
func (s *Settled) Refuse(why string) {
	s.once.Do(func() { s.finish(hitl.Refused, why) })
}

// RefuseSpent is Refuse for an approval that is Spent. why is what people are told
// who gave it; who gave a second one of the same request is told that.
func (s *Settled) RefuseSpent(why string) {
	if err := s.spent(); errors.Is(err, ErrReplaced) {
		why = err.Error()
	}
	s.Refuse(why)
}

// Confirm ends the ask for a runtime that knows that it took this decision, in
// an earlier process. An approval that this directory's ledger has not was not
// handed out there: it could not be claimed, and people are told so.
func (s *Settled) Confirm() {
	s.once.Do(func() {
		switch {
		case s.mismatch != "":
			s.finish(hitl.Refused, s.mismatch)
		case s.verdict.Content.Outcome == hitl.Allowed && !s.Spent():
			s.finish(hitl.Refused, ErrTaken.Error())
		case errors.Is(s.spent(), ErrReplaced):
			s.finish(hitl.Refused, ErrReplaced.Error())
		default:
			s.finish(hitl.Applied, "")
		}
	})
}

// finish is the end of the ask. Its receipt is on disk before the ask is gone
// from there, so that a crash loses neither.
func (s *Settled) finish(stage, detail string) {
	s.span.Stage(stage)
	s.span.End()
	if s.answer == nil {
		s.gate.forget(s, nil)
		return
	}
	d := s.answer.Decision
	s.gate.log.InfoContext(s.ctx(), "settled", "interaction", s.answer.Ref.String(), "outcome", d.Outcome, "stage", stage)
	r := &Receipt{Ref: s.answer.Ref, DecisionID: d.DecisionID, Stage: stage, Detail: detail}
	s.gate.forget(s, r)
	s.ack(stage, detail, func() { s.gate.keeper.DropReceipt(r) })
}

// ack sends a receipt behind the ones before it, without holding up the caller.
// sent, if set, is called when the server has it.
func (s *Settled) ack(stage, detail string, sent func()) {
	prev, done := s.last, make(chan struct{})
	s.last = done
	s.gate.goAck(func() {
		defer close(done)
		if prev != nil {
			<-prev
		}
		if s.gate.send(s.at, s.answer.Ref, stage, s.answer.Decision.DecisionID, detail) && sent != nil {
			sent()
		}
	})
}

// SpentText tells the agent that an approval cannot be used again.
const SpentText = "The tool was not run: its approval was already used once, and each approval is for one run"

// mismatchText tells the agent that the decision was about something else.
const mismatchText = "The tool was not run: the decision was about other content than what was about to run"

// check says why the answer is not about the request that is held here.
func check(held *hitl.Request, a *bus.Answer) string {
	d := a.Decision
	if d == nil {
		return "there is no decision in the answer"
	}
	if d.InteractionID != a.Ref.ID {
		return "the decision names another interaction"
	}
	if d.Digest != hitl.Digest(a.Request) {
		return "digest mismatch: what was shown is not what was asked"
	}
	if d.Outcome == hitl.InvalidIX {
		return "" // nothing of it was shown, so there is nothing to compare
	}
	shown, err := hitl.ParseRequest(a.Request)
	if err != nil {
		return fmt.Sprintf("the request that was decided cannot be read: %v", err)
	}
	if field := difference(held, shown); field != "" {
		return "the request that was decided differs in " + field
	}
	return ""
}

// difference names the first part that matters to what runs and is not the same
// content in both.
func difference(held, shown *hitl.Request) string {
	same := func(a, b any) bool {
		ra, errA := hitl.Marshal(a)
		rb, errB := hitl.Marshal(b)
		if errA != nil || errB != nil {
			return false
		}
		ca, errA := hitl.Canonical(ra)
		cb, errB := hitl.Canonical(rb)
		return errA == nil && errB == nil && string(ca) == string(cb)
	}
	switch {
	case held.Kind != shown.Kind:
		return "kind"
	case held.SessionID != shown.SessionID:
		return "session_id"
	case held.ToolCallID != shown.ToolCallID:
		return "tool_call_id"
	case !same(held.Tool, shown.Tool):
		return "tool"
	case !same(held.Questions, shown.Questions):
		return "questions"
	case !same(held.Schema, shown.Schema):
		return "schema"
	case !same(held.Options, shown.Options):
		return "options"
	case !same(held.Suggestions, shown.Suggestions):
		return "suggestions"
	}
	return ""
}
