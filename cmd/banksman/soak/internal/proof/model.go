package proof

import (
	"fmt"

	"github.com/anishathalye/porcupine"

	"github.com/banksman/banksman/pkg/hitl"
)

// state is one interaction as the model has it. verdict.ID is set once it is
// decided.
type state struct {
	asked   bool
	verdict Verdict
}

// model is what an interaction promises: it is asked, then decided once, and
// from that moment on everybody is told that decision.
var model = porcupine.Model{
	Init:  func() any { return state{} },
	Equal: func(a, b any) bool { return a == b },
	Step: func(s, in, _ any) (bool, any) {
		ok, next := step(s.(state), in.(Operation))
		return ok, next
	},
	DescribeOperation: func(in, _ any) string {
		o := in.(Operation)
		return fmt.Sprintf("%s %s by %s: %s %s %s", o.Kind, o.Content, o.Client, o.Saw, o.Verdict.Outcome, o.Verdict.ID)
	},
	DescribeState: func(s any) string {
		st := s.(state)
		switch {
		case st.verdict.ID != "":
			return st.verdict.Outcome + " by " + st.verdict.Principal
		case st.asked:
			return SawPending
		}
		return "absent"
	},
}

// step tells whether an operation may see what it saw in a state, and the state
// after it.
func step(s state, o Operation) (bool, state) {
	pending := s.asked && s.verdict.ID == ""
	told := s.verdict.ID != "" && s.verdict == o.Verdict
	decide := func() (bool, state) { return pending, state{asked: true, verdict: o.Verdict} }
	switch o.Kind {
	case OpAsk:
		s.asked = true
		return true, s
	case OpAwait: // that somebody was told nothing has a rule of its own
		return told || o.Saw == SawNoDecision, s
	case OpSettle:
		return decide()
	case OpDecide:
		switch hitl.Status(o.Saw) {
		case hitl.Accepted:
			if !o.mine(o.Verdict) {
				return false, s
			}
			return decide()
		case hitl.Duplicate:
			return told && o.mine(o.Verdict), s
		case hitl.AlreadyDecided:
			return told && !o.mine(o.Verdict) && o.Verdict.Outcome != string(hitl.Expired), s
		case hitl.TooLate:
			return told && o.Verdict.Outcome == string(hitl.Expired), s
		case hitl.NotFound:
			return !s.asked, s
		case hitl.DigestMismatch: // said of the request, whatever became of it
			return s.asked, s
		case SawSilence:
			// Read back: the record's decision says what this attempt wanted.
			// It can have been stored by this one, or another one was faster.
			if pending {
				return decide()
			}
			return true, s
		}
	case OpGet, OpRecord:
		switch o.Saw {
		case SawPending:
			return pending, s
		case SawClosed:
			return told, s
		case SawNothing:
			return !s.asked, s
		}
	}
	return false, s
}
