package run_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/banksman/banksman/pkg/run"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errBroken = errors.New("broken")

// trail records what happened.
type trail struct {
	mu   sync.Mutex
	seen []string
}

func (t *trail) add(s string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen = append(t.seen, s)
}

func (t *trail) step(name string, startErr, stopErr error) run.Step {
	return run.Step{
		Name:  name,
		Start: func(context.Context) error { t.add("+" + name); return startErr },
		Stop:  func(context.Context) error { t.add("-" + name); return stopErr },
	}
}

func TestLifecycleStartsInOrderAndStopsInReverse(t *testing.T) {
	t.Parallel()
	var tr trail
	l := run.New(nil, tr.step("a", nil, nil), run.Step{Name: "empty"}, tr.step("b", nil, nil), tr.step("c", nil, nil))
	require.NoError(t, l.Start(t.Context()))
	require.ErrorIs(t, l.Start(t.Context()), run.ErrUsed)
	require.NoError(t, l.Stop())
	require.NoError(t, l.Stop(), "once more does nothing")
	require.Equal(t, []string{"+a", "+b", "+c", "-c", "-b", "-a"}, tr.seen)
	require.ErrorIs(t, l.Start(t.Context()), run.ErrUsed)
}

func TestLifecycleUndoesAFailedStart(t *testing.T) {
	t.Parallel()
	var tr trail
	errStop := errors.New("stuck")
	l := run.New(nil, tr.step("a", nil, errStop), tr.step("b", nil, nil), tr.step("c", errBroken, nil), tr.step("d", nil, nil))
	err := l.Start(t.Context())
	require.Equal(t, []string{"+a", "+b", "+c", "-b", "-a"}, tr.seen, "what did not start is not stopped")
	require.ErrorIs(t, err, errBroken)
	require.ErrorIs(t, err, errStop)
	require.ErrorContains(t, err, "start c: broken")
	require.ErrorContains(t, err, "stop a: stuck")
	var se *run.StepError
	require.ErrorAs(t, err, &se)
	require.Equal(t, "c", se.Step)
	require.ErrorIs(t, l.Stop(), errStop)
}

func TestLifecycleStopsTheRestAfterAFailure(t *testing.T) {
	t.Parallel()
	var tr trail
	l := run.New(nil, tr.step("a", nil, errBroken), tr.step("b", nil, errors.New("other")), tr.step("c", nil, nil))
	require.NoError(t, l.Start(t.Context()))
	err := l.Stop()
	require.ErrorIs(t, err, errBroken)
	require.ErrorContains(t, err, "stop b: other")
	require.Equal(t, []string{"+a", "+b", "+c", "-c", "-b", "-a"}, tr.seen)
	require.Equal(t, err, l.Stop(), "every call gives the first result")
}

func TestLifecycleBoundsEachStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var tr trail
		var log bytes.Buffer
		release := make(chan struct{}) // closed below
		slow := run.Step{Name: "slow", StopTimeout: 3 * time.Second, Stop: func(context.Context) error { <-release; return nil }}
		polite := run.Step{Name: "polite", Stop: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}
		l := run.New(slog.New(slog.NewTextHandler(&log, nil)), tr.step("a", nil, nil), slow, polite)
		require.NoError(t, l.Start(t.Context()))
		began := time.Now()
		err := l.Stop()
		require.Equal(t, 3*time.Second+run.DefaultStopTimeout, time.Since(began))
		require.ErrorIs(t, err, run.ErrStopTimeout)
		require.ErrorContains(t, err, "stop slow: did not stop in time (3s)")
		require.ErrorContains(t, err, "stop polite")
		require.Equal(t, []string{"+a", "-a"}, tr.seen)
		require.Contains(t, log.String(), "step=slow")
		close(release)
		synctest.Wait()
	})
}

func TestLifecycleStopDuringStart(t *testing.T) {
	t.Parallel()
	var tr trail
	entered := make(chan struct{}) // closed by the step
	wait := run.Step{Name: "wait", Start: func(ctx context.Context) error {
		close(entered)
		<-ctx.Done()
		return ctx.Err()
	}}
	l := run.New(nil, tr.step("a", nil, nil), wait, tr.step("b", nil, nil))
	result := make(chan error, 1)
	go func() { result <- l.Start(context.Background()) }()
	<-entered
	require.NoError(t, l.Stop())
	require.ErrorIs(t, <-result, context.Canceled)
	require.Equal(t, []string{"+a", "-a"}, tr.seen)
}

func TestLifecycleStartEndsWithItsContext(t *testing.T) {
	t.Parallel()
	var tr trail
	ctx, cancel := context.WithCancel(t.Context())
	cut := run.Step{Name: "cut", Start: func(context.Context) error { cancel(); return nil }}
	l := run.New(nil, tr.step("a", nil, nil), cut, tr.step("b", nil, nil))
	require.ErrorIs(t, l.Start(ctx), context.Canceled)
	require.Equal(t, []string{"+a", "-a"}, tr.seen)
}

func TestLifecycleStopWithoutStart(t *testing.T) {
	t.Parallel()
	var tr trail
	l := run.New(nil, tr.step("a", nil, nil))
	require.NoError(t, l.Stop())
	require.ErrorIs(t, l.Start(t.Context()), run.ErrUsed)
	require.Empty(t, tr.seen)
}

func TestGroupFirstFailureEndsAll(t *testing.T) {
	t.Parallel()
	g := run.NewGroup(t.Context())
	begun := make(chan struct{}) // closed by the first goroutine
	require.True(t, g.Go("worker", func(ctx context.Context) error {
		close(begun)
		<-ctx.Done()
		return ctx.Err()
	}))
	<-begun
	require.True(t, g.Go("reader", func(context.Context) error { return errBroken }))
	<-g.Done()
	require.False(t, g.Go("late", func(context.Context) error { panic("runs") }))
	err := g.Wait()
	require.ErrorIs(t, err, errBroken)
	require.ErrorContains(t, err, "reader: broken")
	require.Equal(t, err, g.Stop())
}

func TestGroupStopIsNoFailure(t *testing.T) {
	t.Parallel()
	g := run.NewGroup(t.Context())
	ended := false
	g.Go("worker", func(ctx context.Context) error {
		<-ctx.Done()
		ended = true
		return ctx.Err()
	})
	require.NoError(t, g.Stop())
	require.True(t, ended, "Stop waits")
	require.NoError(t, g.Stop())
	require.False(t, g.Go("late", func(context.Context) error { return nil }))
}

func TestGroupReportsAFailureWhileStopping(t *testing.T) {
	t.Parallel()
	g := run.NewGroup(t.Context())
	g.Go("worker", func(ctx context.Context) error { <-ctx.Done(); return errBroken })
	require.ErrorIs(t, g.Stop(), errBroken)
}

func TestGroupCanceledErrorOfAnotherContextCounts(t *testing.T) {
	t.Parallel()
	g := run.NewGroup(t.Context())
	g.Go("call", func(context.Context) error { return context.Canceled })
	require.ErrorIs(t, g.Wait(), context.Canceled)
}

func TestGroupWaitLetsThemFinish(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	g := run.NewGroup(ctx)
	sum := make(chan int, 2)
	for i := range 2 {
		g.Go("count", func(context.Context) error { sum <- i + 1; return nil })
	}
	require.NoError(t, g.Wait())
	require.Equal(t, 3, <-sum+<-sum)
	cancel()
	<-g.Done()
}

func TestPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		require.True(t, run.Pause(t.Context(), time.Minute))
		require.Equal(t, time.Minute, time.Since(began))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.False(t, run.Pause(ctx, time.Minute))
		require.Equal(t, time.Minute+time.Second, time.Since(began))
	})
}
