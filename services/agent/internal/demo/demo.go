package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/services/agent/internal/gate"
	"github.com/banksman/banksman/services/agent/internal/runtime"
)

// Name of the runtime.
const Name = "demo"

const agentName = "Demo agent"

// Options wire a Runtime.
type Options struct {
	// Pace is the time between two words; 0 means 20 ms, less than 0 none.
	Pace time.Duration
}

// Runtime starts demo sessions.
type Runtime struct{ pace time.Duration }

var (
	_ runtime.Runtime = (*Runtime)(nil)
	_ runtime.Run     = (*run)(nil)
)

// New makes the Runtime.
func New(o Options) *Runtime {
	if o.Pace == 0 {
		o.Pace = 20 * time.Millisecond
	}
	return &Runtime{max(o.Pace, 0)}
}

// Name implements runtime.Runtime.
func (rt *Runtime) Name() string { return Name }

// memory is where the conversation is.
type memory struct {
	Round   int               `json:"round"` // 0: not begun
	Step    int               `json:"step"`
	Try     int               `json:"try"`   // of the step; an interrupted one is asked under a new key
	Asked   bool              `json:"asked"` // the step's words are out
	Stopped bool              `json:"stopped"`
	Results map[string]result `json:"results,omitempty"` // of the step's asks
	Bye     bool              `json:"bye,omitempty"`     // the last words are out
}

// decode reads a memory; nil is that of a session that begins.
func decode(raw json.RawMessage) (m memory, err error) {
	if raw != nil {
		err = json.Unmarshal(raw, &m)
	}
	if err == nil && (m.Round < 0 || m.Step < 0 || m.Try < 0) {
		err = errors.New("round, step or try is less than 0")
	}
	if m.Results == nil {
		m.Results = map[string]result{}
	}
	return m, err
}

func (m memory) over() bool { return m.Step >= len(script) }

// heard is what a person said. kept is closed when what follows from it is
// stored: before, a successor has to hear it again.
type heard struct {
	text string
	kept chan struct{}
}

type run struct {
	pace   time.Duration
	spec   runtime.Spec
	host   runtime.Host
	log    *slog.Logger
	ctx    context.Context // ends with Kill
	cancel context.CancelFunc
	wg     sync.WaitGroup
	// prompts and news wake the conversation; neither is closed.
	prompts chan heard
	news    chan struct{}

	// prefix keeps block ids apart from those of an earlier process.
	prefix string

	mu     sync.Mutex
	m      memory
	killed bool
	block  int
}

// Start implements runtime.Runtime.
func (rt *Runtime) Start(_ context.Context, s runtime.Spec, h runtime.Host) (runtime.Run, error) {
	r := &run{
		pace: rt.pace, spec: s, host: h, log: s.Logger,
		prompts: make(chan heard), news: make(chan struct{}, 1), prefix: uuid.NewString()[:8],
	}
	var err error
	if r.m, err = decode(s.Memory); err != nil {
		return nil, fmt.Errorf("memory: %w", err)
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.tidy()
	r.wg.Go(r.converse)
	return r, nil
}

// Prompt implements runtime.Run.
func (r *run) Prompt(ctx context.Context, p runtime.Prompt) error {
	h := heard{text: p.Text, kept: make(chan struct{})}
	to, kept := r.prompts, (chan struct{})(nil)
	for {
		select {
		case to <- h:
			to, kept = nil, h.kept
		case <-kept:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-r.ctx.Done():
			return context.Canceled
		}
	}
}

// Interrupt implements runtime.Run.
func (r *run) Interrupt(context.Context) error {
	r.mu.Lock()
	if r.m.Round == 0 || r.m.over() || r.m.Stopped {
		r.mu.Unlock()
		return nil
	}
	ids := r.open()
	r.m.Stopped = true
	r.save()
	r.mu.Unlock()
	for _, id := range ids {
		r.host.Withdraw(id, "interrupted")
	}
	r.wake()
	return nil
}

// SetMode implements runtime.Run. The demo always asks, whatever the mode.
func (r *run) SetMode(_ context.Context, mode string) error {
	r.host.Emit(runtime.Info{Mode: mode})
	return nil
}

// Kill implements runtime.Run.
func (r *run) Kill() {
	r.mu.Lock()
	r.killed = true
	r.mu.Unlock()
	r.cancel()
	r.wg.Wait()
}

func (r *run) wake() {
	select {
	case r.news <- struct{}{}:
	default:
	}
}

// save needs r.mu.
func (r *run) save() {
	raw, err := hitl.Marshal(r.m)
	if err == nil {
		err = r.host.Remember(raw)
	}
	if err != nil {
		r.log.Error("demo not stored", "error", err)
	}
}

func (r *run) update(f func(*memory)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.m)
	r.save()
}

func (r *run) state() memory {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.m
}

func (m *memory) id(a *ask) string { return fmt.Sprintf("demo-%d-%s-%d", m.Round, a.name, m.Try) }

// open needs r.mu: the ids of the step's asks without a result.
func (r *run) open() []string {
	if !r.m.Asked || r.m.over() {
		return nil
	}
	var ids []string
	for i := range script[r.m.Step].asks {
		a := &script[r.m.Step].asks[i]
		if _, ok := r.m.Results[a.name]; !ok {
			ids = append(ids, r.m.id(a))
		}
	}
	return ids
}

// tidy ends what an earlier process has dealt with, and only the word of it is
// missing: decisions that are in the memory, and asks of an interrupted step.
// What still waits is asked again when its step is played.
func (r *run) tidy() {
	dropped, current := map[string]bool{}, map[string]bool{}
	if !r.m.over() {
		for i := range script[r.m.Step].asks {
			a := &script[r.m.Step].asks[i]
			if _, ok := r.m.Results[a.name]; ok {
				continue
			}
			for _, k := range r.spec.Open {
				m := r.m
				var err error
				if m.Try, err = strconv.Atoi(k.ID[strings.LastIndexByte(k.ID, '-')+1:]); err != nil || m.id(a) != k.ID {
					continue
				}
				dropped[k.ID] = m.Try < r.m.Try || r.m.Stopped
				current[k.ID] = m.Try == r.m.Try && !r.m.Stopped
			}
		}
	}
	for _, k := range r.spec.Open {
		if current[k.ID] {
			continue
		}
		r.host.Ask(gate.Ask{Kept: k, Settle: func(s *gate.Settled) { s.Confirm() }})
		if dropped[k.ID] {
			r.host.Withdraw(k.ID, "interrupted")
		}
	}
}

// converse is the conversation. It ends with Kill.
func (r *run) converse() {
	if m := r.state(); m.Round > 0 && (m.Bye || m.Stopped) {
		r.host.Emit(runtime.Turn{Assistant: false})
	}
	for r.ctx.Err() == nil {
		m := r.state()
		switch {
		case m.Round == 0 || m.Bye || m.Stopped:
			if !r.idle(m) {
				return
			}
			continue
		case m.over():
			r.end()
			continue
		}
		r.host.Emit(runtime.Turn{Assistant: true})
		r.play(&script[m.Step])
	}
}

// end says the last words.
func (r *run) end() {
	r.say(bye)
	r.host.Emit(runtime.TurnDone{Reason: runtime.EndTurn})
	if r.told() {
		r.update(func(m *memory) { m.Bye = true })
		r.host.Emit(runtime.Turn{Assistant: false})
	}
}

// told waits until all words are stored. If it reports false, this process is at
// its end, and a successor repeats them.
func (r *run) told() bool {
	if r.ctx.Err() == nil && r.host.Flush(r.ctx) == nil && r.ctx.Err() == nil {
		return true
	}
	<-r.ctx.Done()
	return false
}

// idle waits for a message and reacts to it.
func (r *run) idle(m memory) bool {
	var h heard
	select {
	case h = <-r.prompts:
	case <-r.ctx.Done():
		return false
	}
	text := strings.ToLower(h.text)
	switch {
	case m.Round == 0, m.over() && (strings.Contains(text, "again") || strings.Contains(text, "restart")):
		r.update(func(m *memory) { *m = memory{Round: m.Round + 1, Results: map[string]result{}} })
	case m.Stopped:
		r.update(func(m *memory) {
			m.Stopped, m.Asked, m.Results = false, false, map[string]result{}
			m.Try++
		})
	default:
		r.host.Emit(runtime.Turn{Assistant: true})
		r.say("I am only a demo and know no more than my script. Write \"again\" and I begin anew.")
		r.host.Emit(runtime.TurnDone{Reason: runtime.EndTurn})
		if !r.told() {
			return false
		}
		r.host.Emit(runtime.Turn{Assistant: false})
	}
	close(h.kept)
	return true
}

// play does one step, as far as it gets.
func (r *run) play(st *step) {
	if !r.state().Asked {
		r.say(st.intro)
		for i := range st.asks {
			a := &st.asks[i]
			name, input := toolName(a), r.input(a)
			r.host.Emit(runtime.ToolStart{ID: r.callID(a), Name: name})
			r.host.Emit(runtime.ToolEnd{ID: r.callID(a), Name: name, Input: input})
		}
		if !r.told() || r.state().Stopped {
			r.stopped()
			return
		}
		r.update(func(m *memory) { m.Asked = true })
	}
	for i := range st.asks {
		r.ask(&st.asks[i])
	}
	told := map[string]bool{}
	for len(told) < len(st.asks) {
		m := r.state()
		if m.Stopped {
			r.stopped()
			return
		}
		for i := range st.asks {
			a := &st.asks[i]
			res, ok := r.result(a)
			if !ok || told[a.name] {
				continue
			}
			told[a.name] = true
			r.host.Emit(runtime.ToolResult{ID: r.callID(a), Content: toolResult(a, &res), IsError: !res.yes()})
			r.say(reaction(a, &res))
			if res.Content.Interrupt {
				r.update(func(m *memory) { m.Stopped = true })
				r.stopped()
				return
			}
		}
		if len(told) == len(st.asks) {
			break
		}
		select {
		case <-r.news:
		case h := <-r.prompts:
			r.say("I heard you (\"" + strings.TrimSpace(h.text) + "\"), but I still wait for the decision above.")
			if !r.told() {
				return
			}
			close(h.kept)
		case <-r.ctx.Done():
			return
		}
	}
	if r.told() {
		r.update(func(m *memory) {
			m.Step++
			m.Try, m.Asked, m.Results = 0, false, map[string]result{}
		})
	}
}

func (r *run) stopped() {
	if r.ctx.Err() == nil {
		r.host.Emit(runtime.TurnDone{Reason: runtime.Interrupted})
		r.host.Emit(runtime.Turn{Assistant: false})
	}
}

func (r *run) result(a *ask) (result, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	res, ok := r.m.Results[a.name]
	return res, ok
}

func (r *run) callID(a *ask) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.m.id(a)
}

func toolName(a *ask) string {
	switch {
	case a.req.Tool != nil:
		return a.req.Tool.Name
	case a.req.Kind == hitl.KindQuestion:
		return "AskUserQuestion"
	}
	return "form"
}

func (r *run) input(a *ask) json.RawMessage {
	var v any = map[string]any{"questions": a.req.Questions}
	switch {
	case a.req.Tool != nil:
		return a.req.Tool.Input
	case a.req.Kind == hitl.KindForm:
		return a.req.Schema
	}
	raw, err := hitl.Marshal(v)
	if err != nil {
		return json.RawMessage(`{}`)
	}
	return raw
}

// ask opens an ask, unless it already has its result.
func (r *run) ask(a *ask) {
	if _, ok := r.result(a); ok {
		return
	}
	id := r.callID(a)
	req := a.req
	req.Key = r.spec.SessionID + ":" + id
	req.ToolCallID, req.AgentName = id, agentName
	req.Source = &hitl.Source{Protocol: Name, Agent: agentName, RequestID: id}
	r.host.Ask(gate.Ask{Kept: gate.Kept{ID: id, Request: &req}, Settle: func(s *gate.Settled) {
		note := func(v gate.Verdict) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.killed {
				return context.Canceled // a successor asks again
			}
			r.m.Results[a.name] = result{Content: v.Content, Text: v.Text}
			r.save()
			return nil
		}
		if s.Spent() {
			// An earlier process took the approval and got no further. There is
			// nothing that could run twice here.
			// The receipt first: a successor that finds the result confirms it.
			s.RefuseSpent("taken before the worker was lost")
			_ = note(s.Verdict())
		} else {
			s.Use(note)
		}
		r.wake()
	}})
}

// say streams a text word by word.
func (r *run) say(text string) {
	if r.ctx.Err() != nil {
		return
	}
	r.mu.Lock()
	r.block++
	id := fmt.Sprintf("%s-%d", r.prefix, r.block)
	r.mu.Unlock()
	if r.pace > 0 {
		tick := time.NewTicker(r.pace)
		defer tick.Stop()
		for _, w := range strings.SplitAfter(text, " ") {
			r.host.Emit(runtime.TextDelta{BlockID: id, Text: w})
			select {
			case <-tick.C:
			case <-r.ctx.Done():
				return
			}
		}
	}
	r.host.Emit(runtime.Text{Role: "assistant", BlockID: id, Text: text})
}
