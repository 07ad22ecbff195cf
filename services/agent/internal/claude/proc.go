package claude

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/banksman/banksman/services/agent/internal/claude/protocol"
)

const (
	// queueLimit is how many bytes of lines may wait for OnEvent before the
	// reader stops reading.
	queueLimit  = 64 << 20
	stderrLimit = 8 << 10
	// drainLimit is how long output is read on after the process ended, in case
	// a descendant still holds the pipe.
	drainLimit = 2 * time.Second
	// guardLimit is how long a guard gets to kill what it guards.
	guardLimit = 5 * time.Second
)

// Options describe a process to start.
type Options struct {
	// Executable is the CLI; empty means LookPath.
	Executable string
	// Args are appended to the driver's own. Those that would take the decision
	// out of the driver's hands are refused.
	Args []string
	// Dir is the working directory of the session.
	Dir string
	// Env is the whole environment; nil means UserEnv(os.Environ()).
	Env []string
	// SessionID is a UUID for a new session; empty lets the CLI choose.
	SessionID string
	// ResumeID continues a stored session instead.
	ResumeID string
	// PermissionMode at the start; empty means default. bypassPermissions is
	// refused here: a session never begins without a gate.
	PermissionMode string
	// AllowBypass lets SetMode open the gate later, with bypassPermissions; the
	// CLI refuses that to a session which was not started for it.
	AllowBypass bool
	Model       string
	// Guard is the command that runs RunGuard, for example the product's own
	// executable and "__guard". Empty means none: then only the kernel's
	// parent-death signal stands between a dying driver and a false denial.
	Guard []string
	// OnEvent receives every event, one at a time. It may call every method but
	// Close and Wait. It should not block for long.
	OnEvent func(protocol.Event) `json:"-"`
	Logger  *slog.Logger
}

// Info is what the CLI said of itself at the start.
type Info struct {
	Version string
	PID     int // of the CLI itself, also behind a guard; 0 if it did not say
	Mode    string
	Raw     json.RawMessage
}

// Proc is one CLI process. Its methods are safe for concurrent use.
type Proc struct {
	cmd      *exec.Cmd
	log      *slog.Logger
	onEvent  func(protocol.Event)
	guarded  bool
	info     Info
	lifeline *os.File // guarded only: closing it has the guard kill the CLI

	wmu         sync.Mutex // serialises lines
	stdin       *os.File
	stdinClosed bool

	mu       sync.Mutex
	asks     map[string]*askState
	waiting  map[string]chan *protocol.ControlReply // our requests; a reply is sent once
	lastID   int
	exited   bool
	state    string // of the session; "" before the first report
	prompted bool   // a prompt was sent since the last idle

	queue    *queue
	killOnce sync.Once
	killed   chan struct{}   // closed by Kill
	gone     chan struct{}   // closed when the process was reaped
	done     chan struct{}   // closed when all goroutines but its closer have ended
	exit     protocol.Exited // valid after gone
	badLine  error           // set by the reader before it kills
}

// Start launches the CLI and returns once it answers. ctx bounds only the start.
// If it fails nothing is left running, and OnEvent is not called any more.
func Start(ctx context.Context, o Options) (*Proc, error) {
	args, err := arguments(o)
	if err != nil {
		return nil, err
	}
	exe, err := Resolve(o.Executable)
	if err != nil {
		return nil, err
	}
	if o.OnEvent == nil {
		return nil, &protocol.InputError{Field: "OnEvent", Problem: "missing"}
	}
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	env := o.Env
	if env == nil {
		env = UserEnv(os.Environ())
	}
	p := &Proc{
		log: log, onEvent: o.OnEvent, guarded: len(o.Guard) > 0,
		asks: map[string]*askState{}, waiting: map[string]chan *protocol.ControlReply{},
		queue: newQueue(), killed: make(chan struct{}), gone: make(chan struct{}), done: make(chan struct{}),
	}
	argv := append([]string{exe}, args...)
	if p.guarded {
		argv = append(append([]string{}, o.Guard...), argv...)
	}
	p.cmd = exec.Command(argv[0], argv[1:]...)
	p.cmd.Dir = o.Dir
	// State reports tell Close whether a turn is under way.
	p.cmd.Env = append(append([]string{}, env...), "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS=1")
	p.cmd.SysProcAttr = processAttr(!p.guarded)
	if err := p.launch(); err != nil {
		return nil, fmt.Errorf("start claude: %w", err)
	}
	if err := p.initialize(ctx); err != nil {
		p.Kill()
		p.Wait()
		if tail := strings.TrimSpace(p.exit.Stderr); tail != "" && errors.Is(err, ErrExited) {
			err = fmt.Errorf("%w (exit code %d): %s", err, p.exit.Code, tail)
			if o.ResumeID != "" && strings.Contains(tail, "No conversation found") {
				err = fmt.Errorf("%w: %w", ErrNoConversation, err)
			}
		}
		return nil, fmt.Errorf("start claude: %w", err)
	}
	return p, nil
}

func arguments(o Options) ([]string, error) {
	mode := o.PermissionMode
	if mode == "" {
		mode = "default"
	}
	if mode == "bypassPermissions" {
		return nil, &protocol.InputError{Field: "PermissionMode", Problem: "a session must not begin in bypassPermissions"}
	}
	if o.SessionID != "" && o.ResumeID != "" {
		return nil, &protocol.InputError{Field: "ResumeID", Problem: "excludes SessionID"}
	}
	args := []string{
		"-p", "--output-format", "stream-json", "--input-format", "stream-json", "--verbose",
		"--include-partial-messages", "--permission-prompt-tool", "stdio", "--permission-mode", mode,
	}
	if o.AllowBypass {
		args = append(args, "--allow-dangerously-skip-permissions")
	}
	if o.Model != "" {
		args = append(args, "--model", o.Model)
	}
	if o.SessionID != "" {
		args = append(args, "--session-id", o.SessionID)
	}
	if o.ResumeID != "" {
		args = append(args, "--resume", o.ResumeID)
	}
	for _, a := range o.Args {
		name, _, _ := strings.Cut(a, "=")
		switch name {
		case "--permission-mode", "--permission-prompt-tool", "--input-format", "--output-format",
			"--dangerously-skip-permissions", "--allow-dangerously-skip-permissions":
			return nil, &protocol.InputError{Field: "Args", Problem: name + " belongs to the driver"}
		}
	}
	return append(args, o.Args...), nil
}

// launch makes the pipes, starts the process and the goroutines that serve it.
func (p *Proc) launch() (err error) {
	var ours, theirs []*os.File
	defer func() {
		for _, f := range theirs {
			_ = f.Close()
		}
		if err != nil {
			for _, f := range ours {
				_ = f.Close()
			}
		}
	}()
	pipe := func() (r, w *os.File) {
		if err != nil {
			return nil, nil
		}
		r, w, err = os.Pipe()
		return r, w
	}
	inR, inW := pipe()
	outR, outW := pipe()
	errR, errW := pipe()
	var lifeR, lifeW *os.File
	if p.guarded {
		lifeR, lifeW = pipe()
	}
	for _, f := range []*os.File{inR, outW, errW, lifeR} {
		if f != nil {
			theirs = append(theirs, f)
		}
	}
	for _, f := range []*os.File{inW, outR, errR, lifeW} {
		if f != nil {
			ours = append(ours, f)
		}
	}
	if err != nil {
		return err
	}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = inR, outW, errW
	if p.guarded {
		// The guard holds a second writing end, so that the CLI sees no end of
		// input when this process dies.
		p.cmd.ExtraFiles = []*os.File{lifeR, inW}
	}
	p.stdin, p.lifeline = inW, lifeW
	started := make(chan error)
	drained := make(chan struct{})
	dispatched := make(chan struct{})
	var tail tailBuffer
	go func() {
		// The parent-death signal follows the thread that forked, so that thread
		// has to stay for as long as the child does.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		defer close(p.done)
		p.reap(drained, outR, errR, &tail)
		<-dispatched
	}()
	if err = <-started; err != nil {
		return err
	}

	var output sync.WaitGroup
	output.Add(2)
	go func() {
		defer output.Done()
		p.read(outR)
	}()
	go func() {
		defer output.Done()
		_, _ = io.Copy(&tail, errR) // ends with the pipe; there is nothing to save
	}()
	go func() {
		output.Wait()
		close(drained)
	}()
	escalated := make(chan struct{})
	go func() {
		defer close(escalated)
		p.escalate()
	}()
	go func() {
		defer close(dispatched)
		p.dispatch()
		<-escalated
	}()
	return nil
}

// reap waits for the process and for its output, and reports the end.
func (p *Proc) reap(drained <-chan struct{}, outR, errR *os.File, tail *tailBuffer) {
	werr := p.cmd.Wait()
	close(p.gone)
	p.closeStdin()
	limit := time.NewTimer(drainLimit)
	select {
	case <-drained:
	case <-limit.C:
	}
	limit.Stop()
	_ = outR.Close()
	_ = errR.Close()
	<-drained
	if p.lifeline != nil {
		p.killOnce.Do(func() { close(p.killed); _ = p.lifeline.Close() })
	}

	p.mu.Lock()
	p.exited = true
	for id, a := range p.asks {
		if a.state == askOpen {
			p.exit.Open = append(p.exit.Open, id)
		}
	}
	for id, c := range p.waiting {
		close(c)
		delete(p.waiting, id)
	}
	p.mu.Unlock()
	p.exit.Code = exitCode(p.cmd.ProcessState, werr)
	p.exit.Stderr = tail.String()
	p.exit.Err = p.badLine
	p.queue.push(item{event: p.exit})
	p.queue.close()
}

func exitCode(st *os.ProcessState, werr error) int {
	if st == nil {
		return -1
	}
	if ws, ok := st.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	if code := st.ExitCode(); code != 0 || werr == nil {
		return code
	}
	return -1
}

// Info returns what the CLI said of itself at the start.
func (p *Proc) Info() Info { return p.info }

// Done is closed after Exited was delivered.
func (p *Proc) Done() <-chan struct{} { return p.done }

// Wait returns after Exited was delivered and every goroutine has ended.
func (p *Proc) Wait() protocol.Exited {
	<-p.done
	return p.exit
}

// Kill ends the CLI and what it started at once, by SIGKILL, so that it cannot
// take the end for a denial. It returns before the process is gone; see Wait.
func (p *Proc) Kill() {
	p.killOnce.Do(func() {
		close(p.killed)
		if p.lifeline != nil {
			_ = p.lifeline.Close()
		}
	})
}

// escalate carries out Kill. It ends with the process.
func (p *Proc) escalate() {
	select {
	case <-p.gone:
		return
	case <-p.killed:
	}
	select {
	case <-p.gone: // the number may belong to another process by now
		return
	default:
	}
	if p.guarded {
		limit := time.NewTimer(guardLimit)
		defer limit.Stop()
		select {
		case <-p.gone:
			return
		case <-limit.C:
			p.log.Error("guard did not end in time, killing it", "pid", p.cmd.Process.Pid)
		}
	}
	killGroup(p.cmd.Process.Pid)
}

// Close ends an idle CLI by closing its input. While an ask is open or a turn is
// running it returns a *BusyError and does nothing, because the CLI would take
// the end of its input for a denial. When ctx ends first the CLI is killed.
func (p *Proc) Close(ctx context.Context) error {
	if err := p.busy(); err != nil {
		return err
	}
	// Lines are handled in order, so this sees the effect of what was sent before.
	pending, state, err := p.reinitialize(ctx)
	switch {
	case errors.Is(err, ErrExited):
	case err != nil:
		return err
	case len(pending) > 0 || (state != "" && state != stateIdle):
		return &BusyError{Open: pending, State: state}
	default:
		if err := p.busy(); err != nil {
			return err
		}
		if p.lifeline != nil {
			_, _ = p.lifeline.Write([]byte{lifelineEOF}) // a guard that is gone needs no word
		}
		p.closeStdin()
	}
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		p.Kill()
		<-p.done
		return fmt.Errorf("claude did not end by itself: %w", ctx.Err())
	}
}

func (p *Proc) closeStdin() {
	p.wmu.Lock()
	defer p.wmu.Unlock()
	if !p.stdinClosed {
		p.stdinClosed = true
		_ = p.stdin.Close()
	}
}

func (p *Proc) write(line []byte) error {
	p.wmu.Lock()
	defer p.wmu.Unlock()
	if p.stdinClosed {
		return ErrExited
	}
	if _, err := p.stdin.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("%w: %w", ErrExited, err)
	}
	return nil
}

// read decodes lines until the output ends.
func (p *Proc) read(r io.Reader) {
	d := protocol.NewDecoder()
	br := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := readLine(br)
		if errors.Is(err, ErrLineTooLong) {
			p.badLine = fmt.Errorf("claude's output: %w (limit %d bytes)", err, protocol.MaxLine)
			p.Kill()
			_, _ = io.Copy(io.Discard, br)
			return
		}
		if err != nil {
			return // the end, or a last line that was cut short
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		out, err := d.Decode(line)
		if err != nil {
			p.log.Warn("ignored a line of claude", "bytes", len(line), "error", err)
			continue
		}
		p.accept(out, len(line))
	}
}

func readLine(br *bufio.Reader) ([]byte, error) {
	var long []byte
	for {
		part, err := br.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
		if len(long)+len(part) > protocol.MaxLine {
			return nil, ErrLineTooLong
		}
		if err == nil && long == nil {
			return part, nil
		}
		long = append(long, part...)
		if err == nil {
			return long, nil
		}
	}
}

// tailBuffer keeps the end of what is written to it. It has one writer, and is
// read after that one has ended.
type tailBuffer struct{ b []byte }

func (t *tailBuffer) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if over := len(t.b) - stderrLimit; over > 0 {
		t.b = append(t.b[:0], t.b[over:]...)
	}
	return len(p), nil
}

func (t *tailBuffer) String() string { return strings.ToValidUTF8(string(t.b), "\uFFFD") }
