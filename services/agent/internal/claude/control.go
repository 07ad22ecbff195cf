package claude

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/banksman/banksman/services/agent/internal/claude/protocol"
)

const stateIdle = "idle"

// stateStarting stands for the time between a prompt and the CLI's first report.
const stateStarting = "starting a turn"

type askKind int

const (
	askTool askKind = iota
	askQuestion
	askForm
)

type askPhase int

const (
	askOpen askPhase = iota
	askAnswered
	askWithdrawn
)

// askState is kept for the life of the process, so that a late answer gets the
// right error; the input only as long as it is open.
type askState struct {
	kind  askKind
	state askPhase
	input json.RawMessage
}

// accept takes in what a line meant: bookkeeping first, then the event.
func (p *Proc) accept(d protocol.Decoded, size int) {
	if d.Reply != nil {
		p.mu.Lock()
		c := p.waiting[d.Reply.RequestID]
		delete(p.waiting, d.Reply.RequestID)
		p.mu.Unlock()
		if c != nil {
			c <- d.Reply // buffered
		}
		return
	}
	if d.Refuse != nil {
		p.log.Warn("refused a request of claude", "request_id", d.Refuse.RequestID)
		p.queue.push(item{refuse: d.Refuse})
		return
	}
	for _, e := range d.Events {
		if p.note(e) {
			p.queue.push(item{event: e, size: size})
		}
	}
	p.queue.waitRoom()
}

// note updates the bookkeeping and says whether the event goes on.
func (p *Proc) note(e protocol.Event) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := e.(type) {
	case protocol.Ask:
		return p.open(e.RequestID, toolKind(e.ToolName), e.Input)
	case protocol.Elicitation:
		return p.open(e.RequestID, askForm, nil)
	case protocol.AskWithdrawn:
		a := p.asks[e.RequestID]
		if a == nil || a.state == askWithdrawn {
			return false
		}
		a.state, a.input = askWithdrawn, nil
	case protocol.SessionState:
		p.state = e.State
		if e.State == stateIdle {
			p.prompted = false
		}
	case protocol.TurnEnded:
		if p.state == "" { // this CLI reports no states
			p.prompted = false
		}
	}
	return true
}

// open needs p.mu. A request that is already known is not announced again.
func (p *Proc) open(id string, kind askKind, input json.RawMessage) bool {
	if p.asks[id] != nil {
		return false
	}
	p.asks[id] = &askState{kind: kind, input: input}
	return true
}

func toolKind(tool string) askKind {
	if tool == protocol.QuestionTool {
		return askQuestion
	}
	return askTool
}

// dispatch hands events to the owner until the queue ends.
func (p *Proc) dispatch() {
	for {
		it, ok := p.queue.pop()
		if !ok {
			return
		}
		if it.refuse != nil {
			if err := p.write(protocol.RefusalLine(it.refuse)); err != nil {
				p.log.Warn("could not refuse a request of claude", "error", err)
			}
			continue
		}
		p.onEvent(it.event)
	}
}

// claim marks an open ask as answered. From there on nobody else can answer it.
// check, if not nil, runs before, under the lock.
func (p *Proc) claim(requestID string, want func(askKind) bool, check func(*askState) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.asks[requestID]
	switch {
	case a == nil:
		return fmt.Errorf("%s: %w", requestID, ErrUnknownAsk)
	case a.state == askWithdrawn:
		return fmt.Errorf("%s: %w", requestID, ErrWithdrawn)
	case a.state == askAnswered:
		return fmt.Errorf("%s: %w", requestID, ErrAnswered)
	case p.exited:
		return fmt.Errorf("%s: %w", requestID, ErrExited)
	case !want(a.kind):
		return fmt.Errorf("%s: %w", requestID, ErrWrongKind)
	}
	if check != nil {
		if err := check(a); err != nil {
			return err
		}
	}
	a.state, a.input = askAnswered, nil
	return nil
}

func isTool(k askKind) bool { return k != askForm }
func isForm(k askKind) bool { return k == askForm }

// Allow lets the tool run with updatedInput, a JSON object that is passed on
// byte for byte; nil means the input that was asked for. For AskUserQuestion it
// has to carry answers (see protocol.EncodeAnswers). updatedPermissions is a JSON
// array of permission updates, or nil. After a *protocol.InputError the ask is
// still open.
func (p *Proc) Allow(requestID string, updatedInput, updatedPermissions json.RawMessage) error {
	var line []byte
	err := p.claim(requestID, isTool, func(a *askState) (err error) {
		input := updatedInput
		if input == nil {
			input = a.input
		}
		if line, err = protocol.AllowLine(requestID, input, updatedPermissions); err != nil {
			return err
		}
		if a.kind == askQuestion {
			return protocol.CheckAnswers(a.input, input)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return p.write(line)
}

// Deny refuses the tool call. The model reads message, word for word. interrupt
// also ends the turn.
func (p *Proc) Deny(requestID, message string, interrupt bool) error {
	line, err := protocol.DenyLine(requestID, message, interrupt)
	if err != nil {
		return err
	}
	if err := p.claim(requestID, isTool, nil); err != nil {
		return err
	}
	return p.write(line)
}

// AnswerElicitation answers a form by protocol.Accept, Decline or Cancel.
// content is a JSON object, for Accept only.
func (p *Proc) AnswerElicitation(requestID, action string, content json.RawMessage) error {
	line, err := protocol.ElicitationLine(requestID, action, content)
	if err != nil {
		return err
	}
	if err := p.claim(requestID, isForm, nil); err != nil {
		return err
	}
	return p.write(line)
}

// Prompt sends what the person says. Images go first, then documents, text
// last. During a turn it joins that turn.
func (p *Proc) Prompt(blocks ...protocol.PromptBlock) error {
	line, err := protocol.PromptLine(blocks)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.prompted = true
	p.mu.Unlock()
	return p.write(line)
}

// Interrupt stops the turn. Open asks are withdrawn before it returns.
func (p *Proc) Interrupt(ctx context.Context) error {
	_, err := p.request(ctx, "interrupt", protocol.InterruptLine)
	return err
}

// SetMode changes the permission mode. It resolves no open ask.
func (p *Proc) SetMode(ctx context.Context, mode string) error {
	if mode == "" {
		return &protocol.InputError{Field: "mode", Problem: "empty"}
	}
	_, err := p.request(ctx, "set_permission_mode", func(id string) []byte { return protocol.SetModeLine(id, mode) })
	return err
}

// Reinitialize asks the CLI for the tool asks that wait for an answer. It is
// the way back for an owner that lost track; asks it did not know become
// answerable, without an event.
func (p *Proc) Reinitialize(ctx context.Context) ([]protocol.Ask, error) {
	r, err := p.request(ctx, "initialize", protocol.InitializeLine)
	if err != nil {
		return nil, err
	}
	var asks []protocol.Ask
	for _, raw := range r.Pending {
		d, err := protocol.NewDecoder().Decode(raw)
		if err != nil || len(d.Events) != 1 {
			p.log.Warn("ignored a pending request of claude", "error", err)
			continue
		}
		a, ok := d.Events[0].(protocol.Ask)
		if !ok {
			continue
		}
		p.note(a)
		asks = append(asks, a)
	}
	return asks, nil
}

// initialize waits for the first reply.
func (p *Proc) initialize(ctx context.Context) error {
	r, err := p.request(ctx, "initialize", protocol.InitializeLine)
	if err != nil {
		return err
	}
	var in struct {
		Version string `json:"claude_code_version"`
		PID     int    `json:"pid"`
		Mode    string `json:"current_permission_mode"`
	}
	if err := json.Unmarshal(r.Response, &in); err != nil {
		return fmt.Errorf("initialize: %w", err)
	}
	p.info = Info{Version: in.Version, PID: in.PID, Mode: in.Mode, Raw: r.Response}
	return nil
}

// reinitialize returns the request ids that wait, "" for one that cannot be read,
// and the session state ("" from a CLI that does not say).
func (p *Proc) reinitialize(ctx context.Context) ([]string, string, error) {
	r, err := p.request(ctx, "initialize", protocol.InitializeLine)
	if err != nil {
		return nil, "", err
	}
	var ids []string
	for _, raw := range append(r.Pending, r.Forms...) {
		var one struct {
			RequestID string `json:"request_id"`
		}
		_ = json.Unmarshal(raw, &one) // it waits, whatever it is
		ids = append(ids, one.RequestID)
	}
	var in struct {
		State string `json:"session_state"`
	}
	if err := json.Unmarshal(r.Response, &in); err != nil {
		return nil, "", fmt.Errorf("initialize: %w", err)
	}
	return ids, in.State, nil
}

// busy says whether closing the input would deny something, by what was seen.
func (p *Proc) busy() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.exited {
		return nil
	}
	var open []string
	for id, a := range p.asks {
		if a.state == askOpen {
			open = append(open, id)
		}
	}
	state := p.state
	if state == stateIdle || state == "" {
		state = ""
		if p.prompted {
			state = stateStarting
		}
	}
	if len(open) > 0 || state != "" {
		return &BusyError{Open: open, State: state}
	}
	return nil
}

// request sends the control request that line makes, and waits for its reply.
// subtype is for errors.
func (p *Proc) request(ctx context.Context, subtype string, line func(id string) []byte) (*protocol.ControlReply, error) {
	c := make(chan *protocol.ControlReply, 1)
	p.mu.Lock()
	if p.exited {
		p.mu.Unlock()
		return nil, ErrExited
	}
	p.lastID++
	id := fmt.Sprintf("driver-%d", p.lastID)
	p.waiting[id] = c
	p.mu.Unlock()
	forget := func() {
		p.mu.Lock()
		delete(p.waiting, id)
		p.mu.Unlock()
	}
	if err := p.write(line(id)); err != nil {
		// The pipe may break before the process is reaped; the exit says more.
		forget()
		return nil, err
	}
	select {
	case r, ok := <-c:
		if !ok {
			return nil, ErrExited
		}
		if r.Subtype != "success" {
			return nil, &ControlError{Subtype: subtype, Message: r.Error}
		}
		return r, nil
	case <-ctx.Done():
		forget()
		return nil, fmt.Errorf("%s: %w", subtype, ctx.Err())
	}
}
