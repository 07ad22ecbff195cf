package gate

import (
	"context"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/trace"
)

// trace begins the span of a decision's way to the agent, below where it was decided.
// finish ends it; where a successor goes on, that one has its own.
func (s *Settled) trace() {
	s.at = s.answer.Trace
	ctx, span := s.gate.tracer.Join(s.ctx(), trace.Deliver, s.answer.Ref)
	span.Outcome(s.answer.Decision.Outcome)
	s.at, s.span = trace.Of(ctx), span
}

// ctx is where it stands in its trace.
func (s *Settled) ctx() context.Context { return s.at.In(context.Background()) }

// runs begins the span of the tool that the agent has just been allowed to run. It ends
// with the tool's result, or unknown with the session.
func (s *Settled) runs() {
	id := s.Request.ToolCallID
	if s.verdict.Content.Outcome != hitl.Allowed || id == "" {
		return
	}
	_, span := s.gate.tracer.Join(s.ctx(), trace.Run, s.answer.Ref)
	if span == nil {
		return
	}
	span.Asks(s.Request)
	g := s.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed != nil || g.runs[id] != nil {
		span.Fail("unknown")
		span.End()
		return
	}
	g.runs[id] = span
}

// Ran says that the agent told the result of a tool call.
func (g *Gate) Ran(toolCallID string, failed bool) {
	g.mu.Lock()
	span := g.runs[toolCallID]
	delete(g.runs, toolCallID)
	g.mu.Unlock()
	if failed {
		span.Fail("tool_failed")
	}
	span.End()
}

// stopRuns ends the spans of tools whose results nobody will hear. It needs g.mu.
func (g *Gate) stopRuns() {
	for id, span := range g.runs {
		span.Fail("unknown")
		span.End()
		delete(g.runs, id)
	}
}
