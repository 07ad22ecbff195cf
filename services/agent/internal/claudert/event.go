package claudert

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/banksman/banksman/services/agent/internal/claude"
	"github.com/banksman/banksman/services/agent/internal/claude/protocol"
	"github.com/banksman/banksman/services/agent/internal/gate"
	"github.com/banksman/banksman/services/agent/internal/runtime"
)

// conn is one process of a run. Its events come one at a time.
type conn struct {
	run *run

	mu      sync.Mutex
	proc    *claude.Proc     // nil until the start is over
	early   []protocol.Event // what waits for an answer, or is the end; until then
	ignored bool
}

// use lets the events of p through, those first that came before its start was over.
func (c *conn) use(p *claude.Proc) {
	for {
		c.mu.Lock()
		early := c.early
		c.early = nil
		if len(early) == 0 {
			c.proc = p
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
		for _, e := range early {
			c.pass(p, e)
		}
	}
}

func (c *conn) ignore() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ignored = true
}

func (c *conn) handle(e protocol.Event) {
	c.mu.Lock()
	proc, ignored := c.proc, c.ignored
	if proc == nil {
		switch e.(type) {
		case protocol.Ask, protocol.Elicitation, protocol.AskWithdrawn, protocol.Exited:
			c.early = append(c.early, e)
		}
	}
	c.mu.Unlock()
	if ignored || proc == nil {
		return // the start has not succeeded, and says so itself if it fails
	}
	c.pass(proc, e)
}

func (c *conn) pass(proc *claude.Proc, e protocol.Event) {
	r := c.run
	switch e := e.(type) {
	case protocol.Init:
		r.host.Emit(runtime.Info{Model: e.Model})
		r.noteMode(e.Mode)
	case protocol.Status:
		r.noteMode(e.Mode)
	case protocol.TextDelta:
		r.host.Emit(runtime.TextDelta{BlockID: r.block(e.Parent), Text: e.Text, Parent: e.Parent})
	case protocol.Text:
		r.host.Emit(runtime.Text{Role: "assistant", BlockID: r.block(e.Parent), Text: e.Text, Parent: e.Parent})
		r.blocks[e.Parent]++
		if e.Parent == "" {
			r.lastWords = e.Text
		}
	case protocol.ToolCallStart:
		r.parents[e.ID] = e.Parent
		r.host.Emit(runtime.ToolStart{ID: e.ID, Name: e.Name, Parent: e.Parent})
	case protocol.ToolCallDelta:
		r.host.Emit(runtime.ToolDelta{ID: e.ID, Text: e.Input, Parent: e.Parent})
	case protocol.ToolCallEnd:
		r.parents[e.ID] = e.Parent
		r.noteChild(e)
		r.host.Emit(runtime.ToolEnd{ID: e.ID, Name: e.Name, Input: e.Input, Parent: e.Parent})
	case protocol.ToolResult:
		r.host.Emit(runtime.ToolResult{ID: e.ToolUseID, Content: e.Text, IsError: e.IsError, Parent: e.Parent})
	case protocol.Ask:
		r.ask(proc, &e)
	case protocol.Elicitation:
		r.elicit(proc, &e)
	case protocol.AskWithdrawn:
		r.host.Withdraw(e.RequestID, "the agent took it back")
	case protocol.SessionState:
		switch e.State {
		case "running":
			r.setBusy(true)
		case "idle":
			r.setBusy(false)
		}
	case protocol.TurnEnded:
		r.turned()
		r.dropGrants()
		if e.IsError && e.Text != "" {
			r.host.Emit(runtime.Problem{Message: e.Text})
		}
		r.host.Emit(runtime.TurnDone{Reason: turnReason(e)})
		r.setBusy(false)
	case protocol.Exited:
		r.exited(e)
	}
}

// turnReason says why a turn ended, in the words that every runtime uses where
// there is one.
func turnReason(e protocol.TurnEnded) string {
	switch {
	case e.Reason == "completed":
		return runtime.EndTurn
	case strings.HasPrefix(e.Reason, "aborted"):
		return runtime.Interrupted
	case e.Reason != "":
		return e.Reason
	}
	return e.Subtype
}

func (r *run) block(parent string) string {
	if parent != "" {
		return fmt.Sprintf("%s-%s-%d", r.prefix, parent, r.blocks[parent])
	}
	return fmt.Sprintf("%s-%d", r.prefix, r.blocks[parent])
}

// noteChild remembers what a sub-agent is called.
func (r *run) noteChild(e protocol.ToolCallEnd) {
	if e.Name != "Task" && e.Name != "Agent" {
		return
	}
	var in struct {
		Type        string `json:"subagent_type"`
		Name        string `json:"name"`
		Description string `json:"description"`
	}
	_ = json.Unmarshal(e.Input, &in) // without a name there is the agent id
	for _, name := range []string{in.Name, in.Type, in.Description} {
		if strings.TrimSpace(name) != "" {
			r.children[e.ID] = name
			return
		}
	}
}

func (r *run) about(toolUseID string) about {
	r.mu.Lock()
	defer r.mu.Unlock()
	return about{
		cliSession: r.memory.CLISession, version: r.version, cwd: r.spec.Cwd,
		child: r.children[r.parents[toolUseID]], lastWords: r.lastWords,
	}
}

// ask relays "may I?". Whatever the CLI asks is asked: which calls need consent
// is up to its permission mode.
func (r *run) ask(proc *claude.Proc, a *protocol.Ask) {
	if g := r.takeGrant(&private{Tool: a.ToolName, Input: a.Input}); g != nil {
		r.wg.Go(func() { // to claim an approval may take long
			g.apply(func(v gate.Verdict) error {
				return answerTool(proc, a.RequestID, a.Input, g.settled.Request, v)
			})
		})
		return
	}
	mapper := approval
	if a.ToolName == protocol.QuestionTool {
		mapper = question
	}
	kept, err := mapper(a, r.about(a.ToolUseID))
	if err != nil {
		r.host.Emit(runtime.Problem{Message: "A request of the agent could not be shown and was denied: " + err.Error()})
		if err := proc.Deny(a.RequestID, "The tool was not run: its request could not be shown to a person ("+err.Error()+")", false); err != nil {
			r.log.Warn("could not deny", "ask", a.RequestID, "error", err)
		}
		return
	}
	input, req := a.Input, kept.Request
	r.host.Ask(gate.Ask{Kept: kept, Settle: func(s *gate.Settled) {
		s.Use(func(v gate.Verdict) error { return answerTool(proc, a.RequestID, input, req, v) })
	}})
}

func (r *run) elicit(proc *claude.Proc, e *protocol.Elicitation) {
	refuse := func(why string) {
		r.host.Emit(runtime.Problem{Message: "A form of the MCP server " + e.Server + " could not be shown and was cancelled: " + why})
		if err := proc.AnswerElicitation(e.RequestID, protocol.Cancel, nil); err != nil {
			r.log.Warn("could not cancel a form", "ask", e.RequestID, "error", err)
		}
	}
	build := form
	switch e.Mode {
	case "form":
	case "url":
		build = page
	default:
		refuse("its mode " + e.Mode + " is not known here")
		return
	}
	kept, err := build(e, r.about(""))
	if err != nil {
		refuse(err.Error())
		return
	}
	call := &private{Form: e.Server, Input: e.Schema}
	if kept.Request.Tool != nil {
		call.Input = kept.Request.Tool.Input
	}
	if g := r.takeGrant(call); g != nil {
		r.wg.Go(func() {
			g.apply(func(v gate.Verdict) error { return answerForm(proc, e.RequestID, g.settled.Request, v) })
		})
		return
	}
	req := kept.Request
	r.host.Ask(gate.Ask{Kept: kept, Settle: func(s *gate.Settled) {
		s.Use(func(v gate.Verdict) error { return answerForm(proc, e.RequestID, req, v) })
	}})
}

// exited ends the run, unless the CLI was idle: then the next prompt brings it
// back.
func (r *run) exited(e protocol.Exited) {
	msg := exitText(e)
	r.mu.Lock()
	r.proc, r.exit = nil, msg
	idle := !r.busy && len(e.Open) == 0 && e.Err == nil && r.memory.Begun
	leave := r.killed || r.writing
	r.mu.Unlock()
	if leave {
		return
	}
	r.dropGrants()
	if idle {
		r.log.Info("the idle CLI ended; the next message starts it again", "code", e.Code)
		return
	}
	r.end(msg)
}

func exitText(e protocol.Exited) string {
	msg := fmt.Sprintf("Claude Code ended unexpectedly (exit code %d)", e.Code)
	if e.Err != nil {
		msg += ": " + e.Err.Error()
	}
	if tail := strings.TrimSpace(e.Stderr); tail != "" {
		if len(tail) > 1000 {
			tail = "…" + strings.ToValidUTF8(tail[len(tail)-1000:], "")
		}
		msg += ": " + tail
	}
	return msg
}
