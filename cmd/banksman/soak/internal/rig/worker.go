package rig

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/natsd"
	"github.com/banksman/banksman/pkg/run"
)

// BeatEvery is how often a worker beats.
const BeatEvery = 500 * time.Millisecond

// Job is what a worker is started for: it takes a session, beats, asks one request in
// it, and ends the session when it is told of a decision.
type Job struct {
	Owner      string        `json:"owner"`
	Worker     string        `json:"worker"`
	Generation int           `json:"generation"` // from 1, one more each time it comes back
	Request    *hitl.Request `json:"request"`    // its session is the worker's
}

// Word is what a worker says of itself: one of its fields.
type Word struct {
	At       int64          `json:"at"` // the machine's clock in ns, before it was done
	Beat     bool           `json:"beat,omitempty"`
	Opened   bool           `json:"opened,omitempty"` // its request is stored
	Decision *hitl.Decision `json:"decision,omitempty"`
	Ref      string         `json:"ref,omitempty"` // of the decision
	Error    string         `json:"error,omitempty"`
}

// Worker is a worker's process.
type Worker struct {
	cmd   *exec.Cmd
	in    io.Closer
	ended chan struct{} // closed when it was waited for
}

// StartWorker starts a process that does a job. heard is called for each of its words,
// in their order, and not any more once End or Kill has returned.
func (c *Cluster) StartWorker(job Job, heard func(Word)) (*Worker, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	arg, err := json.Marshal(partConfig{
		Part: PartWorker, Creds: natsd.CredentialsFile(c.creds, bus.RoleOwner, bus.DefaultTenant, job.Owner), Job: &job,
	})
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(c.dir, "logs", "workers.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the child has its own
	w := &Worker{cmd: exec.Command(exe, partWord, string(arg)), ended: make(chan struct{})}
	w.cmd.Stderr, w.cmd.SysProcAttr = log, ownGroup()
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(w.ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var word Word
			if json.Unmarshal(lines.Bytes(), &word) == nil { // the last one may be cut
				heard(word)
			}
		}
		_ = w.cmd.Wait() // however it ended
	}()
	return w, nil
}

// Done is closed when the process has ended.
func (w *Worker) Done() <-chan struct{} { return w.ended }

// Kill ends the process at once.
func (w *Worker) Kill() {
	_ = w.cmd.Process.Kill() // gone is fine
	<-w.ended
}

// runWorker is the worker's process.
func runWorker(ctx context.Context, cfg partConfig, log *slog.Logger, out io.Writer) error {
	job := cfg.Job
	creds, err := bus.LoadCredentials(cfg.Creds)
	if err != nil {
		return err
	}
	client, err := bus.Connect(ctx, creds, bus.Options{Worker: job.Worker, Logger: log})
	if err != nil {
		return err
	}
	defer client.Close()
	var mu sync.Mutex
	say := func(w Word) {
		mu.Lock()
		defer mu.Unlock()
		if err := json.NewEncoder(out).Encode(w); err != nil {
			log.Error("nobody listens", "error", err)
		}
	}
	state := &hitl.SessionState{
		SessionID: job.Request.SessionID, Worker: job.Worker, Generation: job.Generation, Runtime: "soak",
		State: hitl.StateAssistantTurn, StartedAt: time.Now().UTC(), StateChangedAt: time.Now().UTC(),
	}
	hold, err := client.Claim(ctx, state)
	if err != nil {
		return fmt.Errorf("take the session: %w", err)
	}
	beats, stop := context.WithCancel(ctx)
	var beating sync.WaitGroup
	beating.Go(func() {
		for ok := true; ok; ok = run.Pause(beats, BeatEvery) {
			at := time.Now()
			if client.Beat(hitl.Beat{Worker: job.Worker, Sessions: []string{state.SessionID}, At: at.UTC()}) == nil {
				say(Word{At: at.UnixNano(), Beat: true})
			}
		}
	})
	defer beating.Wait()
	defer stop()
	a, err := client.Ask(ctx, job.Request, bus.Keep(), bus.OnOpen(func(bus.Opened) {
		say(Word{At: time.Now().UnixNano(), Opened: true})
	}))
	at := time.Now().UnixNano()
	if err != nil {
		say(Word{At: at, Error: err.Error()})
		return err
	}
	say(Word{At: at, Decision: a.Decision, Ref: a.Ref.String()})
	state.State, state.StateChangedAt = hitl.StateDead, time.Now().UTC()
	return hold.State(ctx, state)
}
