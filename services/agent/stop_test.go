package agent_test

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/services/agent/internal/runtime"
	work "github.com/banksman/banksman/services/agent/internal/worker"
)

// slow is a runtime whose runs end when they are let; no real one can be made to
// take its time.
type slow struct {
	killing, let chan struct{}
	once         *sync.Once
}

func (slow) Name() string { return "demo" }

func (r slow) Start(context.Context, runtime.Spec, runtime.Host) (runtime.Run, error) { return r, nil }

func (slow) Prompt(ctx context.Context, _ runtime.Prompt) error {
	<-ctx.Done() // it stays in the inbox
	return ctx.Err()
}

func (slow) Interrupt(context.Context) error       { return nil }
func (slow) SetMode(context.Context, string) error { return nil }

func (r slow) Kill() {
	r.once.Do(func() { close(r.killing) })
	<-r.let
}

// A session that a person has stopped stays stopped, even when its worker is
// killed before the run has ended.
func TestStop_D1_16_HoldsFromItsReplyOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.demoSetup()
	cred, err := bus.LoadCredentials(w.creds())
	require.NoError(t, err)
	client, err := bus.Connect(t.Context(), cred, bus.Options{})
	require.NoError(t, err)
	defer client.Close()
	rt := slow{make(chan struct{}), make(chan struct{}), &sync.Once{}}
	first, err := work.New(work.Options{
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), Client: client, Pool: "agents", DataDir: s.Data, DefaultCwd: s.Cwd,
		Runtimes: []runtime.Runtime{rt},
	})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- first.Run(ctx) }()
	let := sync.OnceFunc(func() { close(rt.let) })
	defer func() {
		let()
		stop()
		require.NoError(t, <-done)
	}()
	id := w.begin(hitl.Start{Runtime: "demo", Prompt: "hello"})
	w.saw(id, hitl.EventText, "hello")
	require.Equal(t, "ok", w.command(id, hitl.Command{Type: hitl.CommandStop}).Status)
	<-rt.killing
	after := w.copied(s) // as a kill would leave it now
	raw, err := os.ReadFile(after.file(id))
	require.NoError(t, err)
	require.Contains(t, string(raw), `"hello"`, "the prompt waits")
	w.worker(after)
	require.Equal(t, 2, w.reached(id, hitl.StateDead).Generation)
	require.Equal(t, "stopped by a person", w.reached(id, hitl.StateDead).KillReason)
	after.gone(t, id)
}
