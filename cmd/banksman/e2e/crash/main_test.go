package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/services/agent"
)

// patience bounds every wait for something that must happen.
const patience = 2 * time.Minute

const workerCommand = "__worker"

func TestMain(m *testing.M) {
	if len(os.Args) > 2 {
		switch os.Args[1] {
		case agent.GuardCommand:
			os.Exit(agent.RunGuard(os.Args[2:]))
		case workerCommand:
			if err := runWorker(os.Args[2]); err != nil {
				fmt.Fprintln(os.Stderr, "worker:", err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

// setup is what a worker process is told.
type setup struct {
	Creds, Data, Claude, Cwd string
	Env                      []string
}

// runWorker is what banksman-agent does, with a demo that does not wait between
// its words.
func runWorker(arg string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var s setup
	if err := json.Unmarshal([]byte(arg), &s); err != nil {
		return err
	}
	cred, err := bus.LoadCredentials(s.Creds)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	client, err := bus.Connect(ctx, cred, bus.Options{Logger: log})
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	defer client.Close()
	a, err := agent.New(agent.Options{
		Logger: log, Client: client, DataDir: s.Data, ClaudePath: s.Claude, ClaudeEnv: s.Env,
		Guard: []string{os.Args[0], agent.GuardCommand}, DefaultCwd: s.Cwd, DemoPace: -1,
	})
	if err != nil {
		return err
	}
	return a.Run(ctx)
}

// worker is a worker process.
type worker struct {
	cmd     *exec.Cmd
	orderly bool // it ended by itself, with success
}

// start may be called from any goroutine.
func (s setup) start(t *testing.T) (*worker, error) {
	arg, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(os.Args[0], workerCommand, string(arg))
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	return &worker{cmd: cmd}, nil
}

// end sends the signal and waits for the process to be gone. SIGTERM is an
// orderly end and therefore a success, unless it came before the process could
// listen for it.
func (w *worker) end(sig syscall.Signal) error {
	if err := w.cmd.Process.Signal(sig); err != nil {
		return err
	}
	limit := time.AfterFunc(patience, func() { _ = w.cmd.Process.Kill() })
	defer limit.Stop()
	err := w.cmd.Wait()
	w.orderly = err == nil
	status := w.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if err != nil && !(status.Signaled() && status.Signal() == sig) {
		return fmt.Errorf("after the signal %s: %w", sig, err)
	}
	return nil
}
