package claudert

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/services/agent/internal/claude"
	"github.com/banksman/banksman/services/agent/internal/claude/protocol"
	"github.com/banksman/banksman/services/agent/internal/gate"
	"github.com/banksman/banksman/services/agent/internal/runtime"
)

// grant is a decision from before a restart, to be applied when the model makes
// the same call again in the turn that tells it.
type grant struct {
	call    *private
	settled *gate.Settled
	// told: the decision was no approval and went to the model in words. Its one
	// repetition is answered without a receipt.
	told bool
}

func (g *grant) apply(tell func(gate.Verdict) error) {
	if g.told {
		_ = tell(g.settled.Verdict()) // a failure means that the CLI is gone
		return
	}
	g.settled.Use(tell)
}

func (r *run) takeGrant(call *private) *grant {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, g := range r.grants {
		if g.call.same(call) {
			r.grants = slices.Delete(r.grants, i, i+1)
			return g
		}
	}
	return nil
}

// dropGrants ends approvals that the model made no use of: they were for that
// turn, and must not lie around.
func (r *run) dropGrants() {
	r.mu.Lock()
	left := r.grants
	r.grants = nil
	r.mu.Unlock()
	for _, g := range left {
		if !g.told {
			g.settled.Refuse("after the restart of its worker the agent did not make this call again")
		}
	}
}

// regain asks again for what an earlier process left open. Without any, the run
// is ready.
func (r *run) regain(open []gate.Kept) {
	if len(open) == 0 {
		r.readyOnce.Do(func() { close(r.ready) })
		return
	}
	r.busy = true
	r.waiting = map[string]gate.Kept{}
	for _, k := range open {
		r.waiting[k.ID] = k
	}
	for _, k := range open {
		r.host.Ask(gate.Ask{Kept: k, Settle: func(s *gate.Settled) {
			r.mu.Lock()
			_, waits := r.waiting[s.ID]
			killed := r.killed
			if waits && !killed {
				delete(r.waiting, s.ID)
				r.settled = append(r.settled, s)
				if len(r.waiting) == 0 {
					r.wg.Go(r.takeUp)
				}
			}
			r.mu.Unlock()
			if !waits && !killed { // a killed run's is left to a successor
				s.Refuse(abandoned)
			}
		}})
	}
}

// abandoned is for those who decided what an interrupt gave up.
const abandoned = "the agent was interrupted before it took the session up again"

// abandon gives up what is being regained, on a person's word, and reports whether
// there was anything.
func (r *run) abandon() bool {
	r.mu.Lock()
	waiting, settled := r.waiting, r.settled
	r.waiting, r.settled = nil, nil
	r.mu.Unlock()
	for id := range waiting {
		r.host.Withdraw(id, "interrupted")
	}
	for _, s := range settled {
		s.Refuse(abandoned)
	}
	if len(waiting)+len(settled) == 0 {
		return false
	}
	r.host.Emit(runtime.TurnDone{Reason: runtime.Interrupted})
	r.setBusy(false)
	r.readyOnce.Do(func() { close(r.ready) })
	return true
}

// taken waits until what was settled has been told to the CLI: an interrupt before
// that would find it idle, and the prompt that follows would make it go on.
func (r *run) taken(ctx context.Context) error {
	r.mu.Lock()
	telling := r.telling
	r.mu.Unlock()
	if !telling {
		return nil
	}
	select {
	case <-r.ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-r.ctx.Done():
		return claude.ErrExited
	}
}

// takeUp resumes the CLI and tells the model what became of its open calls, unless
// it was interrupted by then.
func (r *run) takeUp() {
	r.mu.Lock()
	interrupted := len(r.settled) == 0
	r.mu.Unlock()
	if interrupted {
		return
	}
	proc, err := r.process(r.ctx)
	var told []*gate.Settled
	r.mu.Lock()
	settled := r.settled
	r.settled, r.telling = nil, len(settled) > 0
	if err != nil || len(settled) == 0 {
		r.mu.Unlock()
		if err != nil && len(settled) > 0 {
			r.end(err.Error())
		}
		return
	}
	for _, s := range settled {
		var call private
		if json.Unmarshal(s.Private, &call) != nil {
			told = append(told, s)
			continue
		}
		v := s.Verdict()
		needsCall := v.Content.Outcome == hitl.Allowed && !s.Spent()
		if !needsCall {
			told = append(told, s)
		}
		if v.Yes() && !s.Spent() {
			r.grants = append(r.grants, &grant{call: &call, settled: s, told: !needsCall})
		}
	}
	r.mu.Unlock()
	text := resumeText(settled)
	r.host.Emit(runtime.Note{Message: text})
	err = r.say(proc, protocol.TextBlock(text))
	for _, s := range told {
		if s.Spent() {
			s.RefuseSpent("the approval was handed over before the worker was lost; whether the tool ran is unknown")
			continue
		}
		s.Use(func(gate.Verdict) error { return err })
	}
	if err != nil {
		r.end("the conversation cannot be resumed: " + err.Error())
		return
	}
	r.readyOnce.Do(func() { close(r.ready) })
}

// resumeText words decisions for a model whose calls were lost with their worker.
func resumeText(settled []*gate.Settled) string {
	var b strings.Builder
	b.WriteString("[Automatic note, not written by the user] The process that ran you was restarted while ")
	if len(settled) == 1 {
		b.WriteString("a call of yours waited for a person. The decision has come in since. Take it from here, do not stop.\n")
	} else {
		fmt.Fprintf(&b, "%d calls of yours waited for a person. The decisions have come in since. Take it from here, do not stop.\n", len(settled))
	}
	for i, s := range settled {
		var call private
		_ = json.Unmarshal(s.Private, &call) // then the request itself has to do
		what := "Tool " + call.Tool
		if call.Form != "" {
			what = "A form of the MCP server " + call.Form
		}
		fmt.Fprintf(&b, "\n%d. %s, with exactly this input:\n%s\n", i+1, what, call.Input)
		b.WriteString(decisionText(s))
	}
	return b.String()
}

func decisionText(s *gate.Settled) string {
	v := s.Verdict()
	switch {
	case s.Spent():
		return "Decision: approved, and handed over just before the restart. Whether it ran is unknown: check before you do it again.\n"
	case v.Content.Outcome == hitl.Allowed && len(v.Content.UpdatedInput) > 0:
		return "It was not run. Decision: approved with changes by the person, who wants this input instead:\n" + string(v.Content.UpdatedInput) +
			"\nMake the call once more with your original input, exactly as above: the changed one then runs, without a new question.\n"
	case v.Content.Outcome == hitl.Allowed:
		return "It was not run. Decision: approved. Make the call once more with exactly the same input: it then runs without a new question.\n"
	case v.Content.Outcome == hitl.Answered && s.Request.Kind == hitl.KindQuestion:
		var b strings.Builder
		b.WriteString("Decision: answered. You need not ask again. The answers:\n")
		for _, a := range v.Content.Answers {
			q := findQuestion(s.Request, a.QuestionID)
			if q == nil {
				continue
			}
			fmt.Fprintf(&b, "- %s -> %s\n", q.Question, answerValue(q, &a))
			if a.Notes != "" {
				fmt.Fprintf(&b, "  Notes: %s\n", a.Notes)
			}
		}
		return b.String()
	case v.Content.Outcome == hitl.Answered:
		return "Decision: the form was filled in:\n" + string(v.Content.Content) + "\n"
	case v.Content.Outcome == hitl.Denied:
		return "It was not run. Decision: denied by the person, in these words:\n" + v.Text + "\n"
	case v.Content.Outcome == hitl.Clarify:
		return "It was not run. Instead of an answer the person wrote:\n" + v.Text + "\n"
	}
	return "It was not run. Nobody decided: " + v.Text + "\n"
}
