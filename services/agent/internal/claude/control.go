package claude

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
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
func (p *Proc) accept(d decoded, size int) {
	if d.reply != nil {
		p.mu.Lock()
		c := p.waiting[d.reply.RequestID]
		delete(p.waiting, d.reply.RequestID)
		p.mu.Unlock()
		if c != nil {
			c <- d.reply // buffered
		}
		return
	}
	if d.refuse != nil {
		p.log.Warn("refused a request of claude", "request_id", d.refuse.requestID)
		p.queue.push(item{refuse: d.refuse})
		return
	}
	for _, e := range d.events {
		if p.note(e) {
			p.queue.push(item{event: e, size: size})
		}
	}
	p.queue.waitRoom()
}

// note updates the bookkeeping and says whether the event goes on.
func (p *Proc) note(e Event) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := e.(type) {
	case Ask:
		return p.open(e.RequestID, toolKind(e.ToolName), e.Input)
	case Elicitation:
		return p.open(e.RequestID, askForm, nil)
	case AskWithdrawn:
		a := p.asks[e.RequestID]
		if a == nil || a.state == askWithdrawn {
			return false
		}
		a.state, a.input = askWithdrawn, nil
	case SessionState:
		p.state = e.State
		if e.State == stateIdle {
			p.prompted = false
		}
	case TurnEnded:
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
	if tool == QuestionTool {
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
			if err := p.write(refusalLine(it.refuse)); err != nil {
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
// has to carry answers (see EncodeAnswers). updatedPermissions is a JSON array of
// permission updates, or nil. After an *InputError the ask is still open.
func (p *Proc) Allow(requestID string, updatedInput, updatedPermissions json.RawMessage) error {
	var permissions []byte
	if updatedPermissions != nil {
		var err error
		if permissions, err = lineSafe("updatedPermissions", updatedPermissions, '['); err != nil {
			return err
		}
	}
	var input []byte
	err := p.claim(requestID, isTool, func(a *askState) error {
		raw := updatedInput
		if raw == nil {
			raw = a.input
		}
		var err error
		if input, err = lineSafe("updatedInput", raw, '{'); err != nil {
			return err
		}
		if len(input)+len(permissions) > MaxLine-1024 {
			return &InputError{"updatedInput", "too large for one line"}
		}
		if a.kind == askQuestion {
			return checkAnswers(a.input, input)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return p.write(answerLine(requestID, allowBody(input, permissions)))
}

// Deny refuses the tool call. The model reads message, word for word. interrupt
// also ends the turn.
func (p *Proc) Deny(requestID, message string, interrupt bool) error {
	if strings.TrimSpace(message) == "" {
		return &InputError{"message", "empty: the CLI would make up its own"}
	}
	if err := p.claim(requestID, isTool, nil); err != nil {
		return err
	}
	return p.write(answerLine(requestID, denyBody(message, interrupt)))
}

// The actions of AnswerElicitation.
const (
	Accept  = "accept"
	Decline = "decline"
	Cancel  = "cancel"
)

// AnswerElicitation answers a form. content is a JSON object, for Accept only.
func (p *Proc) AnswerElicitation(requestID, action string, content json.RawMessage) error {
	body := []byte(`{"action":"` + action + `"}`)
	switch action {
	case Accept:
		if content != nil {
			c, err := lineSafe("content", content, '{')
			if err != nil {
				return err
			}
			body = fmt.Appendf(nil, `{"action":"accept","content":%s}`, c)
		}
	case Decline, Cancel:
		if content != nil {
			return &InputError{"content", "only goes with accept"}
		}
	default:
		return &InputError{"action", "must be accept, decline or cancel"}
	}
	if err := p.claim(requestID, isForm, nil); err != nil {
		return err
	}
	return p.write(answerLine(requestID, body))
}

// Prompt sends what the person says. Images go first, then documents, text
// last. During a turn it joins that turn.
func (p *Proc) Prompt(blocks ...PromptBlock) error {
	line, err := promptLine(blocks)
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
	_, err := p.request(ctx, "interrupt", nil)
	return err
}

// SetMode changes the permission mode. It resolves no open ask.
func (p *Proc) SetMode(ctx context.Context, mode string) error {
	if mode == "" {
		return &InputError{"mode", "empty"}
	}
	_, err := p.request(ctx, "set_permission_mode", fmt.Appendf(nil, `,"mode":%s`, quote(mode)))
	return err
}

// Reinitialize asks the CLI for the tool asks that wait for an answer. It is
// the way back for an owner that lost track; asks it did not know become
// answerable, without an event.
func (p *Proc) Reinitialize(ctx context.Context) ([]Ask, error) {
	r, err := p.request(ctx, "initialize", nil)
	if err != nil {
		return nil, err
	}
	var asks []Ask
	for _, raw := range r.Pending {
		d, err := newDecoder().decode(raw)
		if err != nil || len(d.events) != 1 {
			p.log.Warn("ignored a pending request of claude", "error", err)
			continue
		}
		a, ok := d.events[0].(Ask)
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
	r, err := p.request(ctx, "initialize", nil)
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

// reinitialize returns the request ids that wait, and the session state ("" from
// a CLI that does not say).
func (p *Proc) reinitialize(ctx context.Context) ([]string, string, error) {
	r, err := p.request(ctx, "initialize", nil)
	if err != nil {
		return nil, "", err
	}
	var ids []string
	for _, raw := range append(r.Pending, r.Forms...) {
		var one struct {
			RequestID string `json:"request_id"`
		}
		if json.Unmarshal(raw, &one) == nil {
			ids = append(ids, one.RequestID)
		}
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

// request sends a control request and waits for its reply. extra is spliced in
// after the subtype.
func (p *Proc) request(ctx context.Context, subtype string, extra []byte) (*controlReply, error) {
	c := make(chan *controlReply, 1)
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
	line := fmt.Appendf(nil, `{"type":"control_request","request_id":%s,"request":{"subtype":%s%s}}`, quote(id), quote(subtype), extra)
	if err := p.write(line); err != nil {
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
