package rig

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

const (
	startLimit = 90 * time.Second
	stopLimit  = 20 * time.Second
	// startAgain is the pause after a start that failed: somebody else may have
	// taken the port for a moment.
	startAgain = 200 * time.Millisecond
)

// process keeps one part running: a part that ends by itself is started again,
// as any supervisor does.
type process struct {
	name string
	cfg  partConfig
	log  *slog.Logger
	dir  string // of its output

	life sync.Mutex // held while it is started or ended; taken before mu
	wg   sync.WaitGroup

	mu      sync.Mutex
	cmd     *exec.Cmd
	in      io.WriteCloser
	ended   chan struct{} // closed when cmd has ended and was waited for
	wanted  bool          // it is to run
	started int64         // when the running one was started
	crashes []string      // last words of parts that ended by themselves
}

// start runs the part and waits until it is ready.
func (p *process) start(ctx context.Context) error {
	p.life.Lock()
	defer p.life.Unlock()
	return p.run(ctx)
}

func (p *process) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		err := p.once(ctx)
		if err == nil {
			return nil
		}
		p.log.Warn("start failed, trying again", "part", p.name, "error", err)
		select {
		case <-ctx.Done():
			return fmt.Errorf("start %s: %w", p.name, err)
		case <-time.After(startAgain):
		}
	}
}

func (p *process) once(ctx context.Context) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	arg, err := json.Marshal(p.cfg)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(p.dir, p.name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // the child has its own
	cmd := exec.Command(exe, partWord, string(arg))
	cmd.Stderr = file
	cmd.SysProcAttr = ownGroup()
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	at := time.Now().UnixNano()
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	p.mu.Lock()
	p.cmd, p.in, p.ended, p.started, p.wanted = cmd, in, ended, at, true
	p.mu.Unlock()
	said := make(chan bool, 1) // whether it is ready; one result, never closed
	p.wg.Go(func() {
		lines := bufio.NewScanner(out)
		ok := lines.Scan() && lines.Text() == ready
		said <- ok
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait() // however it ended
		close(ended)
		if ok {
			p.fell(cmd)
		}
	})
	select {
	case ok := <-said:
		if !ok {
			return fmt.Errorf("it ended before it was ready: %s", p.lastWords())
		}
		return nil
	case <-ctx.Done():
		_ = cmd.Process.Kill() // gone is fine
		<-ended
		return ctx.Err()
	}
}

// fell starts a part again that ended without being told to.
func (p *process) fell(cmd *exec.Cmd) {
	p.life.Lock()
	defer p.life.Unlock()
	p.mu.Lock()
	own := p.wanted && p.cmd == cmd
	if own {
		p.crashes = append(p.crashes, p.lastWords())
	}
	p.mu.Unlock()
	if !own {
		return
	}
	p.log.Warn("a part ended by itself", "part", p.name, "words", p.lastWords())
	if err := p.run(context.Background()); err != nil {
		p.log.Error("it stays down", "part", p.name, "error", err)
	}
}

// lastWords is the last line that the part wrote.
func (p *process) lastWords() string {
	raw, err := os.ReadFile(filepath.Join(p.dir, p.name+".log"))
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	return lines[len(lines)-1]
}

// kill ends the part at once, as a crash would.
func (p *process) kill() {
	p.life.Lock()
	defer p.life.Unlock()
	if cmd, _, ended := p.give(); cmd != nil {
		_ = cmd.Process.Kill() // gone is fine
		<-ended
	}
}

// give takes the running part out of fell's care; nil if there is none.
func (p *process) give() (*exec.Cmd, io.WriteCloser, chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wanted = false
	return p.cmd, p.in, p.ended
}

// signal pauses the part or lets it go on.
func (p *process) signal(pause bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return pauseProcess(p.cmd.Process, pause)
}

// stop ends the part in good order and waits for all that ever ran.
func (p *process) stop() error {
	defer p.wg.Wait()
	p.life.Lock()
	defer p.life.Unlock()
	cmd, in, ended := p.give()
	if cmd == nil {
		return nil
	}
	_ = in.Close() // closed already if the part is gone
	select {
	case <-ended:
		return nil
	case <-time.After(stopLimit):
		_ = cmd.Process.Kill()
		<-ended
		return errors.New(p.name + " did not end by itself and was killed")
	}
}

// since is when the running part was started, and what parts said that ended by
// themselves.
func (p *process) since() (started int64, crashes []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.started, append([]string(nil), p.crashes...)
}
