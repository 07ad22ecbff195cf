package claudert

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/banksman/banksman/services/agent/internal/claude"
	"github.com/banksman/banksman/services/agent/internal/claude/protocol"
	"github.com/banksman/banksman/services/agent/internal/gate"
	"github.com/banksman/banksman/services/agent/internal/runtime"
)

// Name of the runtime.
const Name = "claude"

const bypass = "bypassPermissions"

var modes = []string{"default", "acceptEdits", "plan", "dontAsk", "auto", bypass}

// Options wire a Runtime.
type Options struct {
	// Path is the CLI; empty means the user's own, looked up when a session
	// starts.
	Path string
	// Env is the CLI's whole environment; nil means the user's own.
	Env []string
	// Guard is the command that watches over the CLI, see claude.RunGuard.
	Guard []string
	// StartLimit bounds the CLI's start; 0 means two minutes.
	StartLimit time.Duration
}

// Runtime starts sessions of Claude Code.
type Runtime struct{ o Options }

var (
	_ runtime.Runtime = (*Runtime)(nil)
	_ runtime.Run     = (*run)(nil)
)

// New makes the Runtime.
func New(o Options) *Runtime {
	if o.StartLimit == 0 {
		o.StartLimit = 2 * time.Minute
	}
	return &Runtime{o}
}

// Name implements runtime.Runtime.
func (rt *Runtime) Name() string { return Name }

// memory is what outlives a process.
type memory struct {
	CLISession string `json:"cli_session"`
	// Begun says that the CLI was given a prompt, so that it has a transcript.
	Begun bool `json:"begun"`
	// Said is what the CLI was told in its first turn. It keeps a conversation
	// some time after it began, so that one that was ended before has nothing to
	// resume and has to hear it again.
	Said []runtime.Prompt `json:"said,omitempty"`
}

// decode reads a memory. The id becomes an argument of the CLI.
func decode(raw json.RawMessage) (m memory, err error) {
	if err = json.Unmarshal(raw, &m); err == nil {
		if err = uuid.Validate(m.CLISession); err != nil {
			err = fmt.Errorf("cli_session: %w", err)
		}
	}
	return m, err
}

// Start implements runtime.Runtime. The CLI itself starts with the first prompt,
// or when everything that was open is decided.
func (rt *Runtime) Start(_ context.Context, s runtime.Spec, h runtime.Host) (runtime.Run, error) {
	if s.Mode == "" {
		s.Mode = "default"
	}
	if !slices.Contains(modes, s.Mode) {
		return nil, fmt.Errorf("mode: %q is none of %s", s.Mode, strings.Join(modes, ", "))
	}
	if err := rt.missing(s.Cwd); err != nil {
		return nil, &runtime.LaterError{Err: err}
	}
	r := &run{
		o: rt.o, spec: s, host: h, log: s.Logger, mode: s.Mode, ready: make(chan struct{}), prefix: uuid.NewString()[:8],
		blocks: map[string]int{}, parents: map[string]string{}, children: map[string]string{},
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	if s.Memory != nil {
		var err error
		if r.memory, err = decode(s.Memory); err != nil {
			return nil, fmt.Errorf("memory: %w", err)
		}
	} else {
		r.memory.CLISession = uuid.NewString()
		if err := r.remember(); err != nil {
			return nil, err
		}
	}
	if s.MidTurn && len(s.Open) == 0 {
		h.Emit(runtime.Note{Message: "The worker was restarted in the middle of a turn, which ended there. The next message goes on."})
		h.Emit(runtime.TurnDone{Reason: "worker_restarted"})
	}
	r.regain(s.Open)
	return r, nil
}

// missing says what a session needs of the machine that is not there.
func (rt *Runtime) missing(cwd string) error {
	st, err := os.Stat(cwd)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("cwd: the directory %s does not exist", cwd)
	case err != nil:
		return fmt.Errorf("cwd: %w", err)
	case !st.IsDir():
		return fmt.Errorf("cwd: %s is not a directory", cwd)
	}
	_, err = claude.Resolve(rt.o.Path)
	return err
}

// run is a session. It has at most one CLI process at a time.
type run struct {
	o      Options
	spec   runtime.Spec
	host   runtime.Host
	log    *slog.Logger
	ctx    context.Context // ends with Kill
	cancel context.CancelFunc
	wg     sync.WaitGroup // goroutines that take a session up again
	// ready is closed when nothing is left to be regained from an earlier process.
	ready     chan struct{}
	readyOnce sync.Once

	startMu sync.Mutex // serialises starts of the CLI

	mu   sync.Mutex
	proc *claude.Proc
	// starting: a CLI is on its way, with the mode as it was.
	starting bool
	killed   bool
	ended    bool
	memory   memory
	mode     string
	version  string
	busy     bool // a turn is under way
	writing  bool // a prompt is being written: its writer deals with an exit
	exit     string
	waiting  map[string]gate.Kept
	settled  []*gate.Settled
	telling  bool // what was settled is being told to the CLI; ready follows
	grants   []*grant
	again    []protocol.PromptBlock // a new CLI has to be told this first

	// prefix keeps block ids apart from those of an earlier run.
	prefix string
	// Only the CLI's events touch these.
	blocks    map[string]int    // per sub-agent: number of the text block
	parents   map[string]string // tool call -> the sub-agent's tool call it belongs to
	children  map[string]string // sub-agent's tool call -> its name
	lastWords string
}

func (r *run) remember() error {
	raw, err := json.Marshal(r.memory)
	if err != nil {
		return err
	}
	return r.host.Remember(raw)
}

// process returns the CLI, starting it if need be.
func (r *run) process(ctx context.Context) (*claude.Proc, error) {
	r.startMu.Lock()
	defer r.startMu.Unlock()
	r.mu.Lock()
	p, m, mode, killed := r.proc, r.memory, r.mode, r.killed
	r.starting = p == nil && !killed
	r.mu.Unlock()
	switch {
	case killed:
		return nil, claude.ErrExited
	case p != nil:
		return p, nil
	}
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.starting = false
	}()
	ctx, cancel := context.WithTimeout(ctx, r.o.StartLimit)
	defer cancel()
	stop := context.AfterFunc(r.ctx, cancel)
	defer stop()
	o := claude.Options{
		Executable: r.o.Path, Dir: r.spec.Cwd, Env: r.o.Env, Guard: r.o.Guard,
		PermissionMode: mode, Model: r.spec.Model, Logger: r.log,
	}
	if mode == bypass {
		o.PermissionMode, o.AllowBypass = "default", true // a session begins with its gate, and opens it later
	}
	if m.Begun {
		o.ResumeID = m.CLISession
	} else {
		o.SessionID = m.CLISession
	}
	p, c, err := r.launch(ctx, o)
	if errors.Is(err, claude.ErrNoConversation) && len(m.Said) > 0 {
		o.ResumeID, o.SessionID = "", uuid.NewString()
		if err = r.anew(o.SessionID); err == nil {
			p, c, err = r.launch(ctx, o)
		}
	}
	if err != nil {
		if m.Begun {
			return nil, fmt.Errorf("the conversation cannot be resumed: %w", err)
		}
		return nil, err
	}
	if mode == bypass {
		if err := p.SetMode(ctx, bypass); err != nil {
			c.ignore()
			p.Kill()
			p.Wait()
			return nil, fmt.Errorf("mode: %w", err)
		}
	}
	r.mu.Lock()
	r.version = p.Info().Version
	if r.killed {
		r.mu.Unlock()
		p.Kill()
		p.Wait()
		return nil, claude.ErrExited
	}
	r.proc = p
	r.mu.Unlock()
	c.use(p)
	return p, nil
}

// launch starts a CLI whose events go to the run.
func (r *run) launch(ctx context.Context, o claude.Options) (*claude.Proc, *conn, error) {
	c := &conn{run: r}
	o.OnEvent = c.handle
	p, err := claude.Start(ctx, o)
	return p, c, err
}

// anew makes the next CLI begin a conversation of that id by what was said.
func (r *run) anew(id string) error {
	r.host.Emit(runtime.Note{Message: "The worker ended before Claude Code had kept this conversation. It begins again with what was said."})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.again = nil
	for _, p := range r.memory.Said {
		blocks, err := promptBlocks(p)
		if err != nil {
			return err
		}
		r.again = append(r.again, blocks...)
	}
	r.memory.CLISession = id
	return r.remember()
}

// retells reports whether a new CLI is told p anyway: a worker that was killed
// may have been about to note that p was taken.
func (r *run) retells(p runtime.Prompt) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.memory.Said)
	return r.again != nil && n > 0 && reflect.DeepEqual(r.memory.Said[n-1], p)
}

// begun notes that the CLI is about to have a conversation, and what it is told
// in the first turn.
func (r *run) begun(said ...runtime.Prompt) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.memory.Begun && (len(said) == 0 || len(r.memory.Said) == 0) {
		return nil
	}
	r.memory.Begun = true
	r.memory.Said = append(r.memory.Said, said...)
	return r.remember()
}

// turned notes that a turn is over: the CLI has kept what was said.
func (r *run) turned() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.memory.Said) == 0 {
		return
	}
	r.memory.Said = nil
	if err := r.remember(); err != nil {
		r.log.Error("the end of a turn was not stored", "error", err)
	}
}

// Prompt implements runtime.Run.
func (r *run) Prompt(ctx context.Context, p runtime.Prompt) error {
	blocks, err := promptBlocks(p)
	if err != nil {
		return &runtime.RejectedError{Err: err}
	}
	select {
	case <-r.ready:
	case <-ctx.Done():
		return ctx.Err()
	case <-r.ctx.Done():
		return claude.ErrExited
	}
	proc, err := r.process(ctx)
	if err != nil {
		return err
	}
	if r.retells(p) {
		return r.say(proc)
	}
	if err := r.begun(p); err != nil {
		return err
	}
	err = r.say(proc, blocks...)
	if !errors.Is(err, claude.ErrExited) {
		return err
	}
	// The idle CLI ended just now, or a resumed one could not go on. Another
	// start tells them apart.
	if proc, err = r.process(ctx); err != nil {
		return err
	}
	if r.retells(p) {
		return r.say(proc)
	}
	return r.say(proc, blocks...)
}

// say tells the CLI something, after what a new one has to be told first.

func (r *run) say(proc *claude.Proc, blocks ...protocol.PromptBlock) error {
	if err := r.begun(); err != nil {
		return err
	}
	r.mu.Lock()
	r.writing = true
	blocks = append(r.again, blocks...)
	r.again = nil
	r.mu.Unlock()
	r.setBusy(true)
	err := proc.Prompt(blocks...)
	if errors.Is(err, claude.ErrExited) {
		<-proc.Done() // its exit is dealt with here
	}
	r.mu.Lock()
	r.writing = false
	gone, exit := r.proc != proc, r.exit
	r.mu.Unlock()
	var bad *protocol.InputError
	switch {
	case errors.As(err, &bad):
		return &runtime.RejectedError{Err: err}
	case gone:
		return fmt.Errorf("%w: %s", claude.ErrExited, exit)
	}
	return err
}

// setBusy notes whose turn it is, and tells.
func (r *run) setBusy(busy bool) {
	r.mu.Lock()
	r.busy = busy
	r.mu.Unlock()
	r.host.Emit(runtime.Turn{Assistant: busy})
}

func promptBlocks(p runtime.Prompt) ([]protocol.PromptBlock, error) {
	var blocks []protocol.PromptBlock
	for i, a := range p.Attachments {
		data, err := base64.StdEncoding.DecodeString(a.DataB64)
		if err != nil {
			return nil, fmt.Errorf("attachments[%d].data_b64: %w", i, err)
		}
		switch a.Kind {
		case "image":
			blocks = append(blocks, protocol.ImageBlock(a.MediaType, data))
		case "document":
			blocks = append(blocks, protocol.DocumentBlock(a.MediaType, a.Name, data))
		default:
			return nil, fmt.Errorf("attachments[%d].kind: %q is neither image nor document", i, a.Kind)
		}
	}
	if strings.TrimSpace(p.Text) != "" {
		blocks = append(blocks, protocol.TextBlock(p.Text))
	}
	if len(blocks) == 0 {
		return nil, errors.New("text: missing")
	}
	return blocks, nil
}

// errStarting is for what needs a CLI, or none.
var errStarting = errors.New("the Claude Code CLI is still starting, try again in a moment")

// current returns the CLI, nil while there is none.
func (r *run) current() (*claude.Proc, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.starting {
		return nil, errStarting
	}
	return r.proc, nil
}

// Interrupt implements runtime.Run.
func (r *run) Interrupt(ctx context.Context) error {
	if r.abandon() {
		return nil
	}
	if err := r.taken(ctx); err != nil {
		return err
	}
	proc, err := r.current()
	if proc == nil || err != nil {
		return err
	}
	return proc.Interrupt(ctx)
}

// SetMode implements runtime.Run.
func (r *run) SetMode(ctx context.Context, mode string) error {
	if !slices.Contains(modes, mode) {
		return fmt.Errorf("mode: %q is none of %s", mode, strings.Join(modes, ", "))
	}
	proc, err := r.current()
	if err != nil {
		return err
	}
	if proc != nil {
		if err := proc.SetMode(ctx, mode); err != nil {
			return err
		}
	}
	r.noteMode(mode)
	return nil
}

func (r *run) noteMode(mode string) {
	r.mu.Lock()
	changed := r.mode != mode
	r.mode = mode
	r.mu.Unlock()
	if changed {
		r.host.Emit(runtime.Info{Mode: mode})
	}
}

// Kill implements runtime.Run.
func (r *run) Kill() {
	r.mu.Lock()
	r.killed = true
	r.mu.Unlock()
	r.cancel()
	r.startMu.Lock() // a start under way ends first, and finds killed
	r.mu.Lock()
	proc := r.proc
	r.mu.Unlock()
	r.startMu.Unlock()
	if proc != nil {
		proc.Kill()
		proc.Wait()
	}
	r.wg.Wait()
}

// end reports that the run is over, once.
func (r *run) end(message string) {
	r.mu.Lock()
	over := r.ended || r.killed
	r.ended = true
	r.mu.Unlock()
	if !over {
		r.host.Emit(runtime.Ended{Message: message})
	}
}
